"""OffsetDelete over the wire."""

from __future__ import annotations

from odradek.wire.protocol.api import ApiKey
from tests.support.coordinator_world import GroupWorld, in_world
from tests.support.handler_requests import ask
from tests.support.stories import told_by

API = ApiKey.OFFSET_DELETE


@told_by(in_world, topics={"t": 4, "u": 1})
async def test_delete_offsets(world: GroupWorld) -> None:
    joined = await world.member(topics=("t",))
    await world.commit(("t", 0, 5), ("u", 0, 6), member_id=joined.member_id, generation=1)
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("t", "u", "gone")]
    answer = await ask(world, API, 0, group_id="g", topics=topics)
    assert answer.error_code == 0
    codes = {topic.name: int(topic.partitions[0].error_code) for topic in answer.topics}
    assert codes == {"t": 86, "u": 0, "gone": 3}
    assert [row[1] for row in world.groups.offsets.list_committed()] == ["t"]
    assert (await ask(world, API, 0, group_id="no", topics=topics)).error_code == 69
    beyond = [{"name": "u", "partitions": [{"partition_index": 1}]}]
    answer = await ask(world, API, 0, group_id="g", topics=beyond)
    assert answer.topics[0].partitions[0].error_code == 3
