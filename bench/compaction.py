"""Compaction: both brokers clean the same bytes, in turn, each alone with its cleaner and once beside a producer.

A topic is filled while its policy is to delete. Then it becomes a compacted one, which begins the round. How long the
two passes took is what the brokers log of a round, without the wait for it. Keys come ten times each on average.
"""

from __future__ import annotations

import random
import re
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from tempfile import gettempdir

from bench.peers import SETTINGS, Peer, compiled, fresh_topic, storage, usage
from bench.questions import Answers
from odradek.storage.compaction.reading import StoredBatch
from odradek.storage.compaction.vector_map import VectorOffsetMap
from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_response, encode_request
from odradek.wire.records.builder import build_batch
from tests.support.broker_process import Broker
from tests.support.kafka_peer import KafkaPeer
from tests.support.polling import SECONDS_MAX

RECORDS_PER_BATCH = 100
VALUE_BYTES = 100
DUPLICATES = 10
SEGMENT_BYTES = 16 << 20
REQUESTS_IN_FLIGHT = 20
ROUND_SECONDS_MAX = 600
# Of one producer, one record at a time. A round beside it lasts seconds.
LATENCY_SECONDS = 8.0
# Its map is a table of 16 bytes of a key's MD5 and an offset (`SkimpyOffsetMap`).
KAFKAS_SLOT_BYTES = 24
MAP_LOAD_FACTOR = 0.9
CLEANER = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.cleanable.ratio": "0.01"}

_KAFKA_PASSES = re.compile(r"(Indexed|Cleaned) ([\d,.]+) MB in ([\d,.]+) seconds")
_OUR_PASSES = re.compile(r"\. (\d+) keys, .* written in ([\d.]+) \+ ([\d.]+) s")


@dataclass(frozen=True, slots=True)
class Round:
    """What a broker logs of one: seconds of the first and of the second pass."""

    map_seconds: float
    write_seconds: float


def compaction(answers: Answers, disk: str | None, *, rounds: int, records: int) -> None:
    """Ask `rounds` times after a discarded one."""
    compiled()
    answers.add("offset map, a million keys", "odradek", _map_megabytes())
    answers.add("offset map, a million keys", "kafka", KAFKAS_SLOT_BYTES / MAP_LOAD_FACTOR)
    batches = list(_batches(records))
    with storage(disk) as folder:
        settings = SETTINGS | CLEANER
        peers: list[Peer] = [
            Broker(folder / "odradek", settings=settings),
            KafkaPeer(folder / "kafka", settings=settings, quick=False),
        ]
        try:
            for peer in peers:
                peer.start()
            for number in range(rounds + 1):
                kept = answers if number else Answers()
                for peer in peers if number % 2 else peers[::-1]:
                    _alone(peer, kept, batches)
                    _beside_a_producer(peer, kept, batches)
        finally:
            for peer in peers:
                peer.close()


def _map_megabytes() -> float:
    """Memory of a map for a million keys; the file with the keys' bytes is not in it."""
    keys = 1_000_000
    found = VectorOffsetMap(
        capacity_bytes=64 << 20, load_factor=MAP_LOAD_FACTOR, records_max=keys, keys_directory=gettempdir()
    )
    for base in range(0, keys, RECORDS_PER_BATCH * 100):
        stored = []
        for offset in range(base, base + RECORDS_PER_BATCH * 100, RECORDS_PER_BATCH):
            rows = [(0, b"key-%09d" % (offset + one), b"") for one in range(RECORDS_PER_BATCH)]
            stored.append(StoredBatch(memoryview(build_batch(rows, base_offset=offset)), end=0))
        assert not found.add(stored, 0), "the map has room for a million keys"
    assert len(found) == keys
    megabytes = found.size_bytes / 1e6
    found.close()
    return megabytes


