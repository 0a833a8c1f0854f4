"""A crash at every step of a round: no key loses its last value, and the next round ends what this one began."""

from __future__ import annotations

import copy
import random

import pytest

from odradek.storage.log import Log
from odradek.wire.records.record import records
from tests.support.compaction import CONFIG, Writer, compact
from tests.support.compaction_model import Model, data_batches, state
from tests.support.disk import SimulatedDisk
from tests.support.logs import StillClock, open_log, visible_offsets
from tests.support.unordered_disk import DiskDied, UnorderedDisk

STEPS_MAX = 1000


def filled(clock: StillClock) -> tuple[UnorderedDisk, Log]:
    """A log on its device, with transactions, tombstones, and a part that is clean."""
    disk = UnorderedDisk()
    log = open_log(disk, clock=clock, config=CONFIG)
    writer = Writer(log, random.Random(4), clock=clock)
    for _ in range(2):
        for _ in range(40):
            writer.step()
        writer.end_all()
        log.roll()
        log.flush()
        compact(log, clock=clock, disk=disk)
        clock.advance(CONFIG.delete_retention_ms + 1)
    for _ in range(60):
        writer.step()
    writer.end_all()
    log.roll()
    log.flush()
    disk.sync_directory(log.directory)
    return disk, log


def check_between(model: Model, log: Log) -> None:
    """What holds at any time: last values are there, nothing is new, and readers of committed records see no more."""
    held = {one.offset: one for batch in data_batches(log) for one in records(batch)}
    assert all(model.records[offset] == one for offset, one in held.items())
    newest: dict[bytes, int] = {}
    for offset, one in model.records.items():
        if offset not in model.aborted and one.key is not None:
            newest[one.key] = offset
    for key, offset in newest.items():
        assert model.records[offset].value is None or offset in held, (
            f"{key!r} lost its last value, at {offset}"
        )
    assert set(visible_offsets(log)) == held.keys() - model.aborted


def step_of_the_round(disk: UnorderedDisk, clock: StillClock, cleaned: int, step: int) -> bool:
    """Run a round that dies before one of its calls; whether there was such a call."""
    log = open_log(disk, clock=clock, config=CONFIG, clean=True)
    log.offsets.cleaned_offset = cleaned
    disk.dies_before_call = len(disk.calls) + step
    try:
        compact(log, clock=clock, disk=disk)
    except DiskDied:
        return True
    return False


@pytest.mark.thorough
@pytest.mark.parametrize("is_power_lost", [False, True], ids=["process", "power"])
def test_a_crash_at_any_step_loses_no_last_value(is_power_lost: bool) -> None:
    clock = StillClock()
    original, log = filled(clock)
    model, before, cleaned = Model(log), state(log), log.offsets.cleaned_offset
    # Handles of a copied disk are its own.
    for step in range(STEPS_MAX):
        disk = copy.deepcopy(original)
        disk.kill()
        died = step_of_the_round(disk, clock, cleaned, step)
        if not died:
            break
        disk.dies_before_call = None
        if is_power_lost:
            rng = random.Random(step)
            disk.lose_power([rng.random() < 0.5 for _ in range(disk.unsynced_changes)])
        else:
            disk.kill()
        again = open_log(disk, clock=clock, config=CONFIG, recovery_point=log.recovery_point)
        again.offsets.cleaned_offset = cleaned
        assert state(again) == before
        check_between(model, again)
        assert disk.paths(".cleaned") == disk.paths(".swap") == []
        if step % 7 == 0:
            compact(again, clock=clock, disk=disk)
            model.check(again)
    assert 20 < step < STEPS_MAX


def test_a_full_disk_in_a_round_leaves_the_log_as_it_was() -> None:
    clock = StillClock()
    original, log = filled(clock)
    model, cleaned = Model(log), log.offsets.cleaned_offset
    for room in (0, 100, 300, 600):
        disk: SimulatedDisk = copy.deepcopy(original)
        disk.kill()
        again = open_log(disk, clock=clock, config=CONFIG, clean=True)
        again.offsets.cleaned_offset = cleaned
        disk.capacity_bytes = disk.used_bytes + room
        with pytest.raises(OSError):
            compact(again, clock=clock, disk=disk)
        check_between(model, again)
        disk.capacity_bytes = None
        compact(again, clock=clock, disk=disk)
        model.check(again)
