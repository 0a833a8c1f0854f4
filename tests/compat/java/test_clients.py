"""Java's clients, 4.1.1 and the 3.9 of Spark's connector: records, both group protocols, restarts."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.support.java_gateway import java_admin, java_consumer, java_producer, listed, poll
from tests.support.peers import CreateTopic
from tests.support.samples import COMPRESSIONS, SAMPLES, Sample, numbered

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.slow, pytest.mark.thorough]

DEADLINE_SECONDS = 45
both_versions = pytest.mark.parametrize("jvm", ["3_9", "4_1"], indirect=True)
both_protocols = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def read(jvm: Any, consumers: list[Any], count: int) -> list[list[Any]]:
    """What each consumer got until there were `count` records in all, or the deadline passed."""
    got: list[list[Any]] = [[] for _ in consumers]
    deadline = time.monotonic() + DEADLINE_SECONDS
    while sum(map(len, got)) < count and time.monotonic() < deadline:
        for index, consumer in enumerate(consumers):
            got[index].extend(poll(jvm, consumer, 100))
    return got


def assigned(jvm: Any, topic: str) -> Any:
    parts = jvm.java.util.ArrayList()
    parts.add(jvm.org.apache.kafka.common.TopicPartition(topic, 0))
    return parts


def record_of(jvm: Any, topic: str, sample: Sample) -> Any:
    record = jvm.org.apache.kafka.clients.producer.ProducerRecord(
        topic, 0, sample.timestamp_ms, sample.key, sample.value
    )
    for name, value in sample.headers:
        record.headers().add(name, value)
    return record


def send(jvm: Any, bootstrap: str, topic: str, values: list[bytes], partitions: int) -> None:
    producer = java_producer(jvm, bootstrap, linger_ms=5)
    for number, value in enumerate(values):
        producer.send(
            jvm.org.apache.kafka.clients.producer.ProducerRecord(
                topic, number % partitions, None, None, value
            )
        )
    producer.flush()
    producer.close()


@both_versions
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_shape_of_record_comes_back(jvm: Any, bootstrap: str, topic: str, compression: str) -> None:
    producer = java_producer(jvm, bootstrap, compression_type=compression, acks="all", linger_ms=50)
    futures = [producer.send(record_of(jvm, topic, sample)) for sample in SAMPLES]
    assert [future.get().offset() for future in futures] == list(range(len(SAMPLES)))
    producer.close()
    consumer = java_consumer(jvm, bootstrap)
    consumer.assign(assigned(jvm, topic))
    (found,) = read(jvm, [consumer], len(SAMPLES))
    consumer.close()
    assert [
        Sample(
            record.key(),
            record.value(),
            tuple((header.key(), header.value()) for header in listed(record.headers())),
            timestamp_ms=record.timestamp(),
        )
        for record in found
    ] == list(SAMPLES)


@both_versions
@both_protocols
def test_a_group_goes_on_where_it_committed_over_a_restart(
    jvm: Any, restartable: Any, bootstrap: str, create_topic: CreateTopic, unique: str, protocol: str
) -> None:
    topic = create_topic(2)
    values = numbered(200)
    for batch in (values[:100], values[100:]):
        send(jvm, bootstrap, topic, batch, 2)
        consumer = java_consumer(jvm, bootstrap, group_id=unique, group_protocol=protocol)
        consumer.subscribe([topic])
        (found,) = read(jvm, [consumer], 100)
        assert sorted(record.value() for record in found) == batch
        consumer.commitSync()
        consumer.close()
        restartable.restart()


@both_versions
@both_protocols
def test_members_share_and_take_over(
    jvm: Any, bootstrap: str, create_topic: CreateTopic, unique: str, protocol: str
) -> None:
    topic = create_topic(4)
    settings = {"group.id": unique, "group.protocol": protocol}
    if protocol == "classic":
        settings |= {"heartbeat.interval.ms": "300", "session.timeout.ms": "6000"}
    first, second = (java_consumer(jvm, bootstrap, **settings) for _ in range(2))

    def await_shares(consumers: list[Any], wanted: list[int]) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        shares: list[int] = []
        while shares != wanted:
            assert time.monotonic() < deadline, f"shares {shares} instead of {wanted}"
            for consumer in consumers:
                poll(jvm, consumer, 50)
            shares = [len(list(consumer.assignment())) for consumer in consumers]

    first.subscribe([topic])
    await_shares([first], [4])
    second.subscribe([topic])
    await_shares([first, second], [2, 2])
    values = numbered(40)
    send(jvm, bootstrap, topic, values, 4)
    got = read(jvm, [first, second], 40)
    assert sorted(record.value() for records in got for record in records) == values
    second.commitSync()
    second.close()
    await_shares([first], [4])
    first.close()


@both_versions
def test_an_idempotent_producer_survives_a_crash(
    jvm: Any, restartable: Any, bootstrap: str, topic: str
) -> None:
    producer = java_producer(jvm, bootstrap, acks="all", enable_idempotence="true", linger_ms=2)
    record = jvm.org.apache.kafka.clients.producer.ProducerRecord
    values = numbered(500)
    futures = []
    for number, value in enumerate(values):
        futures.append(producer.send(record(topic, 0, None, None, value)))
        if number == 250:
            restartable.restart(crash=True)
    assert [future.get().offset() for future in futures] == list(range(500))
    producer.close()
    consumer = java_consumer(jvm, bootstrap)
    consumer.assign(assigned(jvm, topic))
    (found,) = read(jvm, [consumer], 500)
    assert [one.value() for one in found] == values
    consumer.close()


@both_versions
def test_the_admin_client_works(jvm: Any, bootstrap: str, unique: str) -> None:
    admin = java_admin(jvm, bootstrap)
    packages = jvm.org.apache.kafka
    new_topic = packages.clients.admin.NewTopic(unique, 2, jvm.Short.valueOf("1"))
    admin.createTopics([new_topic]).all().get()
    with pytest.raises(Py4JJavaError, match="TopicExistsException"):
        admin.createTopics([new_topic]).all().get()
    admin.createPartitions({unique: packages.clients.admin.NewPartitions.increaseTo(3)}).all().get()
    described = admin.describeTopics([unique]).allTopicNames().get()[unique]
    assert len(list(described.partitions())) == 3
    part = packages.common.TopicPartition(unique, 0)
    offsets = {part: packages.clients.consumer.OffsetAndMetadata(5, "noted")}
    admin.alterConsumerGroupOffsets(unique, offsets).all().get()
    committed = admin.listConsumerGroupOffsets(unique).partitionsToOffsetAndMetadata().get()
    assert [(found.offset(), found.metadata()) for found in committed.values()] == [(5, "noted")]
    admin.deleteConsumerGroups([unique]).all().get()
    latest = admin.listOffsets({part: packages.clients.admin.OffsetSpec.maxTimestamp()}).all().get()
    assert latest[part].offset() == -1
    directories = admin.describeLogDirs([described.partitions()[0].leader().id()]).allDescriptions().get()
    assert len(list(directories.values())) == 1
    admin.deleteTopics([unique]).all().get()
    assert unique not in list(admin.listTopics().names().get())
    admin.close()


@both_versions
def test_log_directories_have_the_bytes_of_their_volumes(jvm: Any, bootstrap: str, topic: str) -> None:
    """KIP-827; the broker runs on this machine, so its paths are ours."""
    admin = java_admin(jvm, bootstrap)
    (described,) = admin.describeLogDirs([jvm.Integer.valueOf(1)]).allDescriptions().get().values()
    for path, directory in described.items():
        usage = os.statvfs(path)
        assert directory.error() is None
        assert directory.totalBytes().getAsLong() == usage.f_blocks * usage.f_frsize
        assert 0 < directory.usableBytes().getAsLong() <= directory.totalBytes().getAsLong()
        assert any(key.topic() == topic for key in directory.replicaInfos())
    admin.close()
