"""The simulation's teeth: bugs planted on purpose are found within a bounded number of seeds, by the right checker."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from odradek.broker.coordination import writer
from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.replication import confirmation, leader
from odradek.broker.replication.confirmation import NEVER
from odradek.broker.replication.in_sync_rules import FollowerStates
from odradek.broker.replication.leader import Leader
from odradek.broker.replication.partition_reader import PartitionRead, PartitionReader
from odradek.client.consumer import group as group_consumer
from odradek.foundation.ids import TopicPartition
from odradek.metadata.controller import (
    eligible_replicas,
    leader_election,
    reassignment_steps,
    terms,
    topic_plans,
)
from odradek.metadata.controller.leadership import Leadership
from odradek.metadata.image import cordons
from odradek.metadata.image.cordons import PlaceableBrokers
from odradek.metadata.image.image import PartitionImage
from odradek.storage import loading
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.log_appender import LogAppender
from odradek.storage.producers import ProducerStates
from odradek.storage.recovery import Recovery
from odradek.storage.sequences import AppendedBatch
from tests.simulation.faults import KINDS
from tests.simulation.planting import Bug, must_find
from tests.support import planted_bugs

pytestmark = pytest.mark.thorough

# The faults that show the bugs of a kind, so that not many seeds are needed.
CRASHES: Final = ("crash", "power_loss")
PARTITIONS: Final = ("isolate_broker", "expire_broker", "heal", "crash")
CONTROLLERS: Final = ("crash_controller", "expire_controller", "lossy_registry")
ROT: Final = ("bit_rot", "power_loss")
SILENCE: Final = ("registry_away", "cut_from_all", "sever_broker", "isolate_broker", "cut_one_way", "heal")


def _serve_above_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Consumers get everything that is in the log."""
    read = PartitionReader.read

    def read_all(self: PartitionReader, *args: Any, **named: Any) -> PartitionRead:
        replica = self._replica
        mark, replica.high_watermark = replica.high_watermark, replica.log.log_end_offset
        try:
            return read(self, *args, **named)
        finally:
            replica.high_watermark = mark

    patch.setattr(PartitionReader, "read", read_all)


def _elect_whoever_is_there(patch: pytest.MonkeyPatch) -> None:
    """The first live replica leads, in sync or not."""
    elected = leader_election.elect_leader

    def any_live(partition: PartitionImage, *, live: Any, unclean: bool = False) -> PartitionImage | None:
        everybody = partition._replace(isr=tuple(one for one in partition.replicas if one in live))
        return elected(everybody, live=live, unclean=True)

    patch.setattr(leader_election, "elect_leader", any_live)


def _forget_an_unclean_stop(patch: pytest.MonkeyPatch) -> None:
    """A broker that is quicker back than its session ends passes for one that was never away."""
    without = Leadership._without_brokers

    def without_those_away(self: Any, topic: str, partition: Any, gone: Any, stayed: Any) -> Any:
        there = {int(name) for name in self._store.registry.tree.children("/brokers/ids")}
        away = [broker for broker in gone if broker not in there]
        return without(self, topic, partition, away, {*stayed, *there}) if away else None

    patch.setattr(Leadership, "_without_brokers", without_those_away)
    patch.setattr(leader_election, "after_unclean_stop", lambda *_, **__: None)


def _forget_who_is_in_sync(patch: pytest.MonkeyPatch) -> None:
    """The high watermark waits for one follower alone."""

    def held(self: FollowerStates, leader_end_offset: int) -> int:
        return min(
            leader_end_offset, max((one.end_offset for one in self.counted), default=leader_end_offset)
        )

    patch.setattr(FollowerStates, "min_held_by_all", held)


def _forget_sequence_numbers(patch: pytest.MonkeyPatch) -> None:
    """A batch that a producer sends again is written again."""

    def check(self: ProducerStates, header: Any, **_: Any) -> AppendedBatch | None:
        return None

    patch.setattr(ProducerStates, "check", check)


