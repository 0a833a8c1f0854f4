"""Stories of producing and fetching: what is refused and how, and what is found where."""

from __future__ import annotations

import struct
import time
import uuid
from typing import Any

import crc32c

from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.builder import build_batch
from odradek.wire.records.compression import Compression
from tests.compat.golden.wire import Wire
from tests.support.polling import wait_until


def now_ms() -> int:
    """Read when a story needs it: this module may have been loaded many minutes before."""
    return int(time.time() * 1000)


def make_topic(wire: Wire, name: str, partitions: int = 1, **configs: str) -> Any:
    """A topic, and its id."""
    settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": settings}
    answer = wire.ask_quietly(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=20_000)
    assert answer.topics[0].error_code == 0, answer
    topic_id = answer.topics[0].topic_id
    # A topic is made at the controller; its partitions take offsets a moment later.
    while True:
        asked = {
            "name": name,
            "partitions": [{"partition_index": p, "timestamp": -1} for p in range(partitions)],
        }
        answer = wire.ask_quietly(ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=[asked])
        if all(part.error_code == 0 for part in answer.topics[0].partitions):
            return topic_id
        time.sleep(0.05)


def batch(*values: str, timestamp_ms: int | None = None, key: bytes | None = None, **more: Any) -> bytes:
    """A batch of records with one time, by default now."""
    if timestamp_ms is None:
        timestamp_ms = now_ms()
    return bytes(build_batch([(timestamp_ms, key, value.encode()) for value in values], **more))


def patched(buffer: bytes, position: int, form: str, value: int, *, crc: bool = True) -> bytes:
    """`buffer` with a field overwritten; the CRC is made right again unless `crc` is False."""
    changed = bytearray(buffer)
    struct.pack_into(form, changed, position, value)
    if crc:
        struct.pack_into(">I", changed, 17, crc32c.crc32c(bytes(changed[21:])))
    return bytes(changed)


def produce(
    wire: Wire,
    label: str,
    topic: Any,
    records: bytes | None,
    *,
    version: int = 12,
    acks: int = -1,
    partition: int = 0,
    transactional_id: str | None = None,
) -> Any:
    name = {"topic_id": topic} if version >= 13 else {"name": topic}
    data = [{**name, "partition_data": [{"index": partition, "records": records}]}]
    asked: dict[str, Any] = {"transactional_id": transactional_id, "acks": acks, "timeout": 5000}
    return wire.ask(label, ApiKey.PRODUCE, version, **asked, topic_data=data)


def produce_story(wire: Wire) -> None:
    """Good and bad batches, one by one."""
    topic_id = make_topic(wire, "produced", 2)
    for version in range(3, 13):
        produce(wire, f"version {version}", "produced", batch(f"v{version}"), version=version)
    produce(wire, "version 13 by id", topic_id, batch("by id"), version=13)
    for acks in (1, 2, -2):
        produce(wire, f"acks {acks}", "produced", batch("a"), acks=acks)
    produce(wire, "no such topic", "no-such", batch("a"))

    produce(wire, "no such topic id", uuid.UUID(int=77), batch("a"), version=13)
    produce(wire, "no such partition", "produced", batch("a"), partition=2)
    produce(wire, "partition -1", "produced", batch("a"), partition=-1)
    good = batch("a", "b", "c")
    produce(wire, "two batches", "produced", good + good)
    produce(wire, "no records", "produced", b"")
    produce(wire, "wrong crc", "produced", patched(good, 70, ">B", 0xFF, crc=False))
    produce(wire, "magic 1", "produced", patched(good, 16, ">b", 1, crc=False))
    produce(wire, "magic 3", "produced", patched(good, 16, ">b", 3, crc=False))
    produce(wire, "cut short", "produced", good[:-3])
    produce(wire, "garbage after it", "produced", good + b"\0" * 5)
    produce(wire, "batch length too large", "produced", patched(good, 8, ">i", len(good), crc=False))
    produce(wire, "batch length negative", "produced", patched(good, 8, ">i", -1, crc=False))
    produce(wire, "base offset 5", "produced", patched(good, 0, ">q", 5, crc=False))
    produce(wire, "record count too small", "produced", patched(good, 57, ">i", 2))
    produce(wire, "record count too large", "produced", patched(good, 57, ">i", 4))
    produce(wire, "last offset delta too large", "produced", patched(good, 23, ">i", 7))
    produce(wire, "record count 0", "produced", patched(good, 57, ">i", 0))
    produce(wire, "unknown compression 5", "produced", patched(good, 21, ">h", 5))
    make_topic(wire, "unread")
    produce(wire, "said to be gzip and is not", "unread", patched(good, 21, ">h", 1))
    produce(wire, "control batch", "produced", batch("a", is_control=True))
    written = batch("a", is_transactional=True, producer_id=5, producer_epoch=0, base_sequence=0)
    produce(wire, "transactional without transaction", "produced", written, transactional_id="t")
    produce(wire, "log append time bit", "produced", patched(good, 21, ">h", 8))
    for compression in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        records = batch("a", "b", compression=compression)
        produce(wire, f"compressed by {compression.name}", "produced", records)
    produce(wire, "zstd before version 7", "produced", batch("a", compression=Compression.ZSTD), version=6)
    # The same offset on both brokers only when all above was judged alike.
    produce(wire, "where the log is now", "produced", batch("end"))


