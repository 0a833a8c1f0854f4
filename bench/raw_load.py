"""A load that costs its sender little: requests made once, sent again and again, and answers that are hardly looked at.

    python -m bench.raw_load produce '{"address": "127.0.0.1:9192", "topic": "t", "partitions": [0, 2], "seconds": 5,
                                       "record_bytes": 1000, "records": 128, "in_flight": 8}'
    python -m bench.raw_load consume '{…}'
    python -m bench.raw_load compare '{…}'

`produce` prints how many batches were acknowledged. `consume` reads the partitions from their beginning and throws away
what it reads. `compare` compares it, batch by batch, with what `produce` sends. A refused request, and another batch,
end it with an error. All print their seconds, and those of their own processor: a load that is the limit itself says
nothing about a broker.
"""

from __future__ import annotations

import json
import random
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, NamedTuple

from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_response, encode_request
from odradek.wire.records.builder import build_batch

PRODUCE_VERSION: Final = 9
# The oldest that Kafka still answers: all of its fields have a fixed place.
FETCH_VERSION: Final = 4
ACKNOWLEDGED_BY_ALL: Final = -1
_TIMEOUT_MS: Final = 30_000
_RECEIVE_BYTES: Final = 1 << 20
_FETCH_BYTES: Final = 1 << 20
_SIZE: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">q")
# A broker writes the base offset and the leader's epoch; what follows is as it was sent.
_UNCHANGED_FROM: Final = 16
# An answer has the correlation id, the throttle and the count of topics. Then come the name and the count of
# partitions. The only partition has its number, error, high watermark, last stable offset, count of aborted
# transactions, and bytes of records.
_FETCH_HEAD_BYTES: Final = 12
_FETCH_PARTITION: Final = struct.Struct(">ihqqii")


class RequestRefused(Exception):
    """A broker answered with an error."""


class Load(NamedTuple):
    """What is sent to one broker: so many records for each partition of a request, so many requests at a time on a
    connection. Each partition has a connection of its own, unless a request has all of them (`is_together`).
    """

    address: str
    topic: str
    partitions: list[int]
    seconds: float
    record_bytes: int
    records: int
    in_flight: int
    is_together: bool = False
    connections: int = 1
    timestamp_ms: int = 0
    """Of all records. A broker deletes those that are older than its retention."""


class Done(NamedTuple):
    """What a load has done. `batches` were acknowledged or read; `cpu_seconds` are its own."""

    batches: int
    seconds: float
    cpu_seconds: float


def batch_of(load: Load) -> bytes:
    """The batch that is sent over and over. Its values are random, and the same in every process."""
    values = random.Random(load.record_bytes)
    return bytes(
        build_batch(
            [(load.timestamp_ms, None, values.randbytes(load.record_bytes)) for _ in range(load.records)]
        )
    )


def request_of(load: Load, partitions: Sequence[int]) -> bytes:
    """A Produce request with the batch for each of these partitions."""
    batch = batch_of(load)
    rows: list[dict[str, Any]] = [{"index": number, "records": batch} for number in partitions]
    message = messages.request(
        ApiKey.PRODUCE,
        PRODUCE_VERSION,
        transactional_id=None,
        acks=ACKNOWLEDGED_BY_ALL,
        timeout=_TIMEOUT_MS,
        topic_data=[{"name": load.topic, "partition_data": rows}],
    )
    return encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "bench", message)


class _Sender:
    """One connection that produces. Answers are counted, and the first one is read as a whole."""

    def __init__(self, load: Load, partitions: Sequence[int]) -> None:
        self.connection = _connect(load.address)
        self._frame = request_of(load, partitions)
        self._received = b""
        self._under_way = 0
        self._batches_each = len(partitions)
        self.batches = 0
        self._send(load.in_flight)

    def _send(self, requests: int) -> None:
        self.connection.sendall(self._frame * requests)
        self._under_way += requests

    def receive(self, *, may_send: bool) -> bool:
        self._received += _received(self.connection)
        count = 0
        while len(self._received) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._received)
            end = _SIZE.size + size
            if len(self._received) < end:
                break
            if not self.batches:
                check_answer(self._received[_SIZE.size : end])
            self._received = self._received[end:]
            self.batches += self._batches_each
            count += 1
        self._under_way -= count
        if may_send and count:
            self._send(count)
        return self._under_way > 0


