"""A write fails after its records are in the log. They may count, so what the log holds is what is served."""

from __future__ import annotations

import asyncio

import pytest

from odradek.foundation.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotEnoughReplicasAfterAppend,
    RequestTimedOut,
    UnknownMemberId,
)
from tests.support.consumer_members import ConsumerMember, converge
from tests.support.coordinator_world import GroupWorld, in_world, topic_id
from tests.support.stories import told_by

T = topic_id("t")


async def leave_without_an_answer(world: GroupWorld, member: ConsumerMember, failure: Exception) -> None:
    """The removal of a member is in the log, and the replicas are found to be too few for it."""
    world.log.is_held = True
    leaving = asyncio.ensure_future(member.raw(member_epoch=-1))
    await asyncio.sleep(1)
    world.log.uncommitted = 1
    world.log.release(failure)
    assert isinstance(await leaving, CoordinatorNotAvailable)


@pytest.mark.parametrize("failure", [NotEnoughReplicasAfterAppend("one of two"), RequestTimedOut("65 s")])
@told_by(in_world, topics={"t": 4}, partitions=1)
async def test_no_part_of_a_removed_member_comes_back(
    world: GroupWorld, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    leaving, staying = ConsumerMember(world, "leaving"), ConsumerMember(world, "staying")
    await converge([leaving, staying])
    await leave_without_an_answer(world, leaving, failure)
    # Not known yet: what is in the log may be lost with this leader.
    assert isinstance(await leaving.heartbeat(), CoordinatorLoadInProgress)
    world.log.uncommitted = 0
    await world.groups.runtime.wait_until_loaded()
    assert isinstance(await leaving.heartbeat(), UnknownMemberId)
    await converge([staying])
    assert staying.owned == {T: frozenset(range(4))}
    await world.restart()
    await converge([staying])
    assert staying.owned == {T: frozenset(range(4))}
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"][-1] == (
        "the offsets topic, partition 0, is loaded again: its last write may count or not"
    )


@told_by(in_world, topics={"t": 4}, partitions=1)
async def test_a_commit_that_failed_late_is_served_if_it_counts(world: GroupWorld) -> None:
    world.log.is_held = True
    committing = asyncio.ensure_future(world.commit(("t", 0, 7)))
    behind = asyncio.ensure_future(world.commit(("t", 1, 8)))
    await asyncio.sleep(1)
    behind_too = asyncio.ensure_future(world.commit(("t", 2, 9)))
    await asyncio.sleep(1)
    world.log.release(NotEnoughReplicasAfterAppend("one of two"))
    for one in (committing, behind, behind_too):
        (failure,) = await one
        assert isinstance(failure, CoordinatorNotAvailable)
    await world.groups.runtime.wait_until_loaded()
    assert [(row[1], row[2], row[3]) for row in world.groups.offsets.list_committed()] == [
        ("t", 0, 7),
        ("t", 1, 8),
    ]
