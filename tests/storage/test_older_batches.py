"""Batches that came again after their leader was restarted: a snapshot knows the last of them, the log all."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.foundation.transaction_errors import OutOfOrderSequence
from odradek.storage import log_appender
from odradek.storage.config import LogConfig
from odradek.storage.log import Log
from odradek.storage.log_reader import LogReader
from tests.support.disk import SimulatedDisk
from tests.support.logs import batch, open_log

PRODUCER = 7


def append(log: Log, sequence: int, *, count: int = 1, producer: int = PRODUCER, epoch: int = 0) -> int:
    """The offset that is reported for the batch."""
    values = [b"%d" % (sequence + number) for number in range(count)]
    records = batch(*values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    return log.append(records, leader_epoch=0).first_offset


def restarted(log: Log, disk: SimulatedDisk) -> Log:
    """The log after a clean stop."""
    end = log.log_end_offset
    log.close()
    return open_log(disk, clean=True, recovery_point=end)


def test_the_last_five_batches_are_known_again_after_a_restart() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    offsets = {}
    for sequence in range(8):
        offsets[sequence] = append(log, sequence)
        append(log, 2 * sequence, count=2, producer=8)
    log = restarted(log, disk)
    for sequence in (4, 5, 6, 7, 3):
        assert append(log, sequence) == offsets[sequence]
    with pytest.raises(
        OutOfOrderSequence
    ):  # the sixth from the end: it would be forgotten without a restart, too
        append(log, 2)
    end = log.log_end_offset
    assert append(log, 8) == end, "what follows is written, and once"
    assert append(log, 8) == end
    assert append(log, 14, count=2, producer=8) == offsets[7] + 1


def test_what_was_never_written_is_refused_as_before() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    for sequence in range(3):
        append(log, sequence)
    log = restarted(log, disk)
    with pytest.raises(OutOfOrderSequence):
        append(log, 9)
    with pytest.raises(OutOfOrderSequence):
        append(log, 0, count=2)  # other bounds: not the same batch
    assert append(log, 0) == 0


def test_batches_of_another_epoch_do_not_count() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, 0)
    append(log, 1)
    append(log, 0, epoch=1)
    append(log, 1, epoch=1)
    log = restarted(log, disk)
    assert append(log, 0, epoch=1) == 2


def test_the_log_is_looked_through_once_for_each_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that repeatedly sends wrong sequence numbers must not make the broker read."""
    disk = SimulatedDisk()
    log = open_log(disk)
    for sequence in range(3):
        append(log, sequence)
    log = restarted(log, disk)
    reads = []
    read = LogReader.read

    def counted(self: LogReader, offset: int, **more: Any) -> Any:
        reads.append(offset)
        return read(self, offset, **more)

    monkeypatch.setattr(LogReader, "read", counted)
    for _ in range(5):
        with pytest.raises(OutOfOrderSequence):
            append(log, 50)
    assert len(reads) == 1


def test_many_other_batches_may_lie_between_and_in_other_segments() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, config=LogConfig(segment_bytes=20_000))
    for sequence in range(2):
        append(log, sequence)
    for _ in range(2_000):
        log.append(batch(b"x" * 50), leader_epoch=0)
    append(log, 2)
    log = restarted(log, disk)
    assert [append(log, sequence) for sequence in (0, 1, 2)] == [0, 1, 2_002]


def test_no_more_is_looked_through_than_is_bearable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_appender, "SEARCHED_BYTES_MAX", 50_000)
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, 0)
    for _ in range(2_000):
        log.append(batch(b"x" * 50), leader_epoch=0)
    append(log, 1)
    log = restarted(log, disk)
    with pytest.raises(OutOfOrderSequence):
        append(log, 0)
    assert append(log, 1) == 2_001
