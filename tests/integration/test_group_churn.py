"""Twenty consumers of four kinds in three groups come, go and die, and so does the broker: nothing is missed.

By default there are twelve seconds of churn, and as many to become stable; CHURN_SECONDS makes it longer. CHURN_SEED
repeats a failure (as far as processes allow), and CHURN_BROKER=kafka tests Apache Kafka the same way. These must hold.
Every group takes every record at least once. The commits in the log are those of one owner after the other, and never
go back (`tests.support.group_commits`). In the end each group's shares are even.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from odradek.broker.coordination.records import kind_of
from odradek.broker.groups.schema import KIND_OFFSET, OffsetKey, decode_offset_key, decode_offset_value
from odradek.testing import TestBroker
from tests.integration.conftest import MakeBroker
from tests.support.broker_process import Broker
from tests.support.group_churn import Group, Kind
from tests.support.group_commits import LoggedCommits, faults
from tests.support.kafka_peer import KafkaPeer
from tests.support.local_process import running
from tests.support.plain_client import PlainClient

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.thorough]

PARTITIONS = 12
OFFSETS_PARTITIONS = 3
CHURN_SECONDS = float(os.environ.get("CHURN_SECONDS", "12"))
REST_SECONDS_MAX = 120.0
IS_AGAINST_KAFKA = os.environ.get("CHURN_BROKER") == "kafka"
STEP_SECONDS = 0.6
RECORDS_PER_STEP = 240

SETTINGS = {
    "offsets_topic_num_partitions": OFFSETS_PARTITIONS,
    "group_consumer_min_session_timeout_ms": 1000,
    "group_consumer_session_timeout_ms": 6000,
    "group_consumer_min_heartbeat_interval_ms": 100,
    "group_consumer_heartbeat_interval_ms": 300,
}
CLASSIC = Kind("confluent")
COOPERATIVE = Kind("confluent", strategy="cooperative-sticky")
MODERN = Kind("confluent", protocol="consumer")
GROUPS = {
    "classic": [CLASSIC] * 3 + [Kind("aiokafka")] * 2 + [Kind("kafka-python")] * 2,
    "consumer": [MODERN] * 7,
    "moving": [COOPERATIVE] * 3 + [MODERN] * 3,
}


class Source:
    """A producer that remembers what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self._topic = topic
        self.sent = 0
        self.acknowledged: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)

    def send(self, count: int) -> None:
        for _ in range(count):
            self._producer.produce(
                self._topic, b"%d" % self.sent, partition=self.sent % PARTITIONS, on_delivery=self._delivered
            )
            self.sent += 1
        self._producer.poll(0)

    def _delivered(self, error: object, message: Message) -> None:
        assert error is None, error
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        self.acknowledged[partition] = max(self.acknowledged[partition], offset + 1)

    def finish(self) -> None:
        assert self._producer.flush(120) == 0
        assert sum(self.acknowledged.values()) == self.sent, "idempotence leaves no gap and no double"


@pytest.fixture
def broker(make_broker: MakeBroker, tmp_path: Path) -> Iterator[Broker | KafkaPeer]:
    if not IS_AGAINST_KAFKA:
        yield make_broker(**SETTINGS)
        return
    peer = KafkaPeer(
        tmp_path / "kafka", settings={key.replace("_", "."): str(value) for key, value in SETTINGS.items()}
    )
    with running(peer):
        yield peer


@pytest.fixture
def groups(broker: Broker | KafkaPeer) -> Iterator[list[Group]]:
    with PlainClient(broker.port) as client:
        client.create_topic("t", PARTITIONS)
    made = [Group(name, bootstrap=broker.bootstrap, topic="t", kinds=kinds) for name, kinds in GROUPS.items()]
    yield made
    for group in made:
        group.close()


def wait_for_rest(groups: list[Group], source: Source) -> None:
    """Wait until all groups have taken and committed everything and hold even shares."""
    ends = {partition: end for partition, end in source.acknowledged.items() if end}
    wanted = {partition: set(range(end)) for partition, end in ends.items()}
    deadline = time.monotonic() + REST_SECONDS_MAX
    restless = list(groups)
    while restless:
        assert time.monotonic() < deadline, "\n".join(group.describe() for group in restless)
        for group in restless:
            group.check_alive()
            group.take_notes(seconds=0.1)
        for group in list(restless):
            if is_even(group) and group.history.taken == wanted and committed(group) == ends:
                seconds = time.monotonic() + REST_SECONDS_MAX - deadline
                print(f"{group.name} is at rest {seconds:.2f} s after the last churn")
                restless.remove(group)


