"""Every write and every sync fails once, with a full disk and with a broken one.

After a full disk the log continues when there is room; after a broken one it refuses everything until a restart. Either
way nothing that was acknowledged is lost, nothing that was refused appears, and reading never sees a torn batch.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial

import pytest

from odradek.foundation.errors import KafkaStorageError
from odradek.storage.config import LogConfig
from odradek.storage.loading import LogLoader
from odradek.storage.log import Log
from tests.support.disk import SimulatedDisk
from tests.support.logs import START_MS, StillClock, batch, open_log, stored_records

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=50, retention_bytes=2000)


class Story:
    """Appends, flushes, rolls, deletes and closes; keeps what was acknowledged."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.acknowledged: dict[int, bytes] = {}
        self.flushed = 0
        self.failures: list[str] = []
        self.log: Log | None = None

    def run(self) -> None:
        self._try(self._open)
        if self.log is None:
            # The log could not even be opened: the fault is over, the next try has to do.
            self._open()
        log = self.log
        assert log is not None
        for number in range(24):
            value = b"value-%02d" % number + b"." * 40
            self._try(partial(self._append, value))
            if number % 7 == 6:
                self._try(self._flush)
            if number == 15:
                self._try(log.delete_old_segments)
            if number == 20:
                self._try(log.roll)
        self._try(log.close)

    def _try(self, step: Callable[[], object]) -> None:
        try:
            step()
        except KafkaStorageError as error:
            self.failures.append(str(error))

    def _open(self) -> None:
        self.log = open_log(self.disk, config=CONFIG, clock=StillClock())

    def _append(self, value: bytes) -> None:
        assert self.log is not None
        result = self.log.append(
            batch(value, producer_id=4, producer_epoch=0, base_sequence=len(self.acknowledged)),
            leader_epoch=len(self.acknowledged) // 9,
        )
        assert not result.is_duplicate
        assert result.first_offset == len(self.acknowledged), "an offset was skipped or given twice"
        self.acknowledged[result.first_offset] = value

    def _flush(self) -> None:
        assert self.log is not None
        self.log.flush()
        self.flushed = self.log.recovery_point

    def check(self, log: Log) -> None:
        kept = {record.offset: record.value for record in stored_records(log)}
        assert kept == {
            offset: value for offset, value in self.acknowledged.items() if offset >= log.log_start_offset
        }


def _calls() -> list[tuple[str, str]]:
    disk = SimulatedDisk()
    story = Story(disk)
    story.run()
    assert not story.failures
    assert len(story.acknowledged) == 24
    return disk.calls


CALLS = _calls()


@pytest.mark.parametrize("part", [0.0, 0.4], ids=["nothing written", "torn"])
@pytest.mark.parametrize("number", range(len(CALLS)), ids=lambda number: f"{number}-{CALLS[number][0]}")
def test_a_full_disk(number: int, part: float) -> None:
    disk = SimulatedDisk()
    disk.fail_call(number, errno.ENOSPC, written_part=part)
    story = Story(disk)
    story.run()

    log = story.log
    assert log is not None
    if log.failure is None:
        story.check(log)
    # For lack of room, only a sync or a truncation may make the log fail.
    elif log.failure != "it was closed":
        assert CALLS[number][0] in ("sync", "sync directory", "truncate", "write", "rename", "create")
    recovery_point = log.recovery_point
    disk.kill()
    story.check(open_log(disk, config=CONFIG, recovery_point=recovery_point))


@pytest.mark.parametrize("number", range(len(CALLS)), ids=lambda number: f"{number}-{CALLS[number][0]}")
def test_a_broken_disk(number: int) -> None:
    disk = SimulatedDisk()
    disk.fail_call(number, errno.EIO, written_part=0.3)
    failed: list[str] = []
    story = Story(disk)
    story._open = lambda: _open_reporting(story, failed)  # type: ignore[method-assign]
    story.run()

    log = story.log
    assert log is not None
    assert story.failures, "an error of the disk was swallowed"
    if log.failure is not None and log.failure != "it was closed":
        assert failed == [log.parent_directory]
        with pytest.raises(KafkaStorageError):
            log.read(0, bytes_max=100)
        with pytest.raises(KafkaStorageError):
            log.append(batch(), leader_epoch=0)
    disk.kill()
    story.check(open_log(disk, config=CONFIG, recovery_point=log.recovery_point))


def _open_reporting(story: Story, failed: list[str]) -> None:
    story.log = open_log(story.disk, config=CONFIG, on_failure=lambda path, _: failed.append(path))


def test_a_log_that_cannot_be_opened_says_why_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "d/orders-0")

    monkeypatch.setattr(LogLoader, "load", fail)
    with pytest.raises(KafkaStorageError, match=r"cannot be opened: No space left on device: d/orders-0$"):
        open_log(SimulatedDisk())


def test_writes_continue_when_there_is_room_and_reads_never_stop() -> None:
    disk = SimulatedDisk(capacity_bytes=3000)
    log = open_log(disk, config=LogConfig(segment_bytes=100_000))
    count = 0
    refused = None
    while refused is None:
        try:
            log.append(batch(b"%04d" % count + b"x" * 100), leader_epoch=0)
            count += 1
        except KafkaStorageError as error:
            refused = str(error)
    assert "No space left on device" in refused and "make room" in refused
    assert count > 10
    for _ in range(3):
        with pytest.raises(KafkaStorageError):
            log.append(batch(b"y" * 500), leader_epoch=0)
        assert len(stored_records(log)) == count
    disk.capacity_bytes = 10_000
    assert log.append(batch(b"again"), leader_epoch=0).first_offset == count
    log.close()
    assert len(stored_records(open_log(disk, clean=True))) == count + 1


def test_a_write_that_cannot_be_truncated_fails_the_log() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    log.append(batch(b"first"), leader_epoch=0)
    disk.fail_call(0, errno.ENOSPC, written_part=0.5)
    disk.fail_call(1, errno.EIO)
    with pytest.raises(KafkaStorageError):
        log.append(batch(b"second"), leader_epoch=0)
    with pytest.raises(KafkaStorageError, match="restart the broker"):
        log.read(0, bytes_max=10)
    disk.kill()
    log = open_log(disk)
    assert [record.value for record in stored_records(log)] == [b"first"]


def test_a_failed_read_is_a_failure_of_the_disk() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    for _ in range(3):
        log.append(batch(b"x" * 100, timestamp_ms=START_MS), leader_epoch=0)
    disk.fail_path("logs/topic-0", errno.EIO)
    with pytest.raises(KafkaStorageError):
        log.read(1, bytes_max=10)
    assert log.failure is not None
