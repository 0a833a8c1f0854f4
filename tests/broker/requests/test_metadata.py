"""Metadata, as clients of every version ask for it."""

import asyncio
import uuid

import pytest

from odradek.broker.requests.encoded_topics import EncodedTopics
from odradek.metadata.controller.requests import NewPartitions, NewTopic
from odradek.wire.protocol.api import ApiKey
from tests.support.lone_controller import LoneController

ALL_TOPIC_OPERATIONS = 3576
ALL_CLUSTER_OPERATIONS = 8096
NOT_ASKED = -(2**31)


async def _broker(entries: dict[str, str] | None = None) -> LoneController:
    broker = await LoneController.start(entries)
    await broker.controller.create_topics([NewTopic(name="a", partition_count=2), NewTopic(name="b.c")])
    return broker


@pytest.mark.parametrize("version", range(14))
async def test_every_version_has_brokers_topics_and_leaders(version: int) -> None:
    broker = await _broker()
    topics = () if version == 0 else None
    answer = await broker.ask(ApiKey.METADATA, version, topics=topics)
    (answered,) = answer.brokers
    assert (answered.node_id, answered.host, answered.port) == (1, "broker.test", 9092)
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("a", 2), ("b.c", 1)]
    partition = answer.topics[0].partitions[1]
    assert (partition.partition_index, partition.leader_id) == (1, 1)
    assert (partition.replica_nodes, partition.isr_nodes) == ((1,), (1,))
    if version >= 1:
        assert answered.rack == "r1"
        assert answer.controller_id == 1
        assert answer.topics[0].is_internal is False
    if version >= 2:
        assert answer.cluster_id == broker.images.current.cluster_id
    if version >= 7:
        assert partition.leader_epoch == 0
    if version >= 10:
        assert answer.topics[0].topic_id == broker.images.current.topics["a"].id
    if 8 <= version <= 10:
        assert answer.cluster_authorized_operations == NOT_ASKED
    if version >= 8:
        assert answer.topics[0].topic_authorized_operations == NOT_ASKED
    if version >= 13:
        assert answer.error_code == 0


@pytest.mark.parametrize("version", [1, 9, 13])
async def test_answers_are_the_same_whether_or_not_their_parts_were_kept(version: int) -> None:
    broker = await _broker()

    async def ask() -> list[tuple[str, int]]:
        answer = await broker.ask(ApiKey.METADATA, version, topics=None)
        return [(topic.name, len(topic.partitions)) for topic in answer.topics]

    assert await ask() == await ask() == [("a", 2), ("b.c", 1)]
    await broker.controller.create_partitions([NewPartitions(topic="a", total_count=3)])
    assert await ask() == [("a", 3), ("b.c", 1)]
    await broker.controller.delete_topics(["a"])
    await broker.controller.create_topics([NewTopic(name="z"), NewTopic(name="a", partition_count=7)])
    assert await ask() == [("b.c", 1), ("z", 1), ("a", 7)]


async def test_topics_that_are_gone_are_not_kept_for_ever() -> None:
    broker = await _broker()
    encoded = EncodedTopics()
    for number in range(300):
        name = f"t{number}"
        await broker.controller.create_topics([NewTopic(name=name)])
        image = broker.images.current
        encoded.frame(
            9, 1, image=image, listener_name="PLAINTEXT", topics=[image.topics[name]], failed=[],
            topic_operations=0, fields={"brokers": []},
        )  # fmt: skip
        await broker.controller.delete_topics([name])
    (table,) = encoded._tables.values()
    assert len(table._kept) < 80


async def test_no_topics_are_none_and_null_is_all() -> None:
    broker = await _broker()
    assert (await broker.ask(ApiKey.METADATA, 9, topics=[])).topics == ()
    assert len((await broker.ask(ApiKey.METADATA, 9, topics=None)).topics) == 2
    twice = await broker.ask(ApiKey.METADATA, 9, topics=[{"name": "a"}, {"name": "a"}])
    assert [topic.name for topic in twice.topics] == ["a"]