def _lead_from_less(patch: pytest.MonkeyPatch) -> None:
    """No replica outside the in-sync set is eligible: its last member leads with what a power failure left."""
    patch.setattr(
        eligible_replicas,
        "remember_eligible",
        lambda before, after, **_: after._replace(elr=(), last_known_elr=()),
    )


def _vouch_for_what_is_gone(patch: pytest.MonkeyPatch) -> None:
    """A broker always reports a clean stop, also after a power failure."""
    patch.setattr(LogManager, "is_complete", property(lambda self: True))


def _trust_the_disk(patch: pytest.MonkeyPatch) -> None:
    """Logs are not scanned after an unclean stop."""

    def nothing(segments: Any, **_: Any) -> Recovery:
        return Recovery(kept=list(segments), removed=[], next_offset=0)

    patch.setattr(loading, "recover", nothing)


def _acknowledge_with_too_few(patch: pytest.MonkeyPatch) -> None:
    """The high watermark moves on below min.insync.replicas."""
    patch.setattr(Leader, "in_sync_needed", property(lambda self: 1))


def _shrink_without_the_controller(patch: pytest.MonkeyPatch) -> None:
    """A lagging follower does not count from the time that its removal is proposed."""

    def propose(self: FollowerStates, members: Any) -> None:
        self.in_sync = self.proposed = frozenset(members)
        self._count()

    patch.setattr(FollowerStates, "propose", propose)


def _lead_in_the_old_epoch(patch: pytest.MonkeyPatch) -> None:
    """A new leader begins no new epoch."""

    def led_by(partition: PartitionImage, leader: int, *, isr: tuple[int, ...]) -> PartitionImage:
        return partition._replace(leader=leader, isr=isr)

    patch.setattr(leader_election, "_with_leader", led_by)


def _end_a_move_too_early(patch: pytest.MonkeyPatch) -> None:
    """The old replicas go before the new ones have caught up."""
    completed = reassignment_steps.complete_move

    def at_once(partition: PartitionImage, *, live: Any) -> PartitionImage | None:
        return completed(partition._replace(isr=partition.replicas), live=live)

    patch.setattr(reassignment_steps, "complete_move", at_once)


def _forget_a_deletion(patch: pytest.MonkeyPatch) -> None:
    """What a controller was deleting when it died is not looked for by the next one."""

    async def none(store: Any) -> dict[str, Any]:
        return {}

    patch.setattr(terms, "find_unfinished_deletions", none)


def _answer_commits_at_once(patch: pytest.MonkeyPatch) -> None:
    """A commit is answered before other brokers have it."""

    async def at_once(outcome: Any) -> int:
        asyncio.ensure_future(outcome).add_done_callback(lambda done: done.cancelled() or done.exception())
        return 0

    patch.setattr(writer, "_value_of", at_once)


def _take_commits_of_anybody(patch: pytest.MonkeyPatch) -> None:
    """A member that was put out of its group commits where it was."""
    patch.setattr(ClassicGroup, "validate_offset_commit", lambda self, by: None)


def _give_everybody_everything(patch: pytest.MonkeyPatch) -> None:
    """The leader of a group assigns each partition to each member."""

    def everything(subscribers: Any, counts: Any) -> Any:
        everywhere = [TopicPartition(topic, number) for topic in counts for number in range(counts[topic])]
        return {one.member_id: everywhere for one in subscribers}

    patch.setattr(group_consumer, "assign_range", everything)


def _believe_for_ever(patch: pytest.MonkeyPatch) -> None:
    """While the registry is silent a leader that was confirmed once stays it."""
    patch.setattr(leader, "is_fresh", lambda as_of, **_: as_of > NEVER)


def _forget_who_may_be_elected(patch: pytest.MonkeyPatch) -> None:
    """While the registry is silent only those count that are proposed or eligible."""
    electable = confirmation.others_electable
    patch.setattr(leader, "others_electable", lambda **sets: electable(**{**sets, "in_sync": ()}))


