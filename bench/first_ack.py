"""From exec to the first acknowledged record, asked for with bare requests so that no client's start is measured."""

from __future__ import annotations

import socket
import struct
import threading
import time
from typing import Any

from bench.peers import Peer
from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_response, encode_request
from odradek.wire.records.builder import build_batch

FIRST_ACK_SECONDS_MAX = 60


def first_ack_seconds(peer: Peer) -> float:
    """Start the broker on a new folder; seconds from exec until it has acknowledged a record (acks=all)."""
    requests = _requests("first")
    failed: list[BaseException] = []

    def start() -> None:
        try:
            peer.start()
        except BaseException as error:
            failed.append(error)

    started = time.perf_counter()
    starting = threading.Thread(target=start)
    starting.start()
    try:
        while not _try(peer, requests):
            assert time.perf_counter() - started < FIRST_ACK_SECONDS_MAX, failed
            time.sleep(0.001)
        return time.perf_counter() - started
    finally:
        starting.join()


def _requests(topic: str) -> list[tuple[int, int, bytes]]:
    """Create the topic, then a record to it: (api, version, frame)."""
    asked: list[tuple[int, int, dict[str, Any]]] = [
        (
            ApiKey.CREATE_TOPICS,
            5,
            {"topics": [{"name": topic, "num_partitions": 1, "replication_factor": 1}], "timeout": 5000},
        ),
        (
            ApiKey.PRODUCE,
            9,
            {
                "acks": -1,
                "timeout": 5000,
                "topic_data": [
                    {
                        "name": topic,
                        "partition_data": [
                            {
                                "index": 0,
                                "records": bytes(build_batch([(int(time.time() * 1000), None, b"x" * 100)])),
                            }
                        ],
                    }
                ],
            },
        ),
    ]
    return [
        (api, version, encode_request(api, version, 1, "bench", messages.request(api, version, **fields)))
        for api, version, fields in asked
    ]


def _try(peer: Peer, requests: list[tuple[int, int, bytes]]) -> bool:
    """Whether the record was acknowledged; False when the broker is not there, or not yet."""
    try:
        connection = socket.create_connection(("127.0.0.1", peer.port), 5)
    except OSError:
        return False
    with connection:
        answer: Any = None
        for api, version, frame in requests:
            try:
                connection.sendall(frame)
                size = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))[0]
                body = connection.recv(size, socket.MSG_WAITALL)
            except (OSError, struct.error):
                return False
            answer = decode_response(api, version, memoryview(body))[1]
        code = answer.responses[0].partition_responses[0].error_code
        return int(code) == 0