async def test_clients_get_the_addresses_of_their_own_listener() -> None:
    broker = await _broker()
    answer = await broker.ask(ApiKey.METADATA, 12, topics=None, listener_name="EXTERNAL")
    assert [(answered.host, answered.port) for answered in answer.brokers] == [("outside.test", 19092)]
    assert answer.topics[0].partitions[0].leader_id == 1
    other = await broker.ask(ApiKey.METADATA, 12, topics=None, listener_name="OTHER")
    assert other.brokers == ()
    partition = other.topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (72, -1)


async def test_an_unknown_topic_is_made_when_request_and_settings_allow() -> None:
    broker = await _broker({"num.partitions": "4"})
    refused = await broker.ask(ApiKey.METADATA, 9, topics=[{"name": "new"}], allow_auto_topic_creation=False)
    assert [(topic.name, topic.error_code) for topic in refused.topics] == [("new", 3)]
    assert "new" not in broker.images.current.topics
    made = await broker.ask(
        ApiKey.METADATA,
        9,
        topics=[
            {"name": "new"},
            {"name": "a"},
            {"name": "!"},
            {"name": "b_c"},
            {"name": "__consumer_offsets"},
        ],
        allow_auto_topic_creation=True,
    )
    answered = {
        topic.name: (topic.error_code, len(topic.partitions), topic.is_internal) for topic in made.topics
    }
    assert answered == {
        "new": (0, 4, False),
        "a": (0, 2, False),
        "!": (17, 0, False),
        "b_c": (17, 0, False),
        "__consumer_offsets": (0, 50, True),
    }
    # Before version 4 a request cannot say, and Kafka creates.
    old = await broker.ask(ApiKey.METADATA, 1, topics=[{"name": "old"}])
    assert (old.topics[0].error_code, len(old.topics[0].partitions)) == (0, 4)

    closed = await _broker({"auto.create.topics.enable": "false"})
    answer = await closed.ask(ApiKey.METADATA, 9, topics=[{"name": "x"}, {"name": "!"}])
    assert {topic.name: topic.error_code for topic in answer.topics} == {"x": 3, "!": 17}


async def test_many_askers_make_one_topic() -> None:
    broker = await _broker()
    answers = await asyncio.gather(
        *(
            broker.ask(ApiKey.METADATA, 12, topics=[{"name": "new"}], allow_auto_topic_creation=True)
            for _ in range(10)
        )
    )
    assert {answer.topics[0].error_code for answer in answers} == {0}
    assert len({answer.topics[0].topic_id for answer in answers}) == 1


async def test_topics_by_id() -> None:
    broker = await _broker()
    known, unknown = broker.images.current.topics["a"].id, uuid.uuid4()
    answer = await broker.ask(
        ApiKey.METADATA,
        12,
        topics=[{"topic_id": known, "name": None}, {"topic_id": unknown, "name": None}],
    )
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in answer.topics] == [
        ("a", known, 0),
        (None, unknown, 100),
    ]


async def test_authorised_operations_are_all_when_asked() -> None:
    broker = await _broker()
    answer = await broker.ask(
        ApiKey.METADATA,
        9,
        topics=[{"name": "a"}],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    assert answer.topics[0].topic_authorized_operations == ALL_TOPIC_OPERATIONS
    assert answer.cluster_authorized_operations == ALL_CLUSTER_OPERATIONS


@pytest.mark.parametrize("version", range(3))
async def test_describe_cluster(version: int) -> None:
    broker = await _broker()
    answer = await broker.ask(
        ApiKey.DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=True, endpoint_type=1
    )
    assert answer.error_code == 0
    assert answer.cluster_id == broker.images.current.cluster_id
    assert answer.controller_id == 1
    assert [
        (answered.broker_id, answered.host, answered.port, answered.rack) for answered in answer.brokers
    ] == [(1, "broker.test", 9092, "r1")]
    assert answer.cluster_authorized_operations == ALL_CLUSTER_OPERATIONS
    if version >= 1:
        refused = await broker.ask(ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=2)
        assert (refused.error_code, refused.endpoint_type) == (114, 1)
        assert (await broker.ask(ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=9)).error_code == 115