def _batches(records: int) -> Iterator[bytes]:
    """Keys of 13 bytes at random, values that do not compress."""
    chance = random.Random(16)
    keys = records // DUPLICATES
    values = [chance.randbytes(VALUE_BYTES) for _ in range(1000)]
    now_ms = int(time.time() * 1000)
    for _ in range(records // RECORDS_PER_BATCH):
        rows = [
            (now_ms, b"key-%09d" % chance.randrange(keys), chance.choice(values))
            for _ in range(RECORDS_PER_BATCH)
        ]
        yield bytes(build_batch(rows))


def _alone(peer: Peer, answers: Answers, batches: Sequence[bytes]) -> None:
    with fresh_topic(peer, 1) as topic:
        records = _fill(peer, topic, batches)
        before = usage(peer).cpu_seconds
        found = _cleaned(peer, topic)
        cpu_seconds = usage(peer).cpu_seconds - before
        megabytes = sum(map(len, batches)) / 1e6
        answers.add("compaction", peer.name, megabytes / (found.map_seconds + found.write_seconds))
        answers.add("CPU, compaction", peer.name, cpu_seconds / (megabytes / 1000))
        answers.add("compaction, first pass", peer.name, found.map_seconds / records * 1e9)
        answers.add("compaction, second pass", peer.name, found.write_seconds / records * 1e9)


def _beside_a_producer(peer: Peer, answers: Answers, batches: Sequence[bytes]) -> None:
    """The 99th percentile of produce requests while a round is at work, as a multiple of that without."""
    with fresh_topic(peer, 1) as written, fresh_topic(peer, 1) as topic:
        _fill(peer, topic, batches)
        with socket.create_connection(("127.0.0.1", peer.port), 30) as connection:
            request = _request(written, build_batch([(int(time.time() * 1000), b"k", b"x" * 100)]))
            _p99_ms(connection, request, until=time.monotonic() + LATENCY_SECONDS / 4)
            quiet_ms = _p99_ms(connection, request, until=time.monotonic() + LATENCY_SECONDS)
            with ThreadPoolExecutor(1) as cleaning:
                done = cleaning.submit(_cleaned, peer, topic)
                took_ms: list[float] = []
                while not done.done():
                    took_ms.append(_exchange_ms(connection, request))
                done.result()
            busy_ms = _percentile_99(took_ms)
    answers.add("produce p99 beside compaction / without", peer.name, busy_ms / quiet_ms)
    answers.add("produce p99 beside compaction", peer.name, busy_ms)


def _p99_ms(connection: socket.socket, request: bytes, *, until: float) -> float:
    took_ms: list[float] = []
    while time.monotonic() < until:
        took_ms.append(_exchange_ms(connection, request))
    return _percentile_99(took_ms)


def _percentile_99(took_ms: list[float]) -> float:
    return sorted(took_ms)[int(len(took_ms) * 0.99)]


def _exchange_ms(connection: socket.socket, request: bytes) -> float:
    began = time.perf_counter()
    connection.sendall(request)
    _check(_response(connection))
    took_ms = (time.perf_counter() - began) * 1000
    # A thousand records a second at most: the cleaner is to have some of the machine.
    time.sleep(0.001)
    return took_ms


def _fill(peer: Peer, topic: str, batches: Sequence[bytes]) -> int:
    """Produce all batches as they are; how many records they have."""
    _configure(peer, topic, {"segment.bytes": str(SEGMENT_BYTES)})
    with socket.create_connection(("127.0.0.1", peer.port), 30) as connection:
        waiting = 0
        for batch in batches:
            connection.sendall(_request(topic, batch))
            waiting += 1
            if waiting == REQUESTS_IN_FLIGHT:
                while waiting:
                    _check(_response(connection))
                    waiting -= 1
        for _ in range(waiting):
            _check(_response(connection))
    return len(batches) * RECORDS_PER_BATCH


def _configure(peer: Peer, topic: str, settings: dict[str, str]) -> None:
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource("topic", topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 4})
    admin.incremental_alter_configs([resource])[resource].result(SECONDS_MAX)


def _cleaned(peer: Peer, topic: str) -> Round:
    """Make the topic a compacted one, and wait for its first round."""
    seen = len(peer.log())
    _configure(peer, topic, {"cleanup.policy": "compact"})
    deadline = time.monotonic() + ROUND_SECONDS_MAX
    while time.monotonic() < deadline:
        found = _round(peer, peer.log()[seen:], topic)
        if found is not None:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{peer.name} has not compacted {topic}: {peer.log()[-2000:]}")


def _round(peer: Peer, log: str, topic: str) -> Round | None:
    if isinstance(peer, Broker):
        (found, *_) = [*_lines(log, f"{topic}-0: compacted up to"), ""]
        passes = _OUR_PASSES.search(found)
        return None if passes is None else Round(float(passes[2]), float(passes[3]))
    _, has_round, rest = log.partition(f"cleaned log {topic}-0")
    seconds = {name: float(text.replace(",", "")) for name, _, text in _KAFKA_PASSES.findall(rest)[:2]}
    return Round(seconds["Indexed"], seconds["Cleaned"]) if has_round and len(seconds) == 2 else None


def _lines(log: str, words: str) -> list[str]:
    # The last one may be half written.
    return [line for line in log.split("\n")[:-1] if words in line]


def _request(topic: str, batch: bytes | bytearray) -> bytes:
    partition = {"index": 0, "records": bytes(batch)}
    fields = {
        "acks": -1,
        "timeout": 30_000,
        "topic_data": [{"name": topic, "partition_data": [partition]}],
    }
    return encode_request(ApiKey.PRODUCE, 9, 1, "bench", messages.request(ApiKey.PRODUCE, 9, **fields))


def _response(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(size, socket.MSG_WAITALL)


def _check(response: bytes) -> None:
    answer = decode_response(ApiKey.PRODUCE, 9, memoryview(response))[1]
    code = answer.responses[0].partition_responses[0].error_code
    assert int(code) == 0, f"a produce request was answered with the error {code}"
