"""Offsets of topics that are named by id: errors, rights, and topics that are made again under their names."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from odradek.broker.coordination.topic_log import TransactionalWriter
from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.metadata.image.image import ClusterImage
from odradek.wire.protocol.api import ApiKey
from tests.support.coordinator_world import GroupWorld, image, in_world, result_of, topic_id
from tests.support.handler_requests import ask
from tests.support.rights import DESCRIBE, GROUP, NO_TOPIC, READ, TOPIC, TRANSACTIONAL_ID, WRITE, acl, codes
from tests.support.stories import told_by
from tests.support.whole_broker import WholeBroker

NOWHERE = UUID(int=77)
UNKNOWN_ID, UNKNOWN_PARTITION = 100, 3


def at(topic: UUID | None, offset: int = 42, partition: int = 1) -> dict[str, Any]:
    return {
        "topic_id": topic,
        "partitions": [{"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}],
    }


async def commit(world: GroupWorld, *topics: dict[str, Any]) -> list[tuple[UUID | None, int]]:
    answer = await ask(
        world,
        ApiKey.OFFSET_COMMIT,
        10,
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=list(topics),
    )
    return [(topic.topic_id, int(topic.partitions[0].error_code)) for topic in answer.topics]


async def fetch(world: GroupWorld, topics: list[UUID] | None) -> list[tuple[UUID | None, int, int]]:
    asked = None if topics is None else [{"topic_id": one, "partition_indexes": [1]} for one in topics]
    groups = [{"group_id": "g", "member_id": None, "member_epoch": -1, "topics": asked}]
    (group,) = (await ask(world, ApiKey.OFFSET_FETCH, 10, groups=groups)).groups
    return [
        (topic.topic_id, part.committed_offset, int(part.error_code))
        for topic in group.topics
        for part in topic.partitions
    ]


async def fetch_by_name(world: GroupWorld) -> int:
    groups = [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [1]}]}]
    (group,) = (await ask(world, ApiKey.OFFSET_FETCH, 8, groups=groups)).groups
    offset: int = group.topics[0].partitions[0].committed_offset
    return offset


def with_id(new_id: UUID) -> ClusterImage:
    """The topic t, with another id than `image` gives it."""
    made = image({"t": 4})
    topic = made.topics["t"]._replace(id=new_id)
    return ClusterImage(topics={"t": topic}, topics_by_id={new_id: topic})


@told_by(in_world, topics={"t": 4})
async def test_an_id_is_found_or_has_an_error(world: GroupWorld) -> None:
    t = topic_id("t")
    assert await commit(world, at(t), at(NOWHERE), at(None)) == [
        (NOWHERE, UNKNOWN_ID),
        (None, UNKNOWN_ID),
        (t, 0),
    ]
    assert await commit(world, at(t, partition=9)) == [(t, UNKNOWN_PARTITION)]
    assert await fetch(world, [NOWHERE, t]) == [(t, 42, 0), (NOWHERE, -1, UNKNOWN_ID)]
    assert await fetch(world, None) == [(t, 42, 0)]
    assert await fetch_by_name(world) == 42


@told_by(in_world, topics={"t": 4})
async def test_a_topic_made_again_takes_no_old_offset_after_a_crash(world: GroupWorld) -> None:
    """The coordinator died after the topic was deleted and before its tombstones were written."""
    await commit(world, at(topic_id("t")))
    await world.groups.stop()
    world.images.replace(with_id(NOWHERE))
    await world.restart()
    assert await fetch(world, [NOWHERE]) == [(NOWHERE, -1, 0)]
    assert await fetch(world, None) == []
    assert await fetch_by_name(world) == -1
    assert await commit(world, at(NOWHERE, 3)) == [(NOWHERE, 0)]
    assert await fetch(world, None) == [(NOWHERE, 3, 0)]
    assert await fetch_by_name(world) == 3


@told_by(in_world, topics={"t": 4})
async def test_offsets_go_with_their_topic_and_not_with_one_of_its_name(world: GroupWorld) -> None:
    offsets = world.groups.offsets
    arguments: dict[str, Any] = {"member_id": "", "instance_id": None, "generation": -1, "version": 10}
    commits = [("t", 0, OffsetAndMetadata(1)), ("t", 1, OffsetAndMetadata(2, topic_id=NOWHERE))]
    assert await result_of(offsets.commit("g", **arguments, commits=commits)) == [None, None]
    await forget(world, topic_id("t"))
    assert [row[1:] for row in offsets.list_committed()] == [("t", 1, 2)]
    await forget(world, NOWHERE)
    assert not list(offsets.list_committed())


@told_by(in_world, topics={"t": 4})
async def test_offsets_of_an_open_transaction_go_with_their_topic(world: GroupWorld) -> None:
    offsets = world.groups.offsets
    arguments: dict[str, Any] = {"member_id": "", "instance_id": None, "generation": -1, "version": 6}
    for group_id, new_id in (("g", topic_id("t")), ("h", NOWHERE)):
        _, writer, _ = offsets.begin_verification(group_id, TransactionalWriter(7, 0), adds_partition=True)
        commits = [("t", 1, OffsetAndMetadata(2, topic_id=new_id))]
        outcome = offsets.commit(group_id, **arguments, commits=commits, writer=writer)
        assert await result_of(outcome) == [None]
    await forget(world, topic_id("t"))
    left = [
        key.group_id
        for shard in world.groups.runtime.list_loaded_shards()
        for key, _ in shard.machine.pending.list_pending()
    ]
    assert left == ["h"]


async def forget(world: GroupWorld, gone: UUID) -> None:
    """Let the coordinator learn that the topic t with this id is deleted."""
    for shard in world.groups.runtime.list_loaded_shards():
        shard.machine.forget_topics({("t", gone)})
    await asyncio.sleep(1)  # virtual: until the tombstones are written


@pytest.mark.parametrize("api", [ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.TXN_OFFSET_COMMIT])
async def test_rights_are_those_of_the_name(api: ApiKey) -> None:
    guarded = await WholeBroker.start_guarded()
    topics = guarded.broker.images.current.topics
    seen, hidden = topics["seen"].id, topics["hidden"].id
    for right in (acl(READ, GROUP, "g"), acl(DESCRIBE, GROUP, "g"), acl(WRITE, TRANSACTIONAL_ID, "t")):
        await guarded.allow(right)
    await guarded.allow(acl(READ, TOPIC, "seen"))
    version = 6 if api == ApiKey.TXN_OFFSET_COMMIT else 10
    fields: dict[str, Any] = {"group_id": "g", "topics": [at(one, 1, 0) for one in (hidden, NOWHERE, seen)]}
    if api == ApiKey.OFFSET_COMMIT:
        fields |= {"generation_id_or_member_epoch": -1, "member_id": ""}
    elif api == ApiKey.TXN_OFFSET_COMMIT:
        fields |= {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0}
    else:
        asked = [{"topic_id": one, "partition_indexes": [0]} for one in (hidden, NOWHERE, seen)]
        fields = {
            "groups": [{"group_id": "g", "member_id": None, "member_epoch": -1, "topics": asked}],
            "require_stable": False,
        }
    answer = await guarded.ask(api, version, **fields)
    found = answer.groups[0] if api == ApiKey.OFFSET_FETCH else answer
    by_id = {topic.topic_id: codes(topic) for topic in found.topics}
    assert by_id[hidden] == [NO_TOPIC]
    assert by_id[NOWHERE] == [UNKNOWN_ID]
    # The transactional id has no transaction; the topic is not denied.
    assert by_id[seen] == ([49] if api == ApiKey.TXN_OFFSET_COMMIT else [])
