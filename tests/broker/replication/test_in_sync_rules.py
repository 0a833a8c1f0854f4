"""Which follower may come into the in-sync set, by what it has."""

from __future__ import annotations

import pytest

from odradek.broker.replication.in_sync_rules import (
    REPROPOSAL_BACKOFF_SECONDS,
    FollowerState,
    FollowerStates,
)


def leader_of_epoch(*, at: float = 0.0) -> tuple[FollowerStates, FollowerState]:
    """What a new leader, broker 1 with 2 in sync, knows, and the follower that is out: broker 3."""
    followers = FollowerStates(1)
    followers.begin((1, 2, 3), (1, 2), now=at)
    return followers, followers.known[3]


@pytest.mark.parametrize(
    ("offset", "high_watermark", "epoch_start_offset", "expected"),
    [
        (5, 5, 5, True),
        (5, 6, 5, False),
        # A leader that has just been elected may know a high watermark below what was acknowledged.
        (5, 3, 6, False),
        (6, 3, 6, True),
    ],
)
def test_a_follower_joins_with_all_that_is_committed(
    offset: int, high_watermark: int, epoch_start_offset: int, expected: bool
) -> None:
    followers, follower = leader_of_epoch()
    follower.note_fetch(offset=offset, log_start_offset=0, leader_end_offset=9, now=1.0, broker_epoch=7)
    may_join = followers.may_join(
        follower,
        high_watermark=high_watermark,
        epoch_start_offset=epoch_start_offset,
        now=1.0,
        is_eligible=lambda broker, epoch: (broker, epoch) == (3, 7),
    )
    assert may_join is expected


def test_a_refused_follower_is_not_proposed_at_once() -> None:
    followers, follower = leader_of_epoch()
    follower.note_fetch(offset=9, log_start_offset=0, leader_end_offset=9, now=1.0, broker_epoch=7)

    def may_join(now: float) -> bool:
        return followers.may_join(
            follower, high_watermark=9, epoch_start_offset=9, now=now, is_eligible=lambda _, __: True
        )

    followers.propose((1, 2, 3))
    assert not may_join(1.0), "a proposal is open"
    followers.withdraw(now=1.0)
    assert not may_join(1.0)
    assert may_join(1.0 + REPROPOSAL_BACKOFF_SECONDS)
