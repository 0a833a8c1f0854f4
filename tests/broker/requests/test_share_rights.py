"""ShareFetch and ShareAcknowledge with an authorizer: Read of the group, and Read of each topic."""

from __future__ import annotations

from uuid import UUID

from tests.support.rights import GROUP, NO_GROUP, NO_TOPIC, READ, TOPIC, acl
from tests.support.share_consumer import ACCEPT, ShareConsumer, with_memory_states
from tests.support.whole_broker import WholeBroker


async def test_a_member_reads_its_group_and_each_topic() -> None:
    broker = await WholeBroker.start_guarded()
    states = with_memory_states(broker)
    member = ShareConsumer(broker, ["seen", "hidden"])
    member.initialize(states, start=0)
    assert (await member.fetch()).error_code == NO_GROUP
    assert (await member.acknowledge((0, 0, [ACCEPT]), topic="seen")).error_code == NO_GROUP
    await broker.allow(acl(READ, GROUP, "g"))
    answer = await member.fetch(max_wait=60_000)
    assert [part.error_code for topic in answer.responses for part in topic.partitions] == [NO_TOPIC] * 2
    await broker.allow(acl(READ, TOPIC, "seen"))
    answer = await member.fetch(max_wait=60_000)
    denied = {topic.topic_id: topic.partitions[0].error_code for topic in answer.responses}
    assert denied == {member.topic_id("hidden"): NO_TOPIC}
    refused = await member.acknowledge((0, 0, [ACCEPT]), topic="hidden")
    assert refused.responses[0].partitions[0].error_code == NO_TOPIC
    with_fetch = await member.fetch((0, 0, [ACCEPT]), topic="hidden")
    assert with_fetch.responses[0].partitions[0].acknowledge_error_code == NO_TOPIC


async def test_an_unknown_topic_is_no_matter_of_rights() -> None:

    broker = await WholeBroker.start_guarded()
    with_memory_states(broker)
    await broker.allow(acl(READ, GROUP, "g"))
    member = ShareConsumer(broker, ["seen"])
    named = [{"topic_id": UUID(int=9), "partitions": [{"partition_index": 0, "acknowledgement_batches": []}]}]
    answer = await member.fetch(topics=named)
    assert answer.responses[0].partitions[0].error_code == 100
