"""confluent-kafka in groups, by the classic protocol and by KIP-848: shares, commits, rebalances."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tests.support.peers import CreateTopic
from tests.support.polling import SECONDS_MAX
from tests.support.samples import numbered

pytestmark = pytest.mark.clients

PROTOCOLS = ("classic", "consumer")
DEADLINE_SECONDS = 45


def member(bootstrap: str, group: str, topic: str, protocol: str, **more: Any) -> Consumer:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "group.protocol": protocol,
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    if protocol == "classic":
        settings["heartbeat.interval.ms"] = 300
        settings.setdefault("session.timeout.ms", 6000)
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    return consumer


def send(bootstrap: str, topic: str, values: list[bytes], partitions: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions)
    assert producer.flush(30) == 0


def drain(consumers: list[Consumer], count: int) -> list[list[bytes]]:
    """What each consumer got, until `count` came in all or the deadline passed."""
    got: list[list[bytes]] = [[] for _ in consumers]
    deadline = time.monotonic() + DEADLINE_SECONDS
    while sum(map(len, got)) < count and time.monotonic() < deadline:
        for index, consumer in enumerate(consumers):
            for message in consumer.consume(500, 0.1):
                assert message.error() is None, message.error()
                got[index].append(message.value() or b"")
    return got


def await_shares(consumers: list[Consumer], wanted: list[int]) -> None:
    """Poll until the sizes of the assignments are `wanted`, in any order."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    shares: list[int] = []
    while time.monotonic() < deadline:
        for consumer in consumers:
            message = consumer.poll(0.05)
            assert message is None or message.error() is None
        shares = sorted(len(consumer.assignment()) for consumer in consumers)
        if shares == sorted(wanted):
            return
    raise AssertionError(f"shares were {shares} and not {wanted} after {DEADLINE_SECONDS} s")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_goes_on_where_it_committed(
    restartable: Any, bootstrap: str, create_topic: CreateTopic, unique: str, protocol: str
) -> None:
    topic = create_topic(3)
    values = numbered(600)
    send(bootstrap, topic, values[:300], 3)
    first = member(bootstrap, unique, topic, protocol)
    assert sorted(drain([first], 300)[0]) == values[:300]
    first.commit(asynchronous=False)
    first.close()
    restartable.restart()
    send(bootstrap, topic, values[300:], 3)
    second = member(bootstrap, unique, topic, protocol)
    assert sorted(drain([second], 300)[0]) == values[300:]
    second.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_two_members_share_and_one_takes_over(
    bootstrap: str, create_topic: CreateTopic, unique: str, protocol: str
) -> None:
    topic = create_topic(4)
    first = member(bootstrap, unique, topic, protocol)
    await_shares([first], [4])
    second = member(bootstrap, unique, topic, protocol)
    await_shares([first, second], [2, 2])
    values = numbered(400)
    send(bootstrap, topic, values, 4)
    got = drain([first, second], 400)
    assert sorted(got[0] + got[1]) == values
    assert min(map(len, got)) == 200
    first.commit(asynchronous=False)
    first.close()
    await_shares([second], [4])
    second.close()


def test_cooperative_members_keep_what_they_hold(
    bootstrap: str, create_topic: CreateTopic, unique: str
) -> None:
    topic = create_topic(4)
    strategy = {"partition.assignment.strategy": "cooperative-sticky"}
    first = member(bootstrap, unique, topic, "classic", **strategy)
    await_shares([first], [4])
    held = {(part.topic, part.partition) for part in first.assignment()}
    second = member(bootstrap, unique, topic, "classic", **strategy)
    await_shares([first, second], [2, 2])
    kept = {(part.topic, part.partition) for part in first.assignment()}
    assert kept < held
    first.close()
    second.close()


def test_a_static_member_comes_back_to_its_share_without_a_rebalance(
    bootstrap: str, create_topic: CreateTopic, unique: str
) -> None:
    topic = create_topic(4)
    consumers = [
        member(
            bootstrap, unique, topic, "classic", group_instance_id=f"host-{number}", session_timeout_ms=30_000
        )
        for number in range(2)
    ]
    await_shares(consumers, [2, 2])
    shares = [sorted(part.partition for part in consumer.assignment()) for consumer in consumers]
    consumers[0].close()
    again = member(bootstrap, unique, topic, "classic", group_instance_id="host-0", session_timeout_ms=30_000)
    await_shares([again, consumers[1]], [2, 2])
    assert [sorted(part.partition for part in one.assignment()) for one in (again, consumers[1])] == shares
    again.close()
    consumers[1].close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_new_partition_is_taken_up(
    bootstrap: str, create_topic: CreateTopic, unique: str, protocol: str
) -> None:
    from confluent_kafka.admin import NewPartitions

    topic = create_topic(1)
    consumer = member(bootstrap, unique, topic, protocol, topic_metadata_refresh_interval_ms=500)
    await_shares([consumer], [1])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(SECONDS_MAX)
    await_shares([consumer], [3])
    consumer.close()
