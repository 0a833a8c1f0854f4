"""What is on the brokers' disks once all is healed and still: the records of each replica, and groups' commits.

Read from the files themselves, not through the brokers: what a broker would say of its log is what is in question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from odradek.broker.coordination.records import kind_of
from odradek.broker.groups.schema import KIND_OFFSET, decode_offset_key, decode_offset_value
from odradek.wire.records.batch import BatchView, split
from odradek.wire.records.checksum import crc32c
from odradek.wire.records.record import Headers, records
from tests.chaos.history import name_of_value
from tests.support.group_commits import LoggedCommits

OFFSETS_TOPIC = "__consumer_offsets"
NAME_HEADER = "id"

TopicPartitionKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """`name` is what its value begins with, `identity` the producer's id and epoch, -1 where it has none."""

    offset: int
    epoch: int
    name: str
    is_control: bool = False
    identity: tuple[int, int] = (-1, -1)


@dataclass(frozen=True, slots=True)
class StoredLog:
    """One replica's log from `start` to its end."""

    start: int
    records: Sequence[StoredRecord]

    @property
    def end(self) -> int:
        return self.records[-1].offset + 1 if self.records else self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalPartition:
    """A partition at the end: its leader, the in-sync set, the leader's high watermark, and the logs by broker."""

    leader: int
    epoch: int
    in_sync: Sequence[int]
    replicas: Sequence[int]
    high_watermark: int
    logs: Mapping[int, StoredLog]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalState:
    """`partitions` are those that clients write to. `compared` are others, whose replicas have to be alike where both
    have a record: each replica is compacted by its own broker. A record is named there by a checksum of its bytes.

    `commits` are those that the log has of each group, by topic and partition.
    """

    partitions: Mapping[TopicPartitionKey, FinalPartition]
    compared: Mapping[TopicPartitionKey, FinalPartition] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()
    commits: Mapping[str, Mapping[TopicPartitionKey, LoggedCommits]] = field(default_factory=dict)
    keyed: Mapping[int, Sequence[tuple[int, str]]] = field(default_factory=dict)
    """Offsets and names of the records in the compacted topic, by broker."""


def whole_batches(data: bytes) -> bytes:
    """Without an incomplete last batch: an answer may end within one, and so may a file that is being written."""
    position = 0
    while position + 12 <= len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if position + size > len(data):
            break
        position += size
    return data[:position]


def batches_of(folder: Path) -> Iterator[BatchView]:
    """Every batch of the log in `folder`, verified. Raises CorruptRecord."""
    for segment in sorted(folder.glob("*.log")):
        for batch in split(memoryview(whole_batches(segment.read_bytes()))):
            batch.verify()
            yield batch


def read_log(folder: Path) -> StoredLog:
    """One replica of a topic whose records are the workload's. Raises CorruptRecord."""
    found = [
        StoredRecord(
            record.offset,
            batch.leader_epoch,
            name_of_value(record.value or b""),
            batch.header.is_control,
            (batch.header.producer_id, batch.header.producer_epoch),
        )
        for batch in batches_of(folder)
        for record in records(batch)
    ]
    return StoredLog(found[0].offset if found else 0, found)


def read_any_log(folder: Path) -> StoredLog:
    """One replica of any topic, each record named by a checksum of its key, value and time."""
    found = [
        StoredRecord(
            record.offset, batch.leader_epoch, _checksum(record.key, record.value, record.timestamp_ms)
        )
        for batch in batches_of(folder)
        for record in records(batch)
    ]
    return StoredLog(found[0].offset if found else 0, found)


def _checksum(key: bytes | None, value: bytes | None, timestamp_ms: int) -> str:
    return f"{crc32c(repr((key, value, timestamp_ms)).encode()):08x}"


def read_keyed(folder: Path) -> list[tuple[int, str]]:
    """One replica of the compacted topic: offsets and names of its records. Raises CorruptRecord."""
    while True:
        before = sorted(folder.glob("*.log"))
        try:
            found = [
                (record.offset, name_of_headers(record.headers))
                for batch in batches_of(folder)
                if not batch.header.is_control
                for record in records(batch)
            ]
        except FileNotFoundError:
            continue  # the broker swaps segments
        if before == sorted(folder.glob("*.log")) and not any(folder.glob("*.swap")):
            return found


def end_of(folder: Path) -> int:
    """The offset behind the last batch of a log."""
    return max((batch.last_offset + 1 for batch in batches_of(folder)), default=0)


def name_of_headers(headers: Headers) -> str:
    """The name of a record of the compacted topic: a deletion has no value to say it."""
    return next((text.decode() for key, text in headers if key == NAME_HEADER and text), "")


def read_commits(folder: Path) -> dict[str, dict[TopicPartitionKey, LoggedCommits]]:
    """The commits in one partition of the offsets topic, by group, topic and partition."""
    found: dict[str, dict[TopicPartitionKey, list[tuple[int, str, int]]]] = {}
    whole_from = next_offset = 0
    for batch in batches_of(folder):
        if batch.base_offset != next_offset:
            whole_from = batch.base_offset
        next_offset = batch.last_offset + 1
        if batch.record_count != next_offset - batch.base_offset:
            whole_from = next_offset
        if batch.header.is_control:
            continue
        for record in records(batch):
            if record.key is not None and record.value is not None and kind_of(record.key) == KIND_OFFSET:
                group, topic, partition = decode_offset_key(record.key)
                committed = decode_offset_value(record.value)
                # confluent-kafka sends the zero after its string, too.
                made = record.offset, committed.metadata.rstrip("\0"), committed.offset
                found.setdefault(group, {}).setdefault((topic, partition), []).append(made)
    return {
        group: {
            key: LoggedCommits(
                [(name, position) for _, name, position in made],
                is_compacted=whole_from > 0,
                compacted_count=sum(1 for offset, *_ in made if offset < whole_from),
            )
            for key, made in keys.items()
        }
        for group, keys in found.items()
    }
