"""Random schedules of produces, network partitions, elections and crashes keep every invariant; planted bugs do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.broker.replication import follower
from odradek.broker.replication.follower import Follower
from odradek.broker.replication.in_sync_rules import FollowerStates
from odradek.foundation.ids import TopicPartition
from odradek.storage.directories.log_manager import LogManager
from tests.support import planted_bugs
from tests.support.loop import run
from tests.support.replica_chaos import InvariantBroken, ReplicaChaos
from tests.support.replicas import ReplicaCluster

pytestmark = pytest.mark.thorough

STEPS = 60
SEEDS = 30
SEEDS_FOR_A_BUG = 200


async def _one_run(seed: int) -> None:
    async with ReplicaCluster(seed=seed, replica_lag_time_max_ms="2000") as cluster:
        await cluster.create_topic(replicas=(1, 2, 3), min_insync_replicas="2", internal_segment_bytes="4000")
        await ReplicaChaos(cluster).run(STEPS)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_promise_is_broken(seed: int) -> None:
    run(_one_run(seed))


# --- the checker's teeth ----------------------------------------------------------------------------------------------


def _truncate_by_offset_alone(patch: pytest.MonkeyPatch) -> None:
    """A follower takes the end that the leader names, of any epoch, as before KIP-279."""
    patch.setattr(
        follower, "truncation_offset", lambda log, _, end_offset: min(end_offset, log.log_end_offset)
    )


def _count_the_proposed_set_alone(patch: pytest.MonkeyPatch) -> None:
    """A smaller in-sync set counts before the controller has taken it."""

    def count(self: FollowerStates) -> None:
        members = self.proposed or self.in_sync
        self.counted = tuple(one for broker, one in self.known.items() if broker in members)

    patch.setattr(FollowerStates, "_count", count)


def _begin_at_the_end(patch: pytest.MonkeyPatch) -> None:
    """A broker that starts takes all that it holds for committed."""

    class Everything(dict[TopicPartition, int]):
        def pop(self, key: TopicPartition, default: object = None) -> int:
            return 1 << 60

    patch.setattr(LogManager, "read_high_watermarks", lambda _: Everything())


def _take_answers_that_were_overtaken(patch: pytest.MonkeyPatch) -> None:
    """What was asked of one leader is appended under the next."""
    patch.setattr(
        Follower,
        "is_at",
        lambda self, position: position.fetch_offset == self.replica.log.log_end_offset,
    )


BUGS: list[Callable[[pytest.MonkeyPatch], None]] = [
    planted_bugs.acknowledge_at_once,
    planted_bugs.truncate_to_the_high_watermark,
    planted_bugs.skip_the_epoch_of_the_last_record,
    _truncate_by_offset_alone,
    _count_the_proposed_set_alone,
    _begin_at_the_end,
    _take_answers_that_were_overtaken,
]


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__.strip("_"))
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(SEEDS_FOR_A_BUG):
        try:
            run(_one_run(seed))
        except InvariantBroken:
            return
    pytest.fail(f"{SEEDS_FOR_A_BUG} seeds did not find it")