def unnamed_transactions_story(wire: Wire) -> None:
    """Batches of a transaction in requests that name no transactional id."""
    topic_id = make_topic(wire, "known", 2)
    records = batch("a", is_transactional=True, producer_id=5, producer_epoch=0, base_sequence=0)
    for version in (3, 8, 9, 12):
        produce(wire, f"version {version}", "known", records, version=version)
        produce(wire, f"version {version}: no such topic", "no-such", records, version=version)
    produce(wire, "by id", topic_id, records, version=13)
    produce(wire, "no such id", uuid.UUID(int=77), records, version=13)
    produce(wire, "no such partition", "known", records, partition=2)
    produce(wire, "acks 2", "known", records, acks=2)
    parts = [{"index": 0, "records": batch("plain")}, {"index": 1, "records": records}]
    asked: dict[str, Any] = {"transactional_id": None, "acks": -1, "timeout": 5000}
    wire.ask(
        "one of two", ApiKey.PRODUCE, 12, **asked, topic_data=[{"name": "known", "partition_data": parts}]
    )


def limits_story(wire: Wire) -> None:
    """Bounds that a topic sets: size, timestamps, keys."""
    make_topic(wire, "small", max_message_bytes="200")
    produce(wire, "fits", "small", batch("x" * 50))
    produce(wire, "too large", "small", batch("x" * 300))
    produce(wire, "too large but compressed small", "small", batch("x" * 3000, compression=Compression.GZIP))
    make_topic(
        wire, "timed", message_timestamp_before_max_ms="1000000", message_timestamp_after_max_ms="1000000"
    )
    produce(wire, "now", "timed", batch("x"))
    produce(wire, "too old", "timed", batch("x", timestamp_ms=now_ms() - 2_000_000))
    produce(wire, "too new", "timed", batch("x", timestamp_ms=now_ms() + 2_000_000))
    produce(wire, "no timestamp", "timed", batch("x", timestamp_ms=-1))
    make_topic(wire, "default-times")
    ahead = batch("x", timestamp_ms=now_ms() + 3_700_000)
    produce(wire, "an hour and more ahead of a default topic", "default-times", ahead)
    produce(wire, "ages ago in a default topic", "default-times", batch("x", timestamp_ms=5))
    produce(wire, "negative timestamp", "default-times", batch("x", timestamp_ms=-5))
    make_topic(wire, "compacted", cleanup_policy="compact")
    produce(wire, "with key", "compacted", batch("x", key=b"k"))
    produce(wire, "without key", "compacted", batch("x"))
    produce(wire, "without key compressed", "compacted", batch("x", compression=Compression.LZ4))
    make_topic(wire, "stamped", message_timestamp_type="LogAppendTime")
    produce(wire, "stamped by the broker", "stamped", batch("x", timestamp_ms=5))
    produce(wire, "stamped by another broker", "stamped", patched(batch("x"), 21, ">h", 8))
    make_topic(wire, "two-replicas-wanted", min_insync_replicas="2")
    produce(wire, "not enough replicas", "two-replicas-wanted", batch("x"))
    produce(wire, "not enough replicas with acks 1", "two-replicas-wanted", batch("x"), acks=1)


