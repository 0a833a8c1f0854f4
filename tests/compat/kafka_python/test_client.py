"""kafka-python: a client written in Python with its own codec, against the broker."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError
from kafka.structs import OffsetAndMetadata

from tests.support.peers import CreateTopic
from tests.support.polling import wait_until
from tests.support.samples import COMPRESSIONS, SAMPLES, Sample, numbered

# Its own doings: deprecated calls, and sockets left to the garbage collector.
pytestmark = [
    pytest.mark.clients,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

WAIT_SECONDS = 120


def read(consumer: KafkaConsumer, count: int) -> list[Any]:
    """`count` records, or those that came before the time was up."""
    found: list[Any] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(found) < count and (rest := deadline - time.monotonic()) > 0:
        # It loses the answer to a join that its poll does not wait for.
        for records in consumer.poll(timeout_ms=rest * 1000).values():
            found.extend(records)
    return found


def reader(bootstrap: str, topic: str, **more: Any) -> KafkaConsumer:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **more)
    consumer.assign([TopicPartition(topic, 0)])
    return consumer


def can_send(sample: Sample) -> bool:
    """kafka-python refuses a null header value, and a record without key and value."""
    has_content = sample.key is not None or sample.value is not None
    return has_content and all(value is not None for _, value in sample.headers)


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_shape_of_record_comes_back(
    bootstrap: str, topic: str, compression: str, idempotent: bool
) -> None:
    sender = KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if compression == "none" else compression,
        enable_idempotence=idempotent,
        linger_ms=20,
    )
    samples = [sample for sample in SAMPLES if can_send(sample)]
    futures = [
        sender.send(
            topic,
            value=sample.value,
            key=sample.key,
            headers=list(sample.headers),
            partition=0,
            timestamp_ms=sample.timestamp_ms,
        )
        for sample in samples
    ]
    assert [future.get(WAIT_SECONDS).offset for future in futures] == list(range(len(samples)))
    sender.close()
    consumer = reader(bootstrap, topic)
    found = [
        Sample(record.key, record.value, tuple(record.headers), timestamp_ms=record.timestamp)
        for record in read(consumer, len(samples))
    ]
    assert found == samples
    consumer.close()


def test_a_group_goes_on_where_it_committed_over_a_restart(
    restartable: Any, bootstrap: str, create_topic: CreateTopic, unique: str
) -> None:
    topic = create_topic(2)
    values = numbered(400)

    def round_trip(expected: list[bytes]) -> None:
        sender = KafkaProducer(bootstrap_servers=bootstrap)
        for number, value in enumerate(expected):
            sender.send(topic, value, partition=number % 2)
        sender.flush(WAIT_SECONDS)
        sender.close()
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=unique,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        assert sorted(record.value for record in read(consumer, len(expected))) == expected
        consumer.commit()
        consumer.close()

    round_trip(values[:200])
    restartable.restart()
    round_trip(values[200:])


def test_two_members_share(bootstrap: str, create_topic: CreateTopic, unique: str) -> None:
    topic = create_topic(4)
    members = [
        KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=unique,
            heartbeat_interval_ms=300,
            session_timeout_ms=6000,
        )
        for _ in range(2)
    ]
    done = threading.Event()

    def poll(member: KafkaConsumer) -> None:
        while not done.is_set():
            # Long enough for a join: this client loses the answer to a join that its poll does not wait for.
            member.poll(timeout_ms=10_000)

    threads = [threading.Thread(target=poll, args=(member,)) for member in members]
    for thread in threads:
        thread.start()
    try:
        wait_until(
            "each has two partitions",
            lambda: [len(member.assignment()) for member in members],
            lambda shares: shares == [2, 2],
        )
    finally:
        done.set()
        for thread in threads:
            thread.join()
    for member in members:
        member.close()


def test_an_idempotent_producer_survives_a_crash(restartable: Any, bootstrap: str, topic: str) -> None:
    sender = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, acks="all", linger_ms=2)
    values = numbered(600)
    futures = []
    for number, value in enumerate(values):
        futures.append(sender.send(topic, value, partition=0))
        if number == 300:
            restartable.restart(crash=True)
    sender.flush(60)
    assert [future.get(WAIT_SECONDS).offset for future in futures] == list(range(600))
    sender.close()
    consumer = reader(bootstrap, topic)
    assert [record.value for record in read(consumer, 600)] == values
    consumer.close()


def test_the_admin_client_works(bootstrap: str, unique: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(unique, num_partitions=2, replication_factor=1)])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(unique, num_partitions=2, replication_factor=1)])
    assert unique in admin.list_topics()
    admin.create_partitions({unique: 4})
    (described,) = admin.describe_topics([unique])
    assert len(described["partitions"]) == 4
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, unique, {"retention.ms": "4242"})])
    configs = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, unique)], config_filter="all")
    assert "4242" in str(configs)
    part = TopicPartition(unique, 0)
    admin.alter_group_offsets(unique, {part: OffsetAndMetadata(3, "noted", -1)})
    listed = admin.list_group_offsets({unique: None})
    assert listed[unique][part].offset == 3
    assert unique in {group["group_id"] for group in admin.list_groups()}
    assert admin.describe_groups([unique])[unique]["group_state"] == "Empty"
    admin.delete_groups([unique])
    admin.describe_log_dirs()
    admin.delete_topics([unique])
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([unique])
    admin.close()


def test_transactions_commit_and_abort(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    producer.init_transactions()
    for value, end in (
        (b"committed", producer.commit_transaction),
        (b"aborted", producer.abort_transaction),
        (b"the last", producer.commit_transaction),
    ):
        producer.begin_transaction()
        producer.send(topic, value, partition=0).get(WAIT_SECONDS)
        end()
    producer.close()
    for level, values in (
        ("read_committed", [b"committed", b"the last"]),
        ("read_uncommitted", [b"committed", b"aborted", b"the last"]),
    ):
        consumer = reader(bootstrap, topic, isolation_level=level)
        assert [record.value for record in read(consumer, len(values))] == values
        consumer.close()