class _Reader:
    """One connection that reads one partition, a fetch after the other, until a fetch finds no more.

    The kernel throws the records away (MSG_TRUNC), unless they are compared: all batches are equal, so their count
    follows from their bytes.
    """

    def __init__(self, load: Load, partition: int, *, is_comparing: bool) -> None:
        self.connection = _connect(load.address)
        self._is_comparing = is_comparing
        self._expected = batch_of(load)
        self._records_each = load.records
        self._frame = bytearray(_fetch_of(load, partition))
        # The offset stands before the partition's size, at the end.
        self._offset_at = len(self._frame) - _SIZE.size - _OFFSET.size
        self._partition_at = _SIZE.size + _FETCH_HEAD_BYTES + 2 + len(load.topic) + _SIZE.size
        self._head_bytes = self._partition_at + _FETCH_PARTITION.size
        self._buffer = bytearray(self._head_bytes + _FETCH_BYTES + len(self._expected))
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._size_bytes = 0
        self._offset = 0
        self.batches = 0
        self.connection.sendall(self._frame)

    def receive(self, *, may_send: bool) -> bool:
        if not self._size_bytes:
            self._fill(self._head_bytes)
            if self._filled < self._head_bytes:
                return True
            self._size_bytes = _SIZE.size + _SIZE.unpack_from(self._buffer)[0]
        if self._filled < self._size_bytes:
            self._fill(self._size_bytes, flags=0 if self._is_comparing else socket.MSG_TRUNC)
            if self._filled < self._size_bytes:
                return True
        is_more = self._take()
        self._filled = self._size_bytes = 0
        if is_more:
            _OFFSET.pack_into(self._frame, self._offset_at, self._offset)
            self.connection.sendall(self._frame)
        return is_more

    def _fill(self, end: int, *, flags: int = 0) -> None:
        read = self.connection.recv_into(self._view[self._filled : end], 0, flags)
        if not read:
            raise ConnectionError("the broker closed the connection")
        self._filled += read

    def _take(self) -> bool:
        """Count the batches of an answer. Returns False where it has none."""
        _, error_code, _, _, aborted, records_bytes = _FETCH_PARTITION.unpack_from(
            self._buffer, self._partition_at
        )
        if error_code:
            raise RequestRefused(f"a fetch from offset {self._offset} has the error {error_code}")
        assert aborted <= 0, f"{aborted} transactions are aborted where there are none"
        count = max(0, records_bytes) // len(self._expected)
        if self._is_comparing:
            self._compare(count)
        self._offset += count * self._records_each
        self.batches += count
        return bool(count)

    def _compare(self, count: int) -> None:
        unchanged = memoryview(self._expected)[_UNCHANGED_FROM:]
        size = len(self._expected)
        for number in range(count):
            start = self._head_bytes + number * size
            (base_offset,) = _OFFSET.unpack_from(self._buffer, start)
            next_offset = self._offset + number * self._records_each
            assert base_offset == next_offset, f"offset {base_offset} was read, {next_offset} is next"
            assert self._view[start + _UNCHANGED_FROM : start + size] == unchanged, (
                f"the batch at offset {base_offset} is not the one that was sent"
            )


def _fetch_of(load: Load, partition: int) -> bytes:
    message = messages.request(
        ApiKey.FETCH,
        FETCH_VERSION,
        replica_id=-1,
        max_wait=0,
        min_bytes=0,
        max_bytes=_FETCH_BYTES,
        isolation_level=0,
        topics=[
            {
                "topic": load.topic,
                "partitions": [
                    {"partition": partition, "fetch_offset": 0, "partition_max_bytes": _FETCH_BYTES}
                ],
            }
        ],
    )
    return encode_request(ApiKey.FETCH, FETCH_VERSION, 1, "bench", message)


def check_answer(body: bytes) -> None:
    """Raises RequestRefused."""
    _, answer = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, memoryview(body))
    codes = {row.error_code for topic in answer.responses for row in topic.partition_responses}
    if codes != {0}:
        raise RequestRefused(f"a request has the errors {codes}")


def _connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _received(connection: socket.socket) -> bytes:
    data = connection.recv(_RECEIVE_BYTES)
    if not data:
        raise ConnectionError("the broker closed the connection")
    return data


def send(load: Load) -> Done:
    """Produce for `seconds`; all that was sent is waited for."""
    groups = [load.partitions] if load.is_together else [[number] for number in load.partitions]
    return _run(load, [partial(_Sender, load, group) for group in groups * load.connections])


def read(load: Load) -> Done:
    """Read all partitions to their ends."""
    return _run(load, [partial(_Reader, load, number, is_comparing=False) for number in load.partitions])


def compare(load: Load) -> Done:
    """Read all partitions to their ends, and compare every batch. Raises AssertionError for another one."""
    return _run(load, [partial(_Reader, load, number, is_comparing=True) for number in load.partitions])


def _run(load: Load, makers: Sequence[Callable[[], _Sender | _Reader]]) -> Done:
    began, cpu_began = time.perf_counter(), time.process_time()
    with ExitStack() as closing, selectors.DefaultSelector() as selector:
        connections = []
        for make in makers:
            one = make()
            closing.enter_context(one.connection)
            connections.append(one)
            selector.register(one.connection, selectors.EVENT_READ, one)
        while selector.get_map():
            for key, _ in selector.select():
                one = key.data
                if not one.receive(may_send=time.perf_counter() - began < load.seconds):
                    selector.unregister(one.connection)
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    return Done(sum(one.batches for one in connections), seconds, cpu_seconds)


def main() -> int:
    """Do what the arguments describe."""
    act = {"produce": send, "consume": read, "compare": compare}[sys.argv[1]]
    print(json.dumps(act(Load(**json.loads(sys.argv[2])))._asdict()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