def idempotence_story(wire: Wire) -> None:
    """Sequence numbers: in order, again, with a gap, from before, of other epochs."""
    make_topic(wire, "sequenced")
    asked: dict[str, Any] = {"transactional_id": None, "transaction_timeout": 60_000}
    wait_until(
        "producer ids are given",
        lambda: wire.ask_quietly(ApiKey.INIT_PRODUCER_ID, 5, **asked).error_code,
        lambda seen: seen == 0,
    )
    answer = wire.ask("a producer id", ApiKey.INIT_PRODUCER_ID, 5, **asked)
    producer_id = answer.producer_id

    def send(
        label: str, sequence: int, count: int = 1, *, epoch: int = 0, producer: int = producer_id
    ) -> None:
        values = [f"{label} {number}" for number in range(count)]
        records = batch(*values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        produce(wire, label, "sequenced", records)

    send("first", 0, 2)
    send("next", 2, 3)
    send("first again", 0, 2)
    send("gap", 7)
    send("in order after the gap", 5)
    for sequence in range(6, 14):
        send(f"sequence {sequence}", sequence)
    send("long ago", 2, 3)
    send("the last but four again", 10)
    send("part of one before", 3, 1)
    send("new epoch from 1", 1, epoch=1)
    send("new epoch from 0", 0, epoch=1)
    send("old epoch", 14, epoch=0)
    send("unknown producer from 0", 0, producer=producer_id + 4000)
    send("unknown producer from 9", 9, producer=producer_id + 4001)
    send("negative sequence", -1)
    send("negative epoch", 0, epoch=-1)
    for version in range(6):
        wire.ask(f"id version {version}", ApiKey.INIT_PRODUCER_ID, version, **asked)
    described = wire.ask_quietly(
        ApiKey.DESCRIBE_PRODUCERS, 0, topics=[{"name": "sequenced", "partition_indexes": [0]}]
    )
    wire.answers["active producers"] = [
        [part.error_code.name, [(one.producer_epoch, one.last_sequence) for one in part.active_producers]]
        for topic in described.topics
        for part in topic.partitions
    ]
    unknown = [{"name": "sequenced", "partition_indexes": [5]}, {"name": "no-such", "partition_indexes": [0]}]
    wire.ask("producers of unknown partitions", ApiKey.DESCRIBE_PRODUCERS, 0, topics=unknown)


def fetch(
    wire: Wire,
    label: str,
    topic: Any,
    offset: int,
    *,
    version: int = 12,
    partition: int = 0,
    epoch: int = -1,
    max_bytes: int = 1_000_000,
    partition_bytes: int = 1_000_000,
    wait_ms: int = 0,
    min_bytes: int = 1,
    session_id: int = 0,
    session_epoch: int = -1,
    isolation: int = 0,
) -> Any:
    name = {"topic_id": topic} if version >= 13 else {"topic": topic}
    asked = {
        "partition": partition,
        "current_leader_epoch": epoch,
        "fetch_offset": offset,
        "partition_max_bytes": partition_bytes,
    }
    return wire.ask(
        label,
        ApiKey.FETCH,
        version,
        max_wait=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[{**name, "partitions": [asked]}] if topic is not None else [],
    )


def fetch_story(wire: Wire) -> None:
    """Offsets inside and outside the log, bounds in bytes, epochs, sessions."""

    topic_id = make_topic(wire, "fetched", 2)
    for number in range(4):
        produce(wire, f"fill {number}", "fetched", batch(*(f"{number}-{one}" for one in range(3))))
    for version in range(4, 13):
        fetch(wire, f"version {version}", "fetched", 0, version=version)
    for version in range(13, 19):
        fetch(wire, f"version {version}", topic_id, 0, version=version)
    fetch(wire, "from inside a batch", "fetched", 4)
    fetch(wire, "at the end", "fetched", 12)
    fetch(wire, "beyond the end", "fetched", 13)
    fetch(wire, "below the start", "fetched", -1)
    fetch(wire, "one byte", "fetched", 0, max_bytes=1)
    fetch(wire, "one byte of the partition", "fetched", 0, partition_bytes=1)
    fetch(wire, "no bytes of the partition", "fetched", 0, partition_bytes=0)
    fetch(wire, "an empty partition", "fetched", 0, partition=1)
    fetch(wire, "no such partition", "fetched", 0, partition=2)
    fetch(wire, "no such topic", "no-such", 0)
    fetch(wire, "no such topic id", uuid.UUID(int=99), 0, version=16)
    fetch(wire, "the right leader epoch", "fetched", 0, epoch=0)
    fetch(wire, "a later leader epoch", "fetched", 0, epoch=5)
    fetch(wire, "read committed", "fetched", 0, isolation=1)
    fetch(wire, "unknown session", "fetched", 0, session_id=12345, session_epoch=1)
    fetch(wire, "session epoch without session", "fetched", 0, session_id=0, session_epoch=3)
    opened = fetch(wire, "a new session", "fetched", 0, session_epoch=0)
    fetch(wire, "the session goes on", None, 0, session_id=opened.session_id, session_epoch=1)
    fetch(wire, "the session moves on", "fetched", 12, session_id=opened.session_id, session_epoch=2)
    fetch(wire, "nothing new in the session", None, 0, session_id=opened.session_id, session_epoch=3)
    fetch(wire, "a wrong session epoch", None, 0, session_id=opened.session_id, session_epoch=9)
    fetch(wire, "the session is closed", None, 0, session_id=opened.session_id, session_epoch=-1)
    fetch(wire, "and gone", None, 0, session_id=opened.session_id, session_epoch=1)
    most = [{"name": "fetched", "partitions": [{"partition_index": 0, "offset": 8}]}]
    wire.ask("up to two thirds are deleted", ApiKey.DELETE_RECORDS, 2, timeout=5000, topics=most)
    fetch(wire, "below the new start", "fetched", 7)
    fetch(wire, "at the new start", "fetched", 8)


def offsets_story(wire: Wire) -> None:
    """ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""
    make_topic(wire, "listed", 2)
    for number in range(5):
        produce(
            wire, f"fill {number}", "listed", batch(f"{number}", timestamp_ms=1_700_000_000_000 + number * 10)
        )
    produce(wire, "fill late one", "listed", batch("early", timestamp_ms=1_700_000_000_005))

    def ask(
        label: str,
        timestamp: int,
        *,
        version: int = 10,
        partition: int = 0,
        topic: str = "listed",
        epoch: int = -1,
        isolation: int = 0,
    ) -> None:
        parts = [{"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": epoch}]
        more: dict[str, Any] = {"replica_id": -1, "isolation_level": isolation}
        topics = [{"name": topic, "partitions": parts}]
        answer = wire.ask_quietly(ApiKey.LIST_OFFSETS, version, **more, topics=topics)
        (part,) = answer.topics[0].partitions
        found = part.timestamp
        wire.answers[label] = {
            "error": part.error_code.name,
            "offset": part.offset,
            "epoch": getattr(part, "leader_epoch", None),
            "timestamp": found
            if isinstance(found, int) or found is None
            else round(found.timestamp() * 1000),
        }

    for version in range(1, 11):
        ask(f"latest in version {version}", -1, version=version)
        ask(f"earliest in version {version}", -2, version=version)
        ask(f"by time in version {version}", 1_700_000_000_015, version=version)
    for timestamp in (-3, -4, -5, -6, -7, 0, 1_700_000_000_000, 1_700_000_000_040, 1_700_000_000_041):
        ask(f"time {timestamp}", timestamp)
    ask("max timestamp in version 6", -3, version=6)
    ask("max timestamp of an empty partition", -3, partition=1)
    ask("time 0 of an empty partition", 0, partition=1)
    ask("no such partition", -1, partition=7)
    ask("no such topic", -1, topic="no-such")
    ask("right epoch", -1, epoch=0)
    ask("later epoch", -1, epoch=3)
    ask("read committed", -1, isolation=1)
    twice = [
        {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1} for timestamp in (-1, -2)
    ]
    topics = [{"name": "listed", "partitions": twice}]
    wire.ask("a partition twice", ApiKey.LIST_OFFSETS, 10, replica_id=-1, topics=topics)
    for epoch, current in ((0, -1), (0, 0), (1, -1), (-1, -1), (0, 4)):
        parts = [{"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}]
        of: dict[str, Any] = {"replica_id": -1, "topics": [{"topic": "listed", "partitions": parts}]}
        for version in (2, 3, 4):
            label = f"end of epoch {epoch} at {current} in version {version}"
            wire.ask(label, ApiKey.OFFSET_FOR_LEADER_EPOCH, version, **of)
    for offset in (-2, 7, 2, 1, -1):
        asked = [{"name": "listed", "partitions": [{"partition_index": 0, "offset": offset}]}]
        wire.ask(f"delete up to {offset}", ApiKey.DELETE_RECORDS, 2, timeout=5000, topics=asked)
    ask("earliest after deleting", -2)
    ask("time 0 after deleting", 0)
    make_topic(wire, "compact-only", cleanup_policy="compact")
    for topic, partition in (("listed", 9), ("no-such", 0), ("compact-only", 0)):
        asked = [{"name": topic, "partitions": [{"partition_index": partition, "offset": 0}]}]
        wire.ask(f"delete in {topic} {partition}", ApiKey.DELETE_RECORDS, 1, timeout=5000, topics=asked)


STORIES = {
    "produce": produce_story,
    "unnamed-transactions": unnamed_transactions_story,
    "limits": limits_story,
    "idempotence": idempotence_story,
    "fetch": fetch_story,
    "offsets": offsets_story,
}
