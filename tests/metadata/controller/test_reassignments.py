"""A reassignment keeps what was acknowledged, through crashes and other requests in between."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.foundation.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    NoReassignmentInProgress,
)
from odradek.foundation.ids import TopicPartition
from odradek.metadata.controller import eligible_replicas, leader_election, reassignment_steps
from odradek.metadata.image.image import NO_LEADER, PartitionImage

WHERE = TopicPartition("t", 0)
ALL = range(1, 7)


def partition(
    replicas: tuple[int, ...], *, leader: int | None = None, isr: tuple[int, ...] | None = None
) -> PartitionImage:
    return PartitionImage(
        0, replicas[0] if leader is None else leader, 5, replicas, replicas if isr is None else isr, 9
    )


def having_all(state: PartitionImage) -> set[int]:
    """The replicas that have what was acknowledged."""
    return {*state.isr, *state.elr}


def begun(before: PartitionImage, *wanted: int, min_in_sync: int = 1) -> PartitionImage:
    after = reassignment_steps.begin_move(before, wanted, live=ALL, min_in_sync=min_in_sync)
    assert after is not None
    return after


def test_old_replicas_stay_until_the_new_ones_are_in_sync() -> None:
    moving = begun(partition((1, 2, 3)), 4, 5, 3)
    assert moving == PartitionImage(0, 1, 5, (4, 5, 3, 1, 2), (1, 2, 3), 9, (4, 5), (1, 2))
    assert reassignment_steps.complete_move(moving, live=ALL) is None
    assert reassignment_steps.complete_move(moving._replace(isr=(1, 2, 3, 4)), live=ALL) is None
    done = reassignment_steps.complete_move(moving._replace(isr=(1, 2, 3, 4, 5)), live=ALL)
    assert done == PartitionImage(0, 4, 6, (4, 5, 3), (3, 4, 5), 9)


def test_a_leader_that_stays_begins_an_epoch_without_removed_replicas() -> None:
    moving = begun(partition((1, 2)), 3, 1)
    assert moving.leader_epoch == 5, "no replica has left yet"
    done = reassignment_steps.complete_move(moving._replace(isr=(1, 2, 3)), live=ALL)
    assert done == PartitionImage(0, 1, 6, (3, 1), (1, 3), 9)
    assert begun(partition((1, 2, 3)), 1, 3) == PartitionImage(0, 1, 6, (1, 3), (1, 3), 9)
    back = reassignment_steps.cancel_move(
        WHERE, begun(partition((1, 2)), 1, 2, 3), live=ALL, min_in_sync=1, unclean=False
    )
    assert back == PartitionImage(0, 1, 6, (1, 2), (1, 2), 9)


def test_fewer_replicas_or_another_order_are_done_at_once() -> None:
    assert begun(partition((1, 2, 3)), 2) == PartitionImage(0, 2, 6, (2,), (2,), 9)
    assert begun(partition((1, 2, 3)), 3, 2, 1) == PartitionImage(0, 1, 5, (3, 2, 1), (1, 2, 3), 9)
    assert reassignment_steps.begin_move(partition((1, 2)), (1, 2), live=ALL, min_in_sync=1) is None


def test_fewer_replicas_wait_for_the_one_that_stays() -> None:
    moving = begun(partition((1, 2), isr=(1,)), 2)
    assert (moving.replicas, moving.isr, moving.leader, moving.removing) == ((2, 1), (1,), 1, (1,))


def test_it_waits_while_no_remaining_replica_could_lead() -> None:
    moving = begun(partition((1,)), 2)._replace(isr=(1, 2))
    assert reassignment_steps.complete_move(moving, live=[1]) is None
    done = reassignment_steps.complete_move(moving, live=[1, 2])
    assert done is not None
    assert done.leader == 2


def test_a_cancellation_returns_to_before_both_reassignments() -> None:
    first = begun(partition((1, 2, 3)), 4, 2, 3)._replace(isr=(1, 2, 3, 4))
    second = begun(first, 5, 2, 3)
    assert second == PartitionImage(0, 1, 6, (5, 2, 3, 1), (1, 2, 3), 9, (5,), (1,))
    back = reassignment_steps.cancel_move(WHERE, second, live=ALL, min_in_sync=1, unclean=False)
    assert sorted(back.replicas) == [1, 2, 3]
    assert (back.adding, back.removing, back.isr, back.leader) == ((), (), (1, 2, 3), 1)


def test_a_replica_that_both_reassignments_add_keeps_being_added() -> None:
    first = begun(partition((1, 2)), 3, 4)._replace(isr=(1, 2, 3))
    second = begun(first, 3, 5)
    assert (second.adding, second.removing, second.isr) == ((3, 5), (1, 2), (1, 2, 3))
    assert sorted(reassignment_steps.original(second)) == [1, 2]


def test_a_superseded_replica_that_alone_is_in_sync_stays_until_others_are() -> None:
    first = begun(partition((1,)), 2)._replace(leader=2, leader_epoch=6, isr=(2,))
    second = begun(first, 3)
    assert (second.leader, second.isr) == (2, (2,))
    assert second.removing == (1, 2)
    done = reassignment_steps.complete_move(second._replace(isr=(2, 3)), live=ALL)
    assert done == PartitionImage(0, 3, 7, (3,), (3,), 9)


def test_superseded_replicas_stay_for_min_insync_replicas() -> None:
    first = begun(partition((2, 3)), 1, 3)._replace(isr=(2, 1))
    assert begun(first, 2, 3, min_in_sync=1) == PartitionImage(0, 2, 6, (2, 3), (2,), 9)
    second = begun(first, 2, 3, min_in_sync=2)
    assert second == PartitionImage(0, 2, 5, (2, 3, 1), (2, 1), 9, (), (1,))
    done = reassignment_steps.complete_move(second._replace(isr=(2, 1, 3)), live=ALL)
    assert done == PartitionImage(0, 2, 6, (2, 3), (2, 3), 9)


def test_superseded_replicas_that_are_eligible_count_as_those_in_sync_do() -> None:
    first = begun(partition((1, 3)), 2, 1, 3)._replace(isr=(1,), elr=(2,))
    second = begun(first, 1, 3, min_in_sync=2)
    assert second == PartitionImage(0, 1, 5, (1, 3, 2), (1,), 9, (), (2,), (2,))
    assert begun(first, 1, 3, min_in_sync=1).replicas == (1, 3)


def test_without_a_leader_complete_superseded_replicas_stay() -> None:
    first = begun(partition((1, 3)), 2, 1, 3)._replace(leader=NO_LEADER, isr=(1,), elr=(2,))
    second = reassignment_steps.begin_move(first, (1, 3), live=(3,), min_in_sync=1)
    assert second is not None
    assert (second.replicas, second.isr, second.elr) == ((1, 3, 2), (1,), (2,))


def test_a_cancellation_that_would_lose_records_is_refused() -> None:
    moving = begun(partition((1,)), 2)._replace(leader=2, leader_epoch=6, isr=(2,))
    with pytest.raises(InvalidReplicaAssignment, match="in sync"):
        reassignment_steps.cancel_move(WHERE, moving, live=ALL, min_in_sync=1, unclean=False)
    assert reassignment_steps.cancel_move(WHERE, moving, live=ALL, min_in_sync=1, unclean=True) == partition(
        (1,)
    )._replace(leader_epoch=7)


def test_a_cancellation_waits_for_as_many_in_sync_as_the_topic_asks_for() -> None:
    moving = begun(partition((1, 3)), 2, 1)._replace(isr=(2, 1))
    assert reassignment_steps.cancel_move(WHERE, moving, live=ALL, min_in_sync=1, unclean=False).isr == (1,)
    with pytest.raises(
        InvalidReplicaAssignment, match=r"\[1\] have all that was acknowledged.* 2 have to have all"
    ):
        reassignment_steps.cancel_move(WHERE, moving, live=ALL, min_in_sync=2, unclean=False)
    again = moving._replace(isr=(2, 1, 3))
    assert reassignment_steps.cancel_move(WHERE, again, live=ALL, min_in_sync=2, unclean=False).isr == (1, 3)


def test_nothing_to_cancel() -> None:
    with pytest.raises(NoReassignmentInProgress):
        reassignment_steps.cancel_move(WHERE, partition((1,)), live=ALL, min_in_sync=1, unclean=True)


@pytest.mark.parametrize("wanted", [(), (1, 1), (9,), (1, 9), (-1,), (4,)])
def test_replicas_that_cannot_be(wanted: tuple[int, ...]) -> None:
    with pytest.raises(InvalidReplicaAssignment):
        reassignment_steps.check_target(
            WHERE, partition((1, 2)), wanted, placeable=(1, 2, 3), known=(1, 2, 3, 4), may_change_factor=True
        )


def test_the_factor_changes_only_where_that_is_allowed() -> None:
    moving = begun(partition((1, 2)), 3, 4)
    for wanted, is_allowed, fits in (((5, 6), False, True), ((5,), True, True), ((5, 6, 1), False, False)):
        check = {"placeable": ALL, "known": ALL, "may_change_factor": is_allowed}
        if fits:
            reassignment_steps.check_target(WHERE, moving, wanted, **check)  # type: ignore[arg-type]
        else:
            words = f"^The replication factor is changed from 2 to {len(wanted)}$"
            with pytest.raises(InvalidReplicationFactor, match=words):
                reassignment_steps.check_target(WHERE, moving, wanted, **check)  # type: ignore[arg-type]


def test_a_replica_that_is_away_may_keep_what_it_has() -> None:
    reassignment_steps.check_target(
        WHERE, partition((1, 2)), (3, 2), placeable=(1, 3), known=(1, 3), may_change_factor=False
    )


def test_an_unclean_election_prefers_a_replica_that_was_there_before() -> None:
    moving = begun(partition((1, 2)), 3, 4)._replace(leader=NO_LEADER, isr=(1,))
    led = leader_election.elect_leader(moving, live=[2, 3, 4], unclean=True)
    assert led is not None
    assert led.leader == 2


@given(st.integers(0, 2**32))
def test_every_in_sync_set_has_all_and_every_move_ends(seed: int) -> None:
    """Each broker has what was acknowledged while it was in sync. So a set that shares a member with the set before it
    has lost nothing.
    """
    rng = random.Random(seed)
    state = partition(tuple(rng.sample(ALL, rng.randint(1, 3))))
    min_in_sync = rng.randint(1, 3)
    live = set(ALL)
    for _ in range(30):
        before = state
        match rng.randrange(5):
            case 0:
                wanted = rng.sample(ALL, rng.randint(1, 3))
                state = (
                    reassignment_steps.begin_move(state, wanted, live=live, min_in_sync=min_in_sync) or state
                )
                kept = having_all(before) & set(state.replicas)
                assert len(kept) >= min(len(having_all(before)), min_in_sync, len(wanted))
            case 1 if reassignment_steps.is_under_way(state):
                try:
                    state = reassignment_steps.cancel_move(
                        WHERE, state, live=live, min_in_sync=min_in_sync, unclean=False
                    )
                except InvalidReplicaAssignment:
                    assert len(having_all(state) - set(state.adding)) < len(having_all(state))
                else:
                    kept = having_all(before) & set(state.replicas)
                    assert len(kept) >= min(len(having_all(before)), min_in_sync)
            case 2 if len(live) > 1:
                gone = rng.choice(sorted(live))
                live.discard(gone)
                state = leader_election.without_brokers(state, [gone], live=live) or state
            case 3:
                live.add(rng.choice(ALL))
                state = leader_election.elect_leader(state, live=live) or state
                state = reassignment_steps.complete_move(state, live=live) or state
            case _ if state.leader != NO_LEADER:
                joined = {*state.isr, *(one for one in state.replicas if one in live and rng.random() < 0.5)}
                before = state = state._replace(isr=tuple(one for one in state.replicas if one in joined))
                state = reassignment_steps.complete_move(state, live=live) or state
        state = eligible_replicas.remember_eligible(before, state, min_in_sync=min_in_sync)
        assert set(state.isr) & having_all(before)
        assert state.isr
        assert set(state.isr) <= set(state.replicas)
        assert len(set(state.replicas)) == len(state.replicas)
        assert set(state.adding) | set(state.removing) <= set(state.replicas)
        assert not set(state.adding) & set(state.removing)
        assert state.leader == NO_LEADER or (state.leader in state.isr and state.leader in live)
        assert state.leader_epoch >= before.leader_epoch
        assert state.leader_epoch > before.leader_epoch or state.leader == before.leader
        assert state.leader_epoch > before.leader_epoch or set(state.replicas) >= set(before.replicas)
    live = set(ALL)
    state = leader_election.elect_leader(state, live=live) or state
    state = state._replace(isr=state.replicas)
    state = reassignment_steps.complete_move(state, live=live) or state
    assert not reassignment_steps.is_under_way(state)


def test_a_machine_gets_no_second_replica() -> None:
    machines = {1: "a", 2: "b", 3: "a", 4: "b"}

    def check(before: PartitionImage, *wanted: int) -> None:
        reassignment_steps.check_target(
            WHERE, before, wanted, placeable=ALL, known=ALL, machines=machines, may_change_factor=True
        )

    check(partition((1, 2)), 3, 2)
    check(partition((1, 2)), 3, 4)
    with pytest.raises(InvalidReplicaAssignment, match="the brokers 1 and 3 run on one machine"):
        check(partition((1, 2)), 1, 3)
    # Both have it since before they were one machine, and may keep it until one of them gives it away.
    check(partition((1, 3)), 3, 1)
    check(partition((1, 3)), 1, 3, 5)
    with pytest.raises(InvalidReplicaAssignment, match="run on one machine"):
        check(begun(partition((1, 2)), 3, 2), 1, 3)
