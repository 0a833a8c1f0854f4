"""Leaders come from the in-sync set, epochs only grow, and no replica that may lack a record is in sync."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.foundation import errors
from odradek.foundation.ids import TopicPartition
from odradek.metadata.controller import leader_election
from odradek.metadata.image.image import NO_LEADER, PartitionImage

T0 = TopicPartition("t", 0)


def partition(
    leader: int, *isr: int, replicas: tuple[int, ...] = (1, 2, 3), epoch: int = 5, version: int = 7
) -> PartitionImage:
    return PartitionImage(0, leader, epoch, replicas, isr, version)


def test_the_first_live_replica_in_sync_leads() -> None:
    assert leader_election.elect_leader(partition(1, 1, 2, 3), live={2, 3}) == partition(2, 2, 3, epoch=6)
    assert leader_election.elect_leader(partition(1, 1, 3), live={2, 3}) == partition(3, 3, epoch=6)
    assert leader_election.elect_leader(partition(1, 1, 2), live={1, 2}) is None


def test_without_a_live_member_only_an_unclean_election_elects() -> None:
    before = partition(1, 1)
    assert leader_election.elect_leader(before, live={2, 3}) == partition(NO_LEADER, 1, epoch=6)
    assert leader_election.elect_leader(before, live={2, 3}, unclean=True) == partition(2, 2, epoch=6)
    leaderless = partition(NO_LEADER, 1)
    assert leader_election.elect_leader(leaderless, live={2, 3}) is None
    assert leader_election.elect_leader(leaderless, live={1, 2}) == partition(1, 1, epoch=6)
    assert leader_election.elect_leader(leaderless, live=set(), unclean=True) is None


def test_a_follower_that_went_leaves_the_set_within_the_epoch() -> None:
    assert leader_election.without_brokers(partition(1, 1, 2), [2], live={1}) == partition(1, 1)
    assert leader_election.without_brokers(partition(1, 1), [2], live={1}) is None
    assert leader_election.without_brokers(partition(NO_LEADER, 2, 3), [2], live={1}) is None
    assert leader_election.without_brokers(partition(2, 2, 3), [2], live={1, 3}) == partition(3, 3, epoch=6)
    # Both had everything when no leader was left to write to.
    assert leader_election.without_brokers(partition(2, 2, 3), [2, 3], live={1}) == partition(
        NO_LEADER, 2, 3, epoch=6
    )


def test_an_unclean_stop_costs_the_place_in_the_set_where_another_has_it() -> None:
    everyone = {1, 2, 3}
    assert leader_election.after_unclean_stop(partition(1, 1, 2), 1, live=everyone) == partition(
        2, 2, epoch=6
    )
    assert leader_election.after_unclean_stop(partition(2, 1, 2), 1, live=everyone) == partition(2, 2)
    assert leader_election.after_unclean_stop(partition(1, 1), 1, live=everyone) is None
    assert leader_election.after_unclean_stop(partition(NO_LEADER, 1), 1, live=everyone) == partition(
        1, 1, epoch=6
    )
    # The other members have everything, so the election waits for them.
    assert leader_election.after_unclean_stop(partition(1, 1, 2), 1, live={1}) == partition(
        NO_LEADER, 2, epoch=6
    )
    assert leader_election.after_unclean_stop(partition(2, 2), 1, live=everyone) is None


def test_a_shutdown_in_order_moves_what_can_be_moved() -> None:
    assert leader_election.before_shutdown(partition(1, 1, 2), 1, live={1, 2}) == partition(2, 2, epoch=6)
    assert leader_election.before_shutdown(partition(2, 1, 2), 1, live={1, 2}) == partition(2, 2)
    assert leader_election.before_shutdown(partition(1, 1), 1, live={1, 2}) is None
    assert leader_election.before_shutdown(partition(1, 1, 2), 1, live={1}) is None


def test_the_preferred_leader_is_the_first_replica() -> None:
    assert leader_election.elect_preferred(partition(2, 1, 2), live={1, 2}) == partition(1, 1, 2, epoch=6)
    assert leader_election.elect_preferred(partition(2, 2), live={1, 2}) is None
    assert leader_election.elect_preferred(partition(2, 1, 2), live={2}) is None
    assert leader_election.elect_preferred(partition(1, 1, 2), live={1, 2}) is None


def alter(before: PartitionImage, isr: tuple[int, ...], **other: int) -> PartitionImage | None:
    asked = {"by": 1, "leader_epoch": 5, "partition_epoch": 7} | other
    return leader_election.alter_partition(T0, before, isr=isr, eligible={1, 2}, **asked)


def test_a_leader_may_change_its_in_sync_set() -> None:
    assert alter(partition(1, 1, 2), (1,)) == partition(1, 1)
    assert alter(partition(1, 1), (1, 2)) == partition(1, 1, 2)
    assert alter(partition(1, 1, 2), (2, 1)) is None
    # A member of the set need not be eligible to join it.
    assert alter(partition(1, 1, 3), (1, 2, 3)) == partition(1, 1, 2, 3)


@pytest.mark.parametrize(
    ("isr", "other", "error"),
    [
        ((1,), {"by": 2}, errors.NotLeaderOrFollower),
        ((1,), {"leader_epoch": 4}, errors.FencedLeaderEpoch),
        ((1,), {"leader_epoch": 6}, errors.FencedLeaderEpoch),
        ((1,), {"partition_epoch": 6}, errors.InvalidUpdateVersion),
        ((2,), {}, errors.InvalidRequest),
        ((1, 1), {}, errors.InvalidRequest),
        ((1, 9), {}, errors.InvalidRequest),
        ((1, 3), {}, errors.IneligibleReplica),
    ],
)
def test_what_a_leader_may_not_do(
    isr: tuple[int, ...], other: dict[str, int], error: type[errors.RequestError]
) -> None:
    with pytest.raises(error, match="t-0"):
        alter(partition(1, 1, 2), isr, **other)


@st.composite
def partitions(draw: st.DrawFn) -> PartitionImage:
    replicas = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5, unique=True))
    isr = draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
    leader = draw(st.sampled_from([NO_LEADER, *isr]))
    return PartitionImage(0, leader, draw(st.integers(0, 9)), tuple(replicas), tuple(isr), 0)


BROKERS = st.sets(st.integers(1, 5))
RULES: dict[str, Callable[[PartitionImage, int, set[int]], PartitionImage | None]] = {
    "elected": lambda before, _, live: leader_election.elect_leader(before, live=live),
    "gone": lambda before, broker, live: leader_election.without_brokers(
        before, [broker], live=live - {broker}
    ),
    "unclean": lambda before, broker, live: leader_election.after_unclean_stop(
        before, broker, live=live | {broker}
    ),
    "shutdown": lambda before, broker, live: leader_election.before_shutdown(
        before, broker, live=live | {broker}
    ),
    "preferred": lambda before, _, live: leader_election.elect_preferred(before, live=live),
}


@pytest.mark.parametrize("rule", RULES)
@given(before=partitions(), broker=st.integers(1, 5), live=BROKERS)
def test_no_rule_adds_a_replica_to_the_in_sync_set(
    rule: str, before: PartitionImage, broker: int, live: set[int]
) -> None:
    after = RULES[rule](before, broker, live)
    if after is None:
        return
    assert after != before
    assert set(after.isr) <= set(before.isr)
    assert after.isr
    assert after.leader == NO_LEADER or after.leader in after.isr
    assert after.leader_epoch == before.leader_epoch + (after.leader != before.leader)
    assert (after.replicas, after.partition_epoch) == (before.replicas, before.partition_epoch)
