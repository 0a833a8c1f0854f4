"""A blocking client of a few requests, for tests that need to say exactly what goes over the wire and when.

Left out: retries, metadata, batching. An answer that does not come raises; nothing is tried again.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_response, encode_request
from odradek.wire.records.batch import split
from odradek.wire.records.builder import build_batch
from odradek.wire.records.record import records as records_of

ANSWER_SECONDS_MAX = 30


class ConnectionLostError(Exception):
    """The broker closed the connection, or it broke, before the answer was whole."""


class PlainClient:
    """One connection; requests are answered one by one."""

    def __init__(
        self, port: int, *, host: str = "127.0.0.1", seconds_max: float = ANSWER_SECONDS_MAX
    ) -> None:
        self._socket = socket.create_connection((host, port), seconds_max)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> PlainClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """The decoded answer; raises ConnectionLostError."""
        self._correlation_id += 1
        message = messages.request(api_key, version, **fields)
        frame = encode_request(api_key, version, self._correlation_id, "plain", message)
        body = self.exchange(frame)
        correlation_id, answer = decode_response(api_key, version, memoryview(body))
        assert correlation_id == self._correlation_id, "answers out of order"
        return answer

    def exchange(self, frame: bytes) -> bytes:
        """Send bytes, return the next frame's body; raises ConnectionLostError."""
        try:
            self._socket.sendall(frame)
            (size,) = struct.unpack(">i", self._receive(4))
            return self._receive(size)
        except (ConnectionError, TimeoutError) as error:
            raise ConnectionLostError(str(error)) from error

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            part = self._socket.recv(size - len(received))
            if not part:
                raise ConnectionLostError(f"closed after {len(received)} of {size} bytes")
            received += part
        return bytes(received)

    def create_topic(self, name: str, partitions: int = 1, **configs: Any) -> None:
        settings = [{"name": key.replace("_", "."), "value": str(value)} for key, value in configs.items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": settings}
        answer = self.ask(ApiKey.CREATE_TOPICS, 5, topics=[topic], timeout=10_000)
        assert answer.topics[0].error_code == 0, answer

    def produce(
        self, topic: str, values: Sequence[bytes], *, partition: int = 0, acks: int = -1
    ) -> tuple[int, int]:
        """(error code, base offset) of one batch."""
        now_ms = int(time.time() * 1000)
        batch = bytes(build_batch([(now_ms, None, value) for value in values]))
        data = [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}]
        answer = self.ask(ApiKey.PRODUCE, 9, acks=acks, timeout=10_000, topic_data=data)
        part = answer.responses[0].partition_responses[0]
        return int(part.error_code), part.base_offset

    def fetch_all(self, topic: str, *, partition: int = 0) -> list[bytes]:
        """Every value of a partition from its start to its high watermark."""
        found: list[bytes] = []
        offset = 0
        while True:
            asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 8_000_000}
            answer = self.ask(
                ApiKey.FETCH,
                11,
                max_wait=0,
                min_bytes=0,
                max_bytes=8_000_000,
                session_epoch=-1,
                topics=[{"topic": topic, "partitions": [asked]}],
                rack_id="",
            )
            part = answer.responses[0].partitions[0]
            assert part.error_code == 0, part.error_code
            for batch in split(memoryview(part.records or b"")):
                batch.verify()
                found += [record.value or b"" for record in records_of(batch)]
                offset = batch.last_offset + 1
            if offset >= part.high_watermark:
                return found
