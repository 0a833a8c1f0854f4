"""confluent-kafka's admin client: topics, configs, groups and records, as an operator handles them."""

from __future__ import annotations

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from tests.support.peers import CreateTopic
from tests.support.polling import SECONDS_MAX
from tests.support.samples import BASE_TIME_MS

pytestmark = pytest.mark.clients


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def error_code(raised: pytest.ExceptionInfo[KafkaException]) -> int:
    code: int = raised.value.args[0].code()
    return code


def fill(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=BASE_TIME_MS + number)
    assert producer.flush(30) == 0


def test_topics_come_and_go(admin: AdminClient, unique: str) -> None:
    admin.create_topics([NewTopic(unique, 3, 1, config={"retention.ms": "60000"})])[unique].result(
        SECONDS_MAX
    )
    with pytest.raises(KafkaException) as raised:
        admin.create_topics([NewTopic(unique, 3, 1)])[unique].result(SECONDS_MAX)
    assert error_code(raised) == KafkaError.TOPIC_ALREADY_EXISTS
    described = admin.describe_topics(TopicCollection([unique]))[unique].result(SECONDS_MAX)
    assert [(part.id, part.leader.id, len(part.replicas)) for part in described.partitions] == [
        (0, described.partitions[0].leader.id, 1),
        (1, described.partitions[0].leader.id, 1),
        (2, described.partitions[0].leader.id, 1),
    ]
    admin.create_partitions([NewPartitions(unique, 5)])[unique].result(SECONDS_MAX)
    assert len(admin.list_topics(unique, timeout=10).topics[unique].partitions) == 5
    admin.delete_topics([unique])[unique].result(SECONDS_MAX)
    assert unique not in admin.list_topics(timeout=10).topics
    with pytest.raises(KafkaException) as raised:
        admin.delete_topics([unique])[unique].result(SECONDS_MAX)
    assert error_code(raised) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_the_brokers_configs_are_described(admin: AdminClient) -> None:
    (node,) = admin.describe_cluster().result(SECONDS_MAX).nodes
    resource = ConfigResource(ResourceType.BROKER, str(node.id))
    configs = admin.describe_configs([resource])[resource].result(SECONDS_MAX)
    assert configs["message.max.bytes"].value == "1048588"
    assert configs["log.segment.bytes"].value == "1073741824"
    assert configs["log.dirs"].is_read_only


def test_groups_are_seen_and_their_offsets_set(
    admin: AdminClient, bootstrap: str, create_topic: CreateTopic, unique: str
) -> None:
    topic = create_topic(2)
    parts = [TopicPartition(topic, 0, 3), TopicPartition(topic, 1, 5)]
    asked = ConsumerGroupTopicPartitions(unique, parts)
    admin.alter_consumer_group_offsets([asked])[unique].result(SECONDS_MAX)
    (listed,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(unique)]).values()
    found = {(part.partition, part.offset) for part in listed.result(SECONDS_MAX).topic_partitions}
    assert found == {(0, 3), (1, 5)}
    listing = admin.list_consumer_groups().result(SECONDS_MAX)
    assert unique in {group.group_id for group in listing.valid}
    described = admin.describe_consumer_groups([unique])[unique].result(SECONDS_MAX)
    assert (described.state.name, list(described.members)) == ("EMPTY", [])
    admin.delete_consumer_groups([unique])[unique].result(SECONDS_MAX)
    with pytest.raises(KafkaException) as raised:
        admin.delete_consumer_groups([unique])[unique].result(SECONDS_MAX)
    assert error_code(raised) == KafkaError.GROUP_ID_NOT_FOUND


def test_a_deleted_topic_made_again_is_another_topic(admin: AdminClient, bootstrap: str, unique: str) -> None:
    ids = []
    for _ in range(2):
        admin.create_topics([NewTopic(unique, 1, 1)])[unique].result(SECONDS_MAX)
        ids.append(str(admin.describe_topics(TopicCollection([unique]))[unique].result(SECONDS_MAX).topic_id))
        fill(bootstrap, unique, 3)
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
        assert consumer.get_watermark_offsets(TopicPartition(unique, 0), timeout=10) == (0, 3)
        consumer.close()
        admin.delete_topics([unique])[unique].result(SECONDS_MAX)
    assert ids[0] != ids[1]
