"""Bugs of compaction planted on purpose, which need several replicas or a crash: the simulation finds each.

Those that one log shows are in `tests/storage/compaction/test_planted_bugs.py`.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from odradek.broker.replication import cleaner
from odradek.broker.replication.removal_bounds import RemovalBounds
from odradek.storage import loading, segment_swap
from odradek.storage.compaction import cleaning
from odradek.storage.compaction.candidates import cleanable, task_for
from odradek.storage.compaction.offset_map import Retention
from odradek.storage.config import LONG_MAX
from odradek.storage.segment_files import list_files
from odradek.storage.segment_swap import CLEANED_SUFFIX, settle_files
from tests.simulation.planting import Bug, must_find
from tests.support.disk import SimulatedFile

pytestmark = pytest.mark.thorough

ACTORS: Final = ("compaction",)
AWAY: Final = ("away",)
SWAPS: Final = ("crash_in_swap",)
POWER: Final = ("crash_in_swap", "power_loss")
LEADERS: Final = ("isolate_broker", "expire_broker", "heal", "crash")


def _forget_deletions_by_the_clock(patch: pytest.MonkeyPatch) -> None:
    """Tombstones go after delete.retention.ms, as in Apache Kafka, whatever other replicas have."""

    async def own(self: RemovalBounds, partition: Any) -> int:
        return int(partition.log.log_end_offset)

    patch.setattr(RemovalBounds, "find_bound", own)


def _wait_for_no_silent_replica(patch: pytest.MonkeyPatch) -> None:
    """A replica that does not answer does not delay the removal of tombstones."""
    asked = RemovalBounds._ask_replica

    async def hopeful(self: RemovalBounds, broker_id: int, partition: Any) -> int:
        return await asked(self, broker_id, partition) or LONG_MAX

    patch.setattr(RemovalBounds, "_ask_replica", hopeful)


def _forget_deletions_at_once(patch: pytest.MonkeyPatch) -> None:
    """Tombstones go in the first round that meets them."""
    patch.setattr(Retention, "is_over", lambda self, batch: True)


def _compact_what_is_open(patch: pytest.MonkeyPatch) -> None:
    """Records that are not committed, or belong to open transactions, replace others."""
    patch.setattr(
        f"{cleaner.__name__}.cleanable",
        lambda log, **named: cleanable(log, **{**named, "last_stable_offset": log.log_end_offset}),
    )


def _keep_the_old_run(patch: pytest.MonkeyPatch) -> None:
    """A start completes a swap without removing the segments that it replaces."""
    patch.setattr(segment_swap, "_remove_replaced", lambda *_, **__: None)


def _forget_unfinished_swaps(patch: pytest.MonkeyPatch) -> None:
    """A start neither undoes nor completes a swap."""
    patch.setattr(
        f"{loading.__name__}.settle_files", lambda disk, directory, **_: list_files(disk, directory)
    )


def _complete_half_a_swap(patch: pytest.MonkeyPatch) -> None:
    """A start takes a swap for complete although not all of its files have their names yet."""

    def careless(disk: Any, directory: str, *, now_ms: int) -> Any:
        for name in list_files(disk, directory):
            if name.endswith(CLEANED_SUFFIX):
                disk.remove(f"{directory}/{name}")
        return settle_files(disk, directory, now_ms=now_ms)

    patch.setattr(f"{loading.__name__}.settle_files", careless)


def _swap_in_what_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    """New segments are swapped in before they are on the device."""
    sync = SimulatedFile.sync

    def late(self: SimulatedFile) -> None:
        if not self.path.endswith(CLEANED_SUFFIX):
            sync(self)

    patch.setattr(SimulatedFile, "sync", late)


def _note_a_round_before_its_end(patch: pytest.MonkeyPatch) -> None:
    """A log counts as compacted from the beginning of the round on."""

    def hasty(found: Any, **named: Any) -> Any:
        task = task_for(found, **named)
        found.log.offsets.cleaned_offset = found.first_uncleanable_offset
        return task

    patch.setattr(f"{cleaner.__name__}.task_for", hasty)


def _give_up_on_a_full_disk(patch: pytest.MonkeyPatch) -> None:
    """A disk that is full for a moment ends the compaction of a log."""
    patch.setattr(cleaner, "is_shortage", lambda error: False)


def _trust_torn_indexes(patch: pytest.MonkeyPatch) -> None:
    """After a loss of power the indexes of aborted transactions are taken as they are."""
    patch.setattr(loading, "_forget_aborts", lambda segments, first_scanned: None)


def _forget_aborted_transactions(patch: pytest.MonkeyPatch) -> None:
    """A round does not know which transactions were aborted, so their records replace others."""
    patch.setattr(cleaning._CleaningRound, "_read_aborted_transactions", lambda self: [])


LOST: Final = ("I1", "I8", "I10", "I12")

BUGS: Final = [
    Bug(_forget_deletions_by_the_clock, AWAY, ("I8", "I10"), ACTORS, faults=3),
    Bug(_wait_for_no_silent_replica, AWAY, ("I8", "I10"), ACTORS, faults=3),
    Bug(_forget_deletions_at_once, AWAY, ("I8", "I10"), ACTORS, faults=3),
    Bug(_compact_what_is_open, LEADERS, LOST, ACTORS, faults=3, seed_first=14),
    Bug(_forget_unfinished_swaps, SWAPS, LOST, ACTORS, faults=3, seed_first=25),
    Bug(_swap_in_what_is_not_synced, SWAPS, LOST, ACTORS, faults=3, seed_first=18),
    Bug(_note_a_round_before_its_end, SWAPS, ("I10",), ACTORS, faults=3),
    Bug(_give_up_on_a_full_disk, ("full_disk",), ("I12",), ACTORS, faults=3),
    Bug(_forget_aborted_transactions, ("restart",), ("I8", "I10"), ACTORS, faults=3),
    Bug(_trust_torn_indexes, POWER, LOST, ACTORS, faults=3, seed_first=14),
]


@pytest.mark.parametrize("bug", BUGS, ids=[bug.plant.__name__.strip("_") for bug in BUGS])
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    must_find(bug, monkeypatch)
