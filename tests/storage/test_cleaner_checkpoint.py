"""The cleaner's checkpoint never says that more of a log is compacted than is, whenever the process dies."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable

import pytest

from odradek.foundation.ids import TopicPartition
from odradek.storage.config import LogConfig
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.log import Log
from tests.support.disk import SimulatedDisk
from tests.support.logs import StillClock, batch, load

KEY = TopicPartition("t", 0)
CONFIG = LogConfig(segment_bytes=2000)
CLEANED_OFFSET = 6


def _open(disk: SimulatedDisk) -> LogManager:
    manager = LogManager(["a"], disk=disk, clock=StillClock(), broker_id=1)
    manager.directories.open()
    if manager.directories.cluster_id is None:
        manager.directories.set_cluster_id("abcdefghijklmnopqrstuv")
    load(manager, lambda _: CONFIG)
    return manager


def _log(manager: LogManager) -> Log:
    log = manager.create(KEY, uuid.UUID(int=1), CONFIG)
    while log.log_end_offset < 8:
        log.append(batch(b"some value"), leader_epoch=0)
    return log


def _checkpoint(manager: LogManager) -> None:
    job = manager.begin_cleaner_checkpoint()
    job.run()
    manager.end_checkpoint(job)


def _compacted(disk: SimulatedDisk) -> LogManager:
    manager = _open(disk)
    _log(manager).offsets.cleaned_offset = CLEANED_OFFSET
    _checkpoint(manager)
    return manager


def test_a_round_that_was_noted_is_known_after_a_crash() -> None:
    disk = SimulatedDisk()
    _compacted(disk)
    disk.kill()
    assert _log(_open(disk)).offsets.cleaned_offset == CLEANED_OFFSET


def test_records_that_a_recovery_removed_are_dirty_when_they_are_back() -> None:
    disk = SimulatedDisk()
    _compacted(disk)
    disk.kill()
    disk.flip_bit("a/t-0/00000000000000000000.log", 0)
    manager = _open(disk)
    assert [log.log_end_offset for log in manager.logs()] == [0]
    _log(manager)
    disk.kill()
    assert _log(_open(disk)).offsets.cleaned_offset == 0


CUTS: list[tuple[Callable[[Log], None], int]] = [
    (lambda log: log.truncate_to(2), 2),
    (lambda log: log.truncate_fully_and_start_at(0), -1),
]


@pytest.mark.parametrize(("cut", "cleaned_offset"), CUTS, ids=["truncated", "emptied"])
def test_records_that_another_leader_removed_are_dirty_when_they_are_back(
    cut: Callable[[Log], None], cleaned_offset: int
) -> None:
    disk = SimulatedDisk()
    manager = _compacted(disk)
    # A checkpoint is under way, and ends after the truncation.
    slow = manager.begin_cleaner_checkpoint()
    cut(_log(manager))
    _log(manager)
    slow.run()
    manager.end_checkpoint(slow)
    disk.kill()
    assert _log(_open(disk)).offsets.cleaned_offset == cleaned_offset


def test_a_round_that_is_not_noted_yet_is_lowered_too() -> None:
    disk = SimulatedDisk()
    manager = _open(disk)
    log = _log(manager)
    log.offsets.cleaned_offset = CLEANED_OFFSET
    slow = manager.begin_cleaner_checkpoint()
    log.truncate_to(2)
    _log(manager)
    slow.run()
    disk.kill()
    assert _log(_open(disk)).offsets.cleaned_offset == 2


def test_on_a_full_disk_the_checkpoint_goes() -> None:
    disk = SimulatedDisk()
    manager = _compacted(disk)
    disk.fail_path("a/cleaner-offset-checkpoint.tmp", errno.ENOSPC)
    (log,) = manager.logs()
    log.truncate_to(2)
    _log(manager)
    disk.failing_paths.clear()
    disk.kill()
    assert _log(_open(disk)).offsets.cleaned_offset == -1


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_log_that_is_made_again_begins_dirty(is_noted: bool) -> None:
    disk = SimulatedDisk()
    manager = _compacted(disk) if is_noted else _open(disk)
    _log(manager).offsets.cleaned_offset = CLEANED_OFFSET
    slow = manager.begin_cleaner_checkpoint()
    manager.delete(KEY)
    _log(manager)
    slow.run()
    disk.kill()
    assert _log(_open(disk)).offsets.cleaned_offset == -1


def test_only_a_lowered_offset_is_written_at_once() -> None:
    disk = SimulatedDisk()
    manager = _compacted(disk)
    calls = len(disk.calls)
    log = _log(manager)
    log.truncate_to(CLEANED_OFFSET)
    assert not [path for _, path in disk.calls[calls:] if "cleaner" in path]
    log.truncate_to(CLEANED_OFFSET - 1)
    assert [path for _, path in disk.calls[calls:] if "cleaner" in path]
