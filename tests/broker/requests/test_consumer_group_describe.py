"""ConsumerGroupDescribe over the wire, in every version."""

from __future__ import annotations

import pytest

from odradek.wire.protocol.api import ApiKey
from tests.support.consumer_members import ConsumerMember
from tests.support.coordinator_world import GroupWorld, in_world, topic_id
from tests.support.handler_requests import ask, versions
from tests.support.stories import told_by

API = ApiKey.CONSUMER_GROUP_DESCRIBE


@pytest.mark.parametrize("version", versions(API))
@told_by(in_world, topics={"t": 2})
async def test_describe(world: GroupWorld, version: int) -> None:
    await world.member("classic")
    first = ConsumerMember(world, "a", rack_id="r1", instance_id="i")
    await first.must_beat()
    await ConsumerMember(world, "b").must_beat()
    answer = await ask(world, API, version, group_ids=("g", "classic", "no", ""))
    group, other_type, missing, nameless = answer.groups
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (
        0,
        "Reconciling",
        2,
        2,
    )
    assert group.assignor_name == "uniform"
    a, b = group.members
    assert (a.member_id, a.instance_id, a.rack_id, a.member_epoch) == ("a", "i", "r1", 1)
    assert (a.client_id, a.client_host, a.subscribed_topic_names) == ("client", "/127.0.0.1", ("t",))
    (owned,) = a.assignment.topic_partitions
    assert (owned.topic_id, owned.topic_name, owned.partitions) == (topic_id("t"), "t", (0, 1))
    assert [row.partitions for row in a.target_assignment.topic_partitions] == [(0,)]
    assert [row.partitions for row in b.target_assignment.topic_partitions] == [(1,)]
    assert b.assignment.topic_partitions == ()
    if version >= 1:
        assert (a.member_type, b.member_type) == (1, 1)
    assert (other_type.error_code, missing.error_code, nameless.error_code) == (69, 69, 24)
    assert missing.error_message == "Group no not found."
