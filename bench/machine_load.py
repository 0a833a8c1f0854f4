"""A load that costs its sender little: produce requests made once, sent again and again to the leaders of partitions.

    python -m bench.machine_load '{"address": "127.0.0.1:9192", "topic": "t", "partitions": [0, 2], "seconds": 5,
                                   "record_bytes": 1000, "records": 128, "in_flight": 8}'

It prints how many requests were acknowledged, and in how many seconds. A refused request ends it. Each partition has a
connection of its own.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import struct
import sys
import time
from typing import Any, Final, NamedTuple

from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_response, encode_request
from odradek.wire.records.builder import build_batch

PRODUCE_VERSION: Final = 9
ACKNOWLEDGED_BY_ALL: Final = -1
_TIMEOUT_MS: Final = 30_000
_RECEIVE_BYTES: Final = 1 << 20
_SIZE: Final = struct.Struct(">i")


class Load(NamedTuple):
    """What is sent: to one broker, so many records a request, so many requests at a time for each partition."""

    address: str
    topic: str
    partitions: list[int]
    seconds: float
    record_bytes: int
    records: int
    in_flight: int


class _Sender:
    """One partition's connection. Answers are counted, and the first one is read as a whole."""

    def __init__(self, load: Load, partition: int, frame: bytes) -> None:
        host, _, port = load.address.rpartition(":")
        self.connection = socket.create_connection((host, int(port)))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frame = frame
        self._received = b""
        self.partition = partition
        self.acknowledged = 0
        self.under_way = 0

    def send(self) -> None:
        self.connection.sendall(self._frame)
        self.under_way += 1

    def receive(self) -> int:
        """How many answers came."""
        data = self.connection.recv(_RECEIVE_BYTES)
        if not data:
            raise ConnectionError(f"the broker closed the connection of partition {self.partition}")
        self._received += data
        count = 0
        while len(self._received) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._received)
            end = _SIZE.size + size
            if len(self._received) < end:
                break
            if not self.acknowledged:
                check_answer(self._received[_SIZE.size : end])
            self._received = self._received[end:]
            self.acknowledged += 1
            self.under_way -= 1
            count += 1
        return count


def check_answer(body: bytes) -> None:
    """Raises AssertionError for a refusal."""
    _, answer = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, memoryview(body))
    code = answer.responses[0].partition_responses[0].error_code
    assert code == 0, f"a request was refused with the error {code}"


def request_of(load: Load, partition: int) -> bytes:
    """The bytes of the request that is sent over and over."""
    value = os.urandom(load.record_bytes)
    batch = build_batch([(0, None, value) for _ in range(load.records)])
    rows: dict[str, Any] = {"index": partition, "records": bytes(batch)}
    topics = [{"name": load.topic, "partition_data": [rows]}]
    message = messages.request(
        ApiKey.PRODUCE,
        PRODUCE_VERSION,
        transactional_id=None,
        acks=ACKNOWLEDGED_BY_ALL,
        timeout=_TIMEOUT_MS,
        topic_data=topics,
    )
    return encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "bench", message)


def send(load: Load) -> tuple[int, float]:
    """(requests acknowledged, seconds): all that were sent are waited for."""
    senders = [_Sender(load, number, request_of(load, number)) for number in load.partitions]
    began = time.perf_counter()
    with selectors.DefaultSelector() as selector:
        for sender in senders:
            selector.register(sender.connection, selectors.EVENT_READ, sender)
            for _ in range(load.in_flight):
                sender.send()
        while any(sender.under_way for sender in senders):
            for key, _ in selector.select():
                sender = key.data
                answered = sender.receive()
                if time.perf_counter() - began < load.seconds:
                    for _ in range(answered):
                        sender.send()
    seconds = time.perf_counter() - began
    for sender in senders:
        sender.connection.close()
    return sum(sender.acknowledged for sender in senders), seconds


def main() -> int:
    """Send what the argument describes."""
    acknowledged, seconds = send(Load(**json.loads(sys.argv[1])))
    print(json.dumps({"acknowledged": acknowledged, "seconds": seconds}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
