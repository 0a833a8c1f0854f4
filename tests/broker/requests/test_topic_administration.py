"""CreateTopics, CreatePartitions and DeleteTopics over the wire, in every version."""

import uuid
from typing import Any

import pytest

from odradek.metadata.image.image import ResourceKind
from odradek.wire.protocol.api import ApiKey
from tests.support.lone_controller import LoneController


def _topic(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
        "timeout": 0,
    } | fields


async def _create(broker: LoneController, *topics: dict[str, Any], version: int = 7, **fields: Any) -> Any:
    asked = [{key: value for key, value in topic.items() if key != "timeout"} for topic in topics]
    answer = await broker.ask(ApiKey.CREATE_TOPICS, version, topics=asked, timeout=1000, **fields)
    return answer.topics


@pytest.mark.parametrize("version", range(2, 8))
async def test_topics_are_made_in_every_version(version: int) -> None:
    broker = await LoneController.start()
    (answered,) = await _create(
        broker,
        _topic("t", num_partitions=3, configs=[{"name": "retention.ms", "value": " 5"}]),
        version=version,
    )
    assert (answered.name, answered.error_code) == ("t", 0)
    topic = broker.images.current.topics["t"]
    assert len(topic.partitions) == 3
    assert broker.images.current.config(ResourceKind.TOPIC, "t") == {"retention.ms": " 5"}
    if version >= 5:
        assert (answered.num_partitions, answered.replication_factor) == (3, 1)
        configs = {config.name: config for config in answered.configs}
        assert len(configs) == 33
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == (" 5", 1)
        assert (configs["segment.ms"].value, configs["segment.ms"].config_source) == ("604800000", 5)
    if version >= 7:
        assert answered.topic_id == topic.id


async def test_each_topic_succeeds_or_fails_by_itself() -> None:
    broker = await LoneController.start()
    answered = await _create(
        broker,
        _topic("good"),
        _topic("twice"),
        _topic("bad name"),
        _topic("twice"),
        _topic("many", replication_factor=3),
        _topic("none", num_partitions=0),
        _topic("wrong", configs=[{"name": "nope", "value": "1"}]),
        _topic("null", configs=[{"name": "retention.ms", "value": None}]),
        _topic("two", configs=[{"name": "retention.ms", "value": "1"}] * 2),
        _topic("__cluster_metadata"),
        _topic(
            "placed",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                {"partition_index": 0, "broker_ids": [1]},
                {"partition_index": 1, "broker_ids": [7]},
            ],
        ),
        _topic(
            "doubly",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[{"partition_index": 0, "broker_ids": [1]}] * 2,
        ),
        _topic("default", num_partitions=-1, replication_factor=-1),
    )
    assert {topic.name: topic.error_code for topic in answered} == {
        "good": 0,
        "twice": 42,
        "bad name": 17,
        "many": 38,
        "none": 37,
        "wrong": 40,
        "null": 40,
        "two": 42,
        "__cluster_metadata": 42,
        "placed": 39,
        "doubly": 39,
        "default": 0,
    }
    assert all(topic.error_message for topic in answered if topic.error_code)
    assert set(broker.images.current.topics) == {"good", "default"}
    (again,) = await _create(broker, _topic("good"))
    assert (again.error_code, again.num_partitions) == (36, -1)


async def test_validation_makes_nothing() -> None:
    broker = await LoneController.start()
    (answered,) = await _create(broker, _topic("t", num_partitions=9), validate_only=True)
    assert (answered.error_code, answered.num_partitions) == (0, 9)
    assert broker.images.current.topics == {}


@pytest.mark.parametrize("version", range(4))
async def test_topics_grow(version: int) -> None:
    broker = await LoneController.start()
    await _create(broker, _topic("t"), _topic("u"))
    answer = await broker.ask(
        ApiKey.CREATE_PARTITIONS,
        version,
        topics=[
            {"name": "t", "count": 3, "assignments": None},
            {"name": "u", "count": 2, "assignments": [{"broker_ids": [1]}]},
            {"name": "x", "count": 3, "assignments": None},
            {"name": "y", "count": 3, "assignments": None},
            {"name": "y", "count": 3, "assignments": None},
        ],
        timeout=1000,
        validate_only=False,
    )
    answered = {result.name: (result.error_code, result.error_message) for result in answer.results}
    assert {name: code for name, (code, _) in answered.items()} == {"t": 0, "u": 0, "x": 3, "y": 42}
    assert answered["t"][1] is None
    assert "x" in answered["x"][1]
    topics = broker.images.current.topics
    assert (len(topics["t"].partitions), len(topics["u"].partitions)) == (3, 2)
    answer = await broker.ask(
        ApiKey.CREATE_PARTITIONS,
        version,
        topics=[{"name": "t", "count": 2, "assignments": None}],
        timeout=1000,
        validate_only=True,
    )
    assert [result.error_code for result in answer.results] == [37]


@pytest.mark.parametrize("version", range(1, 7))
async def test_topics_are_deleted_by_name(version: int) -> None:
    broker = await LoneController.start()
    await _create(broker, _topic("t"), _topic("u"))
    names = ["t", "x", "u", "u"]
    fields: dict[str, Any] = {"topic_names": names}
    if version >= 6:
        fields = {"topics": [{"name": name, "topic_id": None} for name in names]}
    answer = await broker.ask(ApiKey.DELETE_TOPICS, version, timeout=1000, **fields)
    assert {answered.name: answered.error_code for answered in answer.responses} == {
        "t": 0,
        "x": 3,
        "u": 42,
    }
    assert list(broker.images.current.topics) == ["u"]


async def test_topics_are_deleted_by_id() -> None:
    broker = await LoneController.start()
    await _create(broker, _topic("t"), _topic("u"))
    topic_id, unknown = broker.images.current.topics["t"].id, uuid.uuid4()
    answer = await broker.ask(
        ApiKey.DELETE_TOPICS,
        6,
        timeout=1000,
        topics=[
            {"name": None, "topic_id": topic_id},
            {"name": None, "topic_id": unknown},
            {"name": "u", "topic_id": unknown},
            {"name": None, "topic_id": None},
        ],
    )
    assert [(answered.name, answered.topic_id, answered.error_code) for answered in answer.responses] == [
        ("t", topic_id, 0),
        (None, unknown, 100),
        ("u", unknown, 42),
        (None, None, 42),
    ]
    assert list(broker.images.current.topics) == ["u"]


@pytest.mark.parametrize(("version", "code"), [(1, 42), (2, 42), (3, 73), (6, 73)])
async def test_deletion_switched_off_is_said_in_the_versions_words(version: int, code: int) -> None:
    broker = await LoneController.start({"delete.topic.enable": "false"})
    await _create(broker, _topic("t"))
    fields: dict[str, Any] = {"topic_names": ["t"]}
    if version >= 6:
        fields = {"topics": [{"name": "t", "topic_id": None}]}
    answer = await broker.ask(ApiKey.DELETE_TOPICS, version, timeout=1000, **fields)
    assert [answered.error_code for answered in answer.responses] == [code]
