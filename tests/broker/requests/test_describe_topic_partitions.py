"""DescribeTopicPartitions: pages of partitions in the order of names."""

from dataclasses import replace

import pytest

from odradek.foundation.errors import InvalidRequest
from odradek.metadata.controller.requests import NewTopic
from odradek.wire.protocol.api import ApiKey
from tests.support.lone_controller import LoneController

API = ApiKey.DESCRIBE_TOPIC_PARTITIONS


async def _broker(entries: dict[str, str] | None = None) -> LoneController:
    broker = await LoneController.start(entries)
    await broker.controller.create_topics(
        [NewTopic(name=name, partition_count=count) for name, count in (("c", 1), ("a", 3), ("b", 2))]
    )
    return broker


async def test_pages_follow_each_other_without_gap_or_repetition() -> None:
    broker = await _broker()
    for limit in range(1, 8):
        seen: list[tuple[str, int]] = []
        cursor = None
        while True:
            answer = await broker.ask(API, 0, topics=[], response_partition_limit=limit, cursor=cursor)
            page = [(topic.name, p.partition_index) for topic in answer.topics for p in topic.partitions]
            assert len(page) <= limit
            seen += page
            if answer.next_cursor is None:
                break
            cursor = {
                "topic_name": answer.next_cursor.topic_name,
                "partition_index": answer.next_cursor.partition_index,
            }
        assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]


async def test_named_topics_with_those_that_are_not_there() -> None:
    broker = await _broker()
    answer = await broker.ask(
        API, 0, topics=[{"name": "x"}, {"name": "b"}, {"name": "!"}], response_partition_limit=9
    )
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("!", 17), ("b", 0), ("x", 3)]
    topic = answer.topics[1]
    assert topic.topic_id == broker.images.current.topics["b"].id
    assert topic.topic_authorized_operations == 3576
    assert [(p.leader_id, p.replica_nodes, p.isr_nodes) for p in topic.partitions] == [(1, (1,), (1,))] * 2
    assert topic.partitions[0].offline_replicas == ()


async def test_the_brokers_own_limit_holds() -> None:
    broker = await _broker({"max.request.partition.size.limit": "2"})
    answer = await broker.ask(API, 0, topics=[], response_partition_limit=2000)
    assert sum(len(topic.partitions) for topic in answer.topics) == 2
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("a", 2)


async def test_a_cursor_below_zero_is_refused() -> None:
    broker = await _broker()
    with pytest.raises(InvalidRequest, match="cursor"):
        await broker.ask(
            API,
            0,
            topics=[],
            response_partition_limit=1,
            cursor={"topic_name": "a", "partition_index": -1},
        )


async def test_eligible_leader_replicas_are_included() -> None:
    broker = await _broker()
    image = broker.images.current
    topic = image.topics["c"]
    one = topic.partitions[0]._replace(elr=(2, 3), last_known_elr=(4,))
    broker.images.replace(replace(image, topics={**image.topics, "c": topic._replace(partitions=(one,))}))
    answer = await broker.ask(
        API, 0, topics=[{"name": "b"}, {"name": "c"}], response_partition_limit=9, cursor=None
    )
    answered = [
        (p.eligible_leader_replicas, p.last_known_elr) for topic in answer.topics for p in topic.partitions
    ]
    assert answered == [((), ()), ((), ()), ((2, 3), (4,))]