def is_even(group: Group) -> bool:
    """Whether each partition is held once, and no member holds two more than another."""
    holdings = group.holdings()
    sizes = [len(held) for held in holdings]
    return sorted(chain(*holdings)) == list(range(PARTITIONS)) and max(sizes) - min(sizes) <= 1


def committed(group: Group) -> dict[int, int]:
    """Positions by partition, as the broker has them: a commit may count though its member never heard so."""
    reader = Consumer({"bootstrap.servers": group.bootstrap, "group.id": group.name})
    partitions = [TopicPartition(group.topic, partition) for partition in range(PARTITIONS)]
    found = {part.partition: part.offset for part in reader.committed(partitions, REST_SECONDS_MAX)}
    reader.close()
    return {partition: offset for partition, offset in found.items() if offset > 0}


def committed_positions(bootstrap: str) -> dict[OffsetKey, list[tuple[str, int]]]:
    """All commits ever, as name and position, in the order of the log, by group, topic and partition."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    positions: dict[OffsetKey, list[tuple[str, int]]] = {}
    for partition in range(OFFSETS_PARTITIONS):
        part = TopicPartition("__consumer_offsets", partition, 0)
        _, end = reader.get_watermark_offsets(part)
        reader.assign([part])
        while end and reader.position([part])[0].offset < end:
            for message in reader.consume(1000, 0.2):
                key, value = message.key(), message.value()
                assert isinstance(key, bytes)
                if kind_of(key) == KIND_OFFSET and isinstance(value, bytes):
                    committed = decode_offset_value(value)
                    # confluent-kafka sends the zero after its string, too.
                    named = committed.metadata.rstrip("\0"), committed.offset
                    positions.setdefault(decode_offset_key(key), []).append(named)
    reader.close()
    return positions


@pytest.mark.timeout(300 + 3 * CHURN_SECONDS)
def test_groups_under_churn(broker: Broker | KafkaPeer, groups: list[Group]) -> None:
    seed = int(os.environ.get("CHURN_SEED", random.randrange(1 << 30)))
    print(f"seed {seed}: CHURN_SEED={seed} plays it again")
    chance = random.Random(seed)
    source = Source(broker.bootstrap, "t")
    for group in groups:
        for kind in group.kinds:
            group.start_member(kind)
    began = time.monotonic()
    crashes_left = sorted((chance.uniform(0.2, 0.9) * CHURN_SECONDS for _ in range(2)), reverse=True)
    while time.monotonic() < began + CHURN_SECONDS:
        source.send(RECORDS_PER_STEP)
        for group in groups:
            group.take_notes(seconds=STEP_SECONDS / len(groups))
        print(f"{time.monotonic() - began:6.2f}", chance.choice(groups).churn(chance))
        if crashes_left and time.monotonic() - began > crashes_left[-1]:
            crashes_left.pop()
            is_crash = chance.random() < 0.7
            print(
                f"{time.monotonic() - began:6.2f}",
                "the broker is killed" if is_crash else "the broker restarts",
            )
            broker.restart(crash=is_crash)
    source.finish()
    wait_for_rest(groups, source)
    print(
        f"{time.monotonic() - began:6.2f} at rest; records {source.sent}, "
        f"taken {[group.history.takings for group in groups]}, members {[group.started for group in groups]}"
    )
    for group in groups:
        group.stop()
    positions = committed_positions(broker.bootstrap)
    for group in groups:
        logged = {
            partition: LoggedCommits(made)
            for (name, _, partition), made in positions.items()
            if name == group.name
        }
        assert not (found := faults(group.history.commits, logged)), "\n".join([group.name, *found])
    assert {(name, partition): made[-1][1] for (name, _, partition), made in positions.items()} == {
        (group.name, partition): end for group in groups for partition, end in source.acknowledged.items()
    }


@pytest.mark.parametrize("kind", [CLASSIC, COOPERATIVE, MODERN], ids=["classic", "cooperative", "consumer"])
def test_positions_are_asked_for_again_when_their_coordinator_moved(kind: Kind, tmp_path: Path) -> None:
    """librdkafka leaves that to the application, which is the member's process here."""
    with TestBroker(tmp_path / "broker") as broker:
        broker.create_topic("t")
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("t", b"x", partition=0)
        assert producer.flush(60) == 0
        broker.fail("OffsetFetch", error="NOT_COORDINATOR", times=2)
        group = Group("g", bootstrap=broker.bootstrap, topic="t", kinds=[kind])
        group.start_member(kind)
        try:
            deadline = time.monotonic() + REST_SECONDS_MAX
            while group.history.taken != {0: {0}}:
                assert time.monotonic() < deadline, group.describe()
                group.check_alive()
                group.take_notes(seconds=0.1)
            group.stop()
        finally:
            group.close()
