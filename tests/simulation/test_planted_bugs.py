"""The simulation's teeth: bugs planted on purpose are found within a bounded number of seeds, by the right checker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest

from odradek.cluster.image import PartitionImage
from odradek.controller import elections
from odradek.controller.leadership import Leadership
from odradek.log.producers import AppendedBatch, ProducerStates
from odradek.replication.acknowledgements import Waiter, Waiters
from odradek.replication.leader import Followers
from odradek.replication.partition import Partition
from odradek.replication.replica import PartitionRead, Replica
from tests.simulation.faults import KINDS
from tests.simulation.history import InvariantBroken
from tests.simulation.simulation import simulate

Plant = Callable[[pytest.MonkeyPatch], None]

# Where to begin: what comes before finds little with these faults, and every second of `make test` counts.
SEED_FIRST: Final = 11
SEEDS_MAX: Final = 200
FAULTS: Final = 8
# The faults that bring out the bugs of a kind, so that not many seeds are needed.
CRASHES: Final = ("crash", "power_loss")
PARTITIONS: Final = ("isolate_broker", "expire_broker", "heal", "crash")


def _answer_before_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """acks=all is answered as soon as the leader has the record."""

    def add(self: Waiters, waiting: Waiter, offset: int) -> None:
        asyncio.get_running_loop().call_soon(waiting.reached, self, None)

    patch.setattr(Waiters, "add", add)


def _serve_above_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Consumers get whatever is in the log."""
    read = Replica.read

    def read_all(self: Replica, *args: Any, **named: Any) -> PartitionRead:
        mark, self.high_watermark = self.high_watermark, self.log.log_end_offset
        try:
            return read(self, *args, **named)
        finally:
            self.high_watermark = mark

    patch.setattr(Replica, "read", read_all)


def _skip_the_epoch_check(patch: pytest.MonkeyPatch) -> None:
    """A leader does not look whether a follower's last record is of its own history."""
    patch.setattr(Replica, "divergence", lambda *_: None)


def _truncate_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """A replica that begins to follow cuts its log at the high watermark that it knows, as before KIP-101."""
    stop_leading = Partition._stop_leading

    def cut_too(self: Partition) -> None:
        stop_leading(self)
        if self.is_follower:
            self.truncate_to(self.high_watermark)

    patch.setattr(Partition, "_stop_leading", cut_too)


def _elect_whoever_is_there(patch: pytest.MonkeyPatch) -> None:
    """The first live replica leads, in sync or not."""
    elected = elections.elected

    def any_live(partition: PartitionImage, *, live: Any, unclean: bool = False) -> PartitionImage | None:
        everybody = partition._replace(isr=tuple(one for one in partition.replicas if one in live))
        return elected(everybody, live=live, unclean=True)

    patch.setattr(elections, "elected", any_live)


def _forget_an_unclean_stop(patch: pytest.MonkeyPatch) -> None:
    """A broker that is quicker back than its session ends passes for one that was never away."""
    without = Leadership._without

    def without_those_away(self: Any, topic: str, partition: Any, gone: Any, stayed: Any) -> Any:
        there = {int(name) for name in self._store.registry.tree.children("/brokers/ids")}
        away = [broker for broker in gone if broker not in there]
        return without(self, topic, partition, away, {*stayed, *there}) if away else None

    patch.setattr(Leadership, "_without", without_those_away)
    patch.setattr(elections, "after_unclean_stop", lambda *_, **__: None)


def _forget_who_is_in_sync(patch: pytest.MonkeyPatch) -> None:
    """The high watermark waits for one follower alone."""

    def held(self: Followers, leader_end_offset: int) -> int:
        return min(
            leader_end_offset, max((one.end_offset for one in self.counted), default=leader_end_offset)
        )

    patch.setattr(Followers, "held_by_all", held)


def _forget_sequence_numbers(patch: pytest.MonkeyPatch) -> None:
    """A batch that a producer sends again is written again."""

    def check(self: ProducerStates, header: Any, *, is_client: bool = True) -> AppendedBatch | None:
        return None

    patch.setattr(ProducerStates, "check", check)


BUGS: Final[list[tuple[Plant, tuple[str, ...], tuple[str, ...]]]] = [
    (_answer_before_the_high_watermark, KINDS, ("I1",)),
    (_serve_above_the_high_watermark, KINDS, ("I5",)),
    (_skip_the_epoch_check, PARTITIONS, ("I1", "I2", "I7", "I12")),
    (_truncate_to_the_high_watermark, PARTITIONS, ("I1", "I2", "I7")),
    (_elect_whoever_is_there, CRASHES, ("I1", "I2", "I5", "I7")),
    (_forget_an_unclean_stop, CRASHES, ("I1", "I2", "I5", "I7")),
    (_forget_who_is_in_sync, KINDS, ("I1", "I2", "I7")),
    (_forget_sequence_numbers, KINDS, ("I3", "I4")),
]


@pytest.mark.parametrize(
    ("plant", "kinds", "invariants"), BUGS, ids=[plant.__name__.strip("_") for plant, _, _ in BUGS]
)
def test_a_planted_bug_is_found(
    plant: Plant, kinds: tuple[str, ...], invariants: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(SEED_FIRST, SEED_FIRST + SEEDS_MAX):
        try:
            simulate(seed, faults=FAULTS, kinds=kinds)
        except InvariantBroken as found:
            assert str(found).partition(":")[0] in invariants, str(found)
            monkeypatch.undo()
            simulate(seed, faults=FAULTS, kinds=kinds)  # It is the bug that was found.
            return
    pytest.fail(f"{SEEDS_MAX} seeds did not find it")
