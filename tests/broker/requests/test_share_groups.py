"""Share groups over the wire: members, the states of their partitions, offsets, rights, and no early imports."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from odradek.wire.protocol.api import ApiKey
from tests.support.polling import eventually
from tests.support.rights import DESCRIBE, GROUP, NO_GROUP, NO_TOPIC, READ, TOPIC, acl
from tests.support.whole_broker import WholeBroker

AT_ONCE = {"group.share.assignment.interval.ms": "0", "share.coordinator.state.topic.num.partitions": "2"}
UNKNOWN_TOPIC = 3
NON_EMPTY_GROUP = 68
NOT_FOUND = 69


async def started(**settings: str) -> WholeBroker:
    """A broker that coordinates groups, and assigns at once."""
    broker = await WholeBroker.start({**AT_ONCE, **settings})
    await broker.ask(ApiKey.FIND_COORDINATOR, 3, key_type=0, key="g")
    return broker


async def heartbeat(broker: WholeBroker, member_id: str = "m", **fields: Any) -> Any:
    given = {"group_id": "g", "member_id": member_id, "subscribed_topic_names": None, **fields}
    return await broker.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **given)


async def until_assigned(
    broker: WholeBroker, member_id: str = "m", *, topics: tuple[str, ...] = ("work",)
) -> Any:
    """Join, and heartbeats until the member has partitions; the last answer."""
    answer = await heartbeat(broker, member_id, member_epoch=0, subscribed_topic_names=topics)
    assert int(answer.error_code) == 0, answer
    epoch = answer.member_epoch

    async def beat() -> Any:
        nonlocal epoch
        answer = await heartbeat(broker, member_id, member_epoch=epoch)
        assert int(answer.error_code) == 0, answer
        epoch = answer.member_epoch
        return answer if answer.assignment is not None and answer.assignment.topic_partitions else None

    if answer.assignment.topic_partitions:
        return answer
    return await eventually("the member is assigned partitions", beat)


async def offsets(broker: WholeBroker, topics: Any = None) -> Any:
    answer = await broker.ask(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, groups=[{"group_id": "g", "topics": topics}]
    )
    return answer.groups[0]


async def test_a_member_is_assigned_what_states_are_kept_for() -> None:
    broker = await started()
    await broker.create_topic("work", partitions=3)
    beat = await until_assigned(broker)
    (topic,) = beat.assignment.topic_partitions
    assert (topic.topic_id, topic.partitions) == (broker.broker.images.current.topics["work"].id, (0, 1, 2))
    assert beat.heartbeat_interval.total_seconds() == 5
    described = await broker.ask(
        ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=["g"], include_authorized_operations=True
    )
    (group,) = described.groups
    assert (group.group_state, group.assignor_name, group.group_epoch) == (
        "Stable",
        "simple",
        beat.member_epoch,
    )
    (member,) = group.members
    assert member.assignment.topic_partitions[0].partitions == (0, 1, 2)
    found = await offsets(broker)
    assert [(one.partition_index, one.start_offset, one.lag) for one in found.topics[0].partitions] == [
        (0, -1, -1),
        (1, -1, -1),
        (2, -1, -1),
    ]
    left = await heartbeat(broker, member_epoch=-1)
    assert (int(left.error_code), left.member_epoch) == (0, -1)


async def test_groups_are_listed_by_their_type() -> None:
    broker = await started()
    await broker.create_topic("work", partitions=1)
    await until_assigned(broker)
    listed = await broker.ask(ApiKey.LIST_GROUPS, 5, types_filter=["share"])
    assert [(one.group_id, one.protocol_type, one.group_state) for one in listed.groups] == [
        ("g", "share", "Stable")
    ]


async def test_offsets_are_altered_and_deleted_without_members_alone() -> None:
    broker = await started()
    await broker.create_topic("work", partitions=2)
    await broker.produce("work", b"a", b"b", b"c")
    await until_assigned(broker)
    wanted = [{"topic_name": "work", "partitions": [{"partition_index": 0, "start_offset": 1}]}]
    refused = await broker.ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=wanted)
    assert int(refused.error_code) == NON_EMPTY_GROUP
    await heartbeat(broker, member_epoch=-1)
    wanted.append({"topic_name": "none", "partitions": [{"partition_index": 0, "start_offset": 1}]})
    altered = await broker.ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=wanted)
    assert int(altered.error_code) == 0, altered
    assert [(one.topic_name, int(one.partitions[0].error_code)) for one in altered.responses] == [
        ("none", UNKNOWN_TOPIC),
        ("work", 0),
    ]
    found = await offsets(broker, [{"topic_name": "work", "partitions": [0]}])
    assert found.topics[0].partitions[0].start_offset == 1
    deleted = await broker.ask(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=[{"topic_name": "work"}]
    )
    assert [int(one.error_code) for one in deleted.responses] == [0]
    assert (await offsets(broker)).topics == ()


async def test_a_deleted_group_leaves_no_state() -> None:
    broker = await started()
    await broker.create_topic("work", partitions=2)
    await until_assigned(broker)
    await heartbeat(broker, member_epoch=-1)
    deleted = await broker.ask(ApiKey.DELETE_GROUPS, 2, groups_names=["g"])
    assert int(deleted.results[0].error_code) == 0
    described = await broker.ask(
        ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=["g"], include_authorized_operations=False
    )
    assert [int(one.error_code) for one in described.groups] == [NOT_FOUND]
    # A group that is not there has no offsets, and no error either.
    unknown = await offsets(broker)
    assert (int(unknown.error_code), unknown.topics) == (0, ())
    shares = broker.broker.coordinators.shares
    assert [len(shard.machine.states) for shard in shares.runtime.shards()] == [0, 0]


async def test_states_of_a_deleted_topic_are_forgotten() -> None:
    broker = await started()
    await broker.create_topic("work", partitions=2)
    await until_assigned(broker)
    await broker.ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": "work", "topic_id": None}], timeout=10_000)
    shares = broker.broker.coordinators.shares

    async def gone() -> bool:
        is_empty = not any(shard.machine.states for shard in shares.runtime.shards())
        return is_empty and (await offsets(broker)).topics == ()

    await eventually("the states are gone", gone)


async def test_the_share_coordinator_is_found_by_a_key_of_three_parts() -> None:
    broker = await started()
    topic_id = "A" * 22
    found = await broker.ask(
        ApiKey.FIND_COORDINATOR, 6, key_type=2, coordinator_keys=[f"g:{topic_id}:0", "nonsense"]
    )
    assert [int(one.error_code) for one in found.coordinators] == [0, 42]


async def test_a_heartbeat_needs_read_of_the_group_and_describe_of_topics() -> None:
    broker = await WholeBroker.start_guarded(**{key.replace(".", "_"): text for key, text in AT_ONCE.items()})
    asked: dict[str, Any] = {"group_id": "workers", "member_epoch": 0, "subscribed_topic_names": ["work"]}
    assert int((await heartbeat(broker, **asked)).error_code) == NO_GROUP
    await broker.allow(acl(READ, GROUP, "workers"))
    assert int((await heartbeat(broker, **asked)).error_code) == NO_TOPIC
    await broker.allow(acl(DESCRIBE, TOPIC, "work"))
    assert int((await heartbeat(broker, **asked)).error_code) == 0


def test_a_broker_without_share_groups_loads_none_of_their_modules() -> None:
    program = (
        "import sys; import odradek.broker.groups.coordinator, odradek.broker.requests.rights.table\n"
        "print([name for name in sys.modules if 'groups.share.' in name or 'odradek.broker.share' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
