"""Committed offsets: stored, read, expired, forgotten with their topics."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.broker.groups import administration
from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.foundation.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidCommitOffsetSize,
    KafkaStorageError,
    NonEmptyGroup,
    NotCoordinator,
    NotEnoughReplicas,
    OdradekError,
    RebalanceInProgress,
    RecordTooLarge,
    UnknownMemberId,
    UnknownServerError,
)
from tests.support.consumer_members import ConsumerMember
from tests.support.coordinator_world import GroupWorld, in_world, result_of, turns
from tests.support.stories import told_by

DAY = 86_400


async def commit(
    world: GroupWorld, *commits: tuple[str, int, int], group_id: str = "g", **fields: Any
) -> list[OdradekError | None]:
    values: dict[str, Any] = {"member_id": "", "instance_id": None, "generation": -1, "version": 9, **fields}
    now_ms = world.clock.wall_ms()
    offsets = [
        (topic, partition, OffsetAndMetadata(offset, 3, f"note {offset}", now_ms))
        for topic, partition, offset in commits
    ]
    return await result_of(world.groups.offsets.commit(group_id, commits=offsets, **values))


@told_by(in_world)
async def test_what_is_committed_is_read_with_its_note_and_epoch(world: GroupWorld) -> None:
    assert await commit(world, ("t", 0, 5), ("u", 1, 6)) == [None, None]
    found = world.groups.offsets.fetch("g", member_id=None, member_epoch=-1, partitions=[("t", 0), ("t", 1)])
    assert list(found) == [("t", 0)]
    assert found["t", 0][:3] == (5, 3, "note 5")
    assert world.committed("stranger") == {}
    assert sorted(world.groups.offsets.list_committed()) == [("g", "t", 0, 5), ("g", "u", 1, 6)]
    before = world.committed()
    await world.restart()
    assert world.committed() == before
    assert world.groups.admin.list_groups() == [administration.GroupOverview("g", "", "Empty", "classic")]


@told_by(in_world, partitions=1)
async def test_commits_of_one_turn_share_an_append(world: GroupWorld) -> None:
    outcomes = await asyncio.gather(
        *[commit(world, ("t", 0, number), group_id=f"g{number}") for number in range(50)]
    )
    assert outcomes == [[None]] * 50
    assert world.log.appends == 1
    assert world.groups.context.commits == 50


@told_by(in_world, partitions=1)
async def test_nothing_is_read_before_it_is_written(world: GroupWorld) -> None:
    world.log.is_held = True
    first = asyncio.ensure_future(commit(world, ("t", 0, 1)))
    await turns()
    second = asyncio.ensure_future(commit(world, ("t", 0, 2)))
    await turns()
    assert world.committed() == {}
    assert not first.done()
    assert len(world.log.held) == 1
    world.log.release()
    assert await first == await second == [None]
    assert world.committed() == {("t", 0): 2}


@pytest.mark.parametrize(
    ("failure", "answered"),
    [
        (NotEnoughReplicas("1 of 2"), CoordinatorNotAvailable),
        (KafkaStorageError("gone"), NotCoordinator),
        (RecordTooLarge("1 MB"), UnknownServerError),
        (OSError("no space"), UnknownServerError),
    ],
)
@told_by(in_world)
async def test_a_failed_write_is_answered_and_changes_nothing(
    world: GroupWorld, failure: Exception, answered: type[Exception]
) -> None:
    await commit(world, ("t", 0, 1))
    world.log.fail_with = failure
    (error,) = await commit(world, ("t", 0, 2))
    assert type(error) is answered
    assert world.committed() == {("t", 0): 1}
    world.log.fail_with = None
    assert await commit(world, ("t", 0, 3)) == [None]


@told_by(in_world)
async def test_members_that_may_commit(world: GroupWorld) -> None:
    joined = await world.member()
    as_member: dict[str, Any] = {"member_id": joined.member_id, "generation": joined.generation}
    assert await commit(world, ("t", 0, 1), **as_member) == [None]
    with pytest.raises(IllegalGeneration):
        await commit(world, ("t", 0, 1), member_id=joined.member_id, generation=9)
    with pytest.raises(UnknownMemberId):
        await commit(world, ("t", 0, 1), member_id="x", generation=1)
    with pytest.raises(UnknownMemberId, match="stop them"):
        await commit(world, ("t", 0, 1))
    again = await world.join("g", joined.member_id)
    with pytest.raises(RebalanceInProgress):
        await commit(world, ("t", 0, 1), member_id=joined.member_id, generation=again.generation)
    with pytest.raises(IllegalGeneration):
        await commit(world, ("t", 0, 1), group_id="none", generation=1, version=8)
    with pytest.raises(GroupIdNotFound):
        await commit(world, ("t", 0, 1), group_id="none", generation=1)


@told_by(in_world)
async def test_commits_keep_a_member_alive(world: GroupWorld) -> None:
    joined = await world.member()
    for _ in range(5):
        await asyncio.sleep(8)
        await commit(world, ("t", 0, 1), member_id=joined.member_id, generation=1)
    assert world.groups.admin.describe("g").state == "Stable"


@told_by(in_world, offset_metadata_max_bytes=10)
async def test_a_note_may_be_too_long(world: GroupWorld) -> None:
    commits = [("t", 0, OffsetAndMetadata(1, -1, "x" * 11)), ("t", 1, OffsetAndMetadata(1, -1, "x" * 10))]
    errors = await result_of(
        world.groups.offsets.commit(
            "g", member_id="", instance_id=None, generation=-1, version=9, commits=commits
        )
    )
    assert isinstance(errors[0], InvalidCommitOffsetSize)
    assert errors[1] is None
    assert world.committed() == {("t", 1): 1}


async def rest(seconds: float) -> None:
    await asyncio.sleep(seconds)
    await turns(10)


@told_by(in_world)
async def test_offsets_of_no_group_expire_from_their_commit(world: GroupWorld) -> None:
    await commit(world, ("t", 0, 1))
    await rest(6 * DAY)
    await commit(world, ("t", 1, 1))
    await rest(1.5 * DAY)
    assert world.committed() == {("t", 1): 1}
    await rest(6 * DAY)
    assert world.committed() == {}
    assert world.groups.admin.list_groups() == []
    await world.restart()
    assert world.groups.admin.list_groups() == []


@told_by(in_world)
async def test_offsets_of_a_group_expire_from_when_it_became_empty(world: GroupWorld) -> None:
    joined = await world.member(session_timeout_ms=1_800_000)
    as_member: dict[str, Any] = {"member_id": joined.member_id, "generation": 1}
    await commit(world, ("t", 0, 1), ("other", 0, 1), **as_member)
    for _ in range(8 * 24 * 3):
        await rest(1200)
        world.groups.heartbeat("g", member_id=joined.member_id, instance_id=None, generation=1)
    assert world.committed() == {("t", 0): 1}  # no member subscribes to the other one
    await result_of(world.groups.leave("g", [(joined.member_id, None)]))
    await rest(6.5 * DAY)
    await world.restart()
    assert world.committed() == {("t", 0): 1}
    await rest(DAY)
    assert world.committed() == {}
    assert world.groups.admin.list_groups() == []


@told_by(in_world)
async def test_a_commit_may_bring_its_own_retention(world: GroupWorld) -> None:
    now_ms = world.clock.wall_ms()
    commits = [("t", 0, OffsetAndMetadata(1, -1, "", now_ms, now_ms + 1000))]
    await result_of(
        world.groups.offsets.commit(
            "g", member_id="", instance_id=None, generation=-1, version=2, commits=commits
        )
    )
    await world.restart()
    await rest(900)
    assert world.committed() == {}


@told_by(in_world, topics={"t": 1, "u": 1})
async def test_offsets_of_consumer_groups_expire_without_subscribers(world: GroupWorld) -> None:
    member = ConsumerMember(world, "a")
    await member.must_beat()
    await commit(world, ("t", 0, 1), ("u", 0, 1), member_id="a", generation=1)
    await member.leave(epoch=-1)
    await commit(world, ("u", 0, 2))
    await rest(7.5 * DAY)
    assert world.committed() == {}
    assert world.groups.admin.list_groups() == []


@told_by(in_world)
async def test_a_failed_expiry_is_tried_again(world: GroupWorld) -> None:
    await commit(world, ("t", 0, 1))
    world.log.fail_with = KafkaStorageError("gone")
    await rest(8 * DAY)
    assert world.committed() == {("t", 0): 1}
    world.log.fail_with = None
    await world.groups.expiration.expire_offsets()
    await turns()
    assert world.committed() == {}


@told_by(in_world, topics={"t": 1, "u": 1})
async def test_offsets_are_deleted_with_their_topic(world: GroupWorld) -> None:
    await commit(world, ("t", 0, 1), ("u", 0, 2))
    world.set_topics({"u": 1})
    await turns()
    assert world.committed() == {("u", 0): 2}
    await world.restart()
    assert world.committed() == {("u", 0): 2}


@told_by(in_world)
async def test_delete_offsets_of_unread_partitions(world: GroupWorld) -> None:
    joined = await world.member(topics=("t",))
    await commit(world, ("t", 0, 1), ("u", 0, 2), member_id=joined.member_id, generation=1)
    errors = await result_of(world.groups.offsets.delete("g", [("t", 0), ("u", 0), ("u", 9)]))
    assert isinstance(errors[0], GroupSubscribedToTopic)
    assert errors[1:] == [None, None]
    assert world.committed() == {("t", 0): 1}
    with pytest.raises(GroupIdNotFound):
        world.groups.offsets.delete("none", [])
    await world.member("connect", protocol_type="connect", protocols=(("x", b""),))
    with pytest.raises(NonEmptyGroup):
        world.groups.offsets.delete("connect", [("t", 0)])


@told_by(in_world, topics={"t": 1})
async def test_delete_a_group_and_its_offsets(world: GroupWorld) -> None:
    joined = await world.member()
    await commit(world, ("t", 0, 1), member_id=joined.member_id, generation=1)
    assert isinstance(await result_of(world.groups.admin.delete("g")), NonEmptyGroup)
    await result_of(world.groups.leave("g", [(joined.member_id, None)]))
    assert await result_of(world.groups.admin.delete("g")) is None
    assert isinstance(await result_of(world.groups.admin.delete("g")), GroupIdNotFound)
    assert world.committed() == {}
    await world.restart()
    assert world.groups.admin.list_groups() == []
    member = ConsumerMember(world, "a", group_id="c")
    await member.must_beat()
    assert isinstance(await result_of(world.groups.admin.delete("c")), NonEmptyGroup)
    await member.leave()
    assert await result_of(world.groups.admin.delete("c")) is None
    await world.restart()
    assert world.groups.admin.list_groups() == []
