"""What tests of the log share: a clock that does not move, batches, and a log on a simulated disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.foundation.ids import TopicPartition
from odradek.storage.append_rules import Origin
from odradek.storage.config import LogConfig
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.files import Disk
from odradek.storage.log import Log
from odradek.wire.records.batch import BatchView, split
from odradek.wire.records.builder import build_batch
from odradek.wire.records.control import build_marker, parse_marker
from odradek.wire.records.record import Record, records

TP = TopicPartition("topic", 0)
DIRECTORY = "logs/topic-0"
START_MS = 1_700_000_000_000


class StillClock:
    """Time moves only when a test moves it."""

    def __init__(self, wall_ms: int = START_MS) -> None:
        self._wall_ms = wall_ms

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic_seconds(self) -> float:
        return (self._wall_ms - START_MS) / 1000

    def advance(self, milliseconds: int) -> None:
        self._wall_ms += milliseconds


def load(manager: LogManager, configs: Callable[[TopicPartition], LogConfig]) -> None:
    """Open every log that is there, one after the other."""
    for job in manager.begin_load(configs):
        job.run()
        manager.end_open(job)
    manager.end_load()


def delete_due(manager: LogManager) -> None:
    """Remove what is due here and now."""
    remove = manager.removal_due()
    if remove is not None:
        remove()


def batch(
    *values: bytes, timestamp_ms: int = START_MS, key: bytes | None = b"key", **fields: Any
) -> bytearray:
    """A batch of one record per value; a value may be empty."""
    return build_batch([(timestamp_ms, key, value) for value in values or (b"value",)], **fields)


def end_transaction(
    log: Log,
    producer_id: int,
    *,
    is_commit: bool,
    epoch: int = 0,
    leader_epoch: int = 0,
    timestamp_ms: int = START_MS,
) -> int:
    """Append a marker as the coordinator does; its offset."""
    marker = build_marker(
        producer_id=producer_id,
        producer_epoch=epoch,
        is_commit=is_commit,
        coordinator_epoch=0,
        timestamp_ms=timestamp_ms,
    )
    return log.append(marker, leader_epoch=leader_epoch, origin=Origin.COORDINATOR).first_offset


def open_log(
    disk: Disk,
    *,
    clock: StillClock | None = None,
    config: LogConfig | None = None,
    clean: bool = False,
    recovery_point: int = 0,
    must_verify: bool = False,
    directory: str = DIRECTORY,
    **more: Any,
) -> Log:
    """The log under test. Without `must_verify` transactions begin without a question to their coordinator."""
    log = Log.open(
        directory,
        TP,
        config=config or LogConfig(),
        disk=disk,
        clock=clock or StillClock(),
        clean=clean,
        recovery_point=recovery_point,
        **more,
    )
    log.producers.rules.must_verify = must_verify
    return log


def stored_batches(log: Log, *, from_offset: int | None = None) -> list[BatchView]:
    """Every batch from an offset on, read as a consumer does."""
    offset = log.log_start_offset if from_offset is None else from_offset
    found: list[BatchView] = []
    while True:
        data = log.read(offset, bytes_max=1 << 30).read()
        if not data:
            return found
        found += split(memoryview(data))
        offset = found[-1].last_offset + 1


def stored_records(log: Log, *, from_offset: int | None = None) -> list[Record]:
    """Every record from an offset on."""
    offset = log.log_start_offset if from_offset is None else from_offset
    return [
        record
        for view in stored_batches(log, from_offset=offset)
        for record in records(view)
        if record.offset >= offset
    ]


def visible_offsets(log: Log) -> list[int]:
    """Offsets of the records, found as Java's consumer does: aborts by first offset, ended by markers."""
    stable = log.producers.transactions.last_stable_offset(high_watermark=log.log_end_offset)
    to_come = sorted(
        log.find_aborted_transactions(log.log_start_offset, stable), key=lambda one: one.first_offset
    )
    aborting: set[int] = set()
    found = []
    for batch in stored_batches(log):
        header = batch.header
        while to_come and to_come[0].first_offset <= header.last_offset:
            aborting.add(to_come.pop(0).producer_id)
        if header.is_control:
            marker = parse_marker(batch)
            if marker is not None and not marker.is_commit:
                aborting.discard(marker.producer_id)
        elif header.base_offset < stable and not (header.is_transactional and header.producer_id in aborting):
            found += [one.offset for one in records(batch)]
    return found