def _refuse_batches_that_hold_the_start(patch: pytest.MonkeyPatch) -> None:
    """A replica that starts inside a batch waits for one that begins at its start."""
    patch.setattr(LogAppender, "_starts_inside", lambda *_: False)


def _place_only_on_the_living(patch: pytest.MonkeyPatch) -> None:
    """A broker that is away is not known."""
    placed = cordons.placeable

    def only_active(*args: Any, **named: Any) -> PlaceableBrokers:
        return placed(*args, **named)._replace(away={})

    patch.setattr(topic_plans, "placeable", only_active)


def _count_those_away_as_in_sync(patch: pytest.MonkeyPatch) -> None:
    """All replicas of a new partition are in sync, also those on a broker that is away."""
    made = topic_plans.new_partition

    def all_in_sync(number: int, replicas: tuple[int, ...], **named: Any) -> PartitionImage:
        return made(number, replicas, **named)._replace(isr=replicas)

    patch.setattr(topic_plans, "new_partition", all_in_sync)


BUGS: Final = [
    Bug(planted_bugs.acknowledge_at_once, KINDS, ("I1",)),
    Bug(_serve_above_the_high_watermark, KINDS, ("I5",)),
    Bug(planted_bugs.skip_the_epoch_of_the_last_record, PARTITIONS, ("I1", "I2", "I7", "I12"), seed_first=17),
    Bug(planted_bugs.truncate_to_the_high_watermark, PARTITIONS, ("I1", "I2", "I7"), seed_first=12),
    Bug(_elect_whoever_is_there, CRASHES, ("I1", "I2", "I5", "I7")),
    Bug(_forget_an_unclean_stop, CRASHES, ("I1", "I2", "I5", "I7")),
    Bug(_forget_who_is_in_sync, KINDS, ("I1", "I2", "I7"), seed_first=12),
    Bug(_forget_sequence_numbers, KINDS, ("I3", "I4"), seed_first=13),
    Bug(_lead_from_less, CRASHES, ("I1", "I2", "I5", "I7"), seed_first=17),
    Bug(_vouch_for_what_is_gone, CRASHES, ("I1", "I2", "I5", "I7"), seed_first=23),
    Bug(_trust_the_disk, ROT, ("I1", "I2", "I7", "I12"), seed_first=13),
    Bug(_acknowledge_with_too_few, PARTITIONS, ("I1", "I2", "I5", "I7"), seed_first=35),
    Bug(_shrink_without_the_controller, PARTITIONS, ("I1", "I2", "I5", "I7"), seed_first=34),
    Bug(_lead_in_the_old_epoch, PARTITIONS, ("I1", "I2", "I6", "I7", "I12"), seed_first=12),
    Bug(_end_a_move_too_early, PARTITIONS, ("I1", "I2", "I7"), ("admin",), seed_first=13),
    Bug(_forget_a_deletion, CONTROLLERS, ("I12",), ("admin",), seed_first=131),
    Bug(_answer_commits_at_once, PARTITIONS, ("I9",), ("classic",), seed_first=87),
    Bug(_take_commits_of_anybody, ("reset",), ("I9",), ("classic",), seed_first=26),
    Bug(_give_everybody_everything, ("reset",), ("I9",), ("classic",)),
    Bug(_refuse_batches_that_hold_the_start, ("crash",), ("I12",), ("deletions",), faults=1),
    Bug(_place_only_on_the_living, ("reset",), ("I16",), ("newcomers",), faults=1),
    Bug(_count_those_away_as_in_sync, ("reset",), ("I16",), ("newcomers",), faults=1),
    Bug(_believe_for_ever, SILENCE, ("I13",), ("weak",), seed_first=12),
    Bug(_forget_who_may_be_elected, SILENCE, ("I13",), ("weak",), seed_first=12),
]


@pytest.mark.parametrize("bug", BUGS, ids=[bug.plant.__name__.strip("_") for bug in BUGS])
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    must_find(bug, monkeypatch)
