"""Our consumers and Kafka 1.1.1's own in one group: they share partitions through ZooKeeper, and read one another."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.classic import ConsumerConnector, KafkaStream, KeyedMessage, Producer, SimpleConsumer
from tests.support import connector_member
from tests.support.first_kafka import FirstKafka, OldConsumer
from tests.support.java import JavaUnavailableError, checker_classpath, run_kafka_tool
from tests.support.mixed_group import Writer, make_topic, member_process, owners_of, wait_for
from tests.support.peers import skip_or_fail

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.thorough]

PARTITIONS = 5


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[FirstKafka]:
    kafka = FirstKafka(
        tmp_path, settings={"num.partitions": str(PARTITIONS), "auto.create.topics.enable": "true"}
    )
    try:
        kafka.start()
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    yield kafka
    kafka.close()


class Member:
    """One of ours: a thread takes messages and keeps them."""

    def __init__(self, kafka: FirstKafka, group: str, topic: str) -> None:
        self.connector = ConsumerConnector(
            {
                "zookeeper.connect": kafka.zookeeper.connect,
                "group.id": group,
                "auto.offset.reset": "smallest",
                "auto.commit.interval.ms": 200,
            }
        )
        self.taken: list[str] = []
        streams = self.connector.create_message_streams({topic: 1})[topic]
        self._thread = threading.Thread(target=self._take, args=streams)
        self._thread.start()

    def _take(self, stream: KafkaStream) -> None:
        for message in stream:
            self.taken.append(message.message.decode())

    def stop(self) -> None:
        self.connector.shutdown()
        self._thread.join()


def test_a_mixed_group_gets_every_message_once(kafka: FirstKafka, tmp_path: Path, unique: str) -> None:
    writer = Writer(kafka, unique)
    make_topic(kafka, unique, PARTITIONS)
    ours = Member(kafka, unique, unique)
    olds = [OldConsumer(tmp_path / "old1", kafka, group=unique, topic=unique)]
    members: list[Member | OldConsumer] = [ours, olds[0]]

    def taken() -> Counter[str]:
        return Counter(
            line for one in members for line in (one.taken if isinstance(one, Member) else one.lines())
        )

    def got_all() -> bool:
        return len(taken()) == writer.count

    try:
        # In the order of the ids' text one of the two has three partitions, the other two.
        wait_for(
            lambda: len(ours.connector.owned_partitions) in (2, 3), lambda: ours.connector.owned_partitions
        )
        writer.write(100)
        wait_for(got_all, taken)
        second = Member(kafka, unique, unique)
        members.append(second)
        wait_for(
            lambda: 1 <= len(second.connector.owned_partitions) <= 2,
            lambda: second.connector.owned_partitions,
        )
        wait_for(lambda: len(ours.connector.owned_partitions) <= 2, lambda: ours.connector.owned_partitions)
        writer.write(100)
        wait_for(got_all, taken)
        ours.stop()
        writer.write(100)
        wait_for(got_all, taken)
        olds[0].stop()
        wait_for(
            lambda: len(second.connector.owned_partitions) == PARTITIONS,
            lambda: second.connector.owned_partitions,
        )
        writer.write(100)
        wait_for(got_all, taken)
        assert [line for line, count in taken().items() if count > 1] == []
        second.stop()
        _check_offsets(kafka, unique, writer.count)
        # And the other way: Kafka's own continues from the offsets that ours has committed.
        olds.append(OldConsumer(tmp_path / "old2", kafka, group=unique, topic=unique))
        members.append(olds[1])
        writer.write(50)
        wait_for(got_all, taken)
        assert sorted(map(int, olds[1].lines())) == list(range(400, 450))
        olds[1].kill()
    finally:
        writer.close()
        for old in olds:
            old.kill()
        for member in members:
            if isinstance(member, Member):
                member.stop()


def test_a_mixed_group_loses_nothing_when_members_and_the_broker_die(
    kafka: FirstKafka, tmp_path: Path, unique: str
) -> None:
    """A killed member has what it did not commit handed out again; a broker's restart and a join do not."""
    writer = Writer(kafka, unique)
    make_topic(kafka, unique, PARTITIONS)
    members: list[connector_member.Member | OldConsumer] = [
        member_process(tmp_path / "ours1", kafka, unique, unique),
        OldConsumer(tmp_path / "old1", kafka, group=unique, topic=unique),
    ]

    def taken() -> Counter[str]:
        return Counter(line for one in members for line in one.lines())

    def write_and_wait(count: int) -> None:
        writer.write(count)
        wait_for(lambda: len(taken()) == writer.count, lambda: (writer.count, len(taken())), 90)

    def owners() -> Counter[str]:
        return owners_of(kafka, unique, unique)

    def wait_for_members(count: int) -> None:
        wait_for(lambda: (len(owners()), sum(owners().values())) == (count, PARTITIONS), owners, 90)

    try:
        wait_for_members(2)
        write_and_wait(100)
        kafka.stop_broker()
        kafka.start_broker()
        write_and_wait(100)
        assert [line for line, count in taken().items() if count > 1] == [], "no member stalled or died"
        members[0].kill()
        members.append(member_process(tmp_path / "ours2", kafka, unique, unique))
        wait_for_members(2)
        write_and_wait(100)
        members.append(OldConsumer(tmp_path / "old2", kafka, group=unique, topic=unique))
        wait_for_members(3)
        members[1].kill()
        wait_for_members(2)
        write_and_wait(100)
        # Commits of both kinds are at most 200 ms old: a kill repeats what was taken since.
        assert max(taken().values()) <= 3
    finally:
        writer.close()
        for member in members:
            if isinstance(member, connector_member.Member):
                member.close()  # it may be killed already
            else:
                member.kill()


def _check_offsets(kafka: FirstKafka, group: str, count: int) -> None:
    """ConsumerOffsetChecker of 0.8.2.2 shows no lag and no owner."""
    done = run_kafka_tool(
        "kafka.tools.ConsumerOffsetChecker",
        *("--zookeeper", kafka.zookeeper.connect, "--group", group, "--topic", group),
        classpath=checker_classpath(),
    )
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(group)]
    assert [row[2:] for row in rows] == [
        [str(number), str(count // PARTITIONS), str(count // PARTITIONS), "0", "none"]
        for number in range(PARTITIONS)
    ]


def test_old_brokers_list_several_offsets(kafka: FirstKafka, unique: str) -> None:
    with Producer({"broker.list": kafka.bootstrap}) as producer:
        producer.send([KeyedMessage(unique, b"x", part_key=b"0") for _ in range(3)])
    with SimpleConsumer("127.0.0.1", kafka.port) as consumer:
        offsets = [consumer.get_offsets_before(unique, number, -1, 10) for number in range(PARTITIONS)]
        assert sorted(offsets) == [[0]] * (PARTITIONS - 1) + [[3, 0]]
        assert consumer.get_offsets_before(unique, 0, -2, 10) == [0]
