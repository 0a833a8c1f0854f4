"""A log directory that Apache Kafka 4.1.1 wrote, served by this broker: records, groups, and producers that continue.

Kafka is written to by every kind of producer there is: each compression, idempotent, transactional; and read by
groups of both protocols, which commit. Then it stops, or is killed, and this broker starts on its directory.

Left out: what Kafka keeps in its metadata log alone, save for the settings of topics.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from tests.cli.conftest import Shell
from tests.support.broker_process import Broker
from tests.support.java import JavaUnavailableError
from tests.support.kafka_peer import KafkaPeer
from tests.support.peers import QUICK, skip_or_fail, topic_creator
from tests.support.polling import SECONDS_MAX
from tests.support.samples import COMPRESSIONS, SAMPLES, numbered

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.thorough]

DEADLINE_SECONDS = 30
PROTOCOLS = ("classic", "consumer")
ROUNDS = 40
NUMBERED = numbered(ROUNDS)
TRANSACTIONAL_IDS = ("left-open", "silent", "t")
# Longer than Kafka takes to stop, so that the transaction is open in what it leaves.
LEFT_OPEN_MS = 60_000


@pytest.fixture(params=["clean", "killed"])
def adopted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker on what Kafka left behind."""
    try:
        kafka = KafkaPeer(tmp_path, settings=QUICK, heap="512m")
        kafka.start()
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    try:
        fill(kafka.bootstrap)
        _ = kafka.stop() if request.param == "clean" else kafka.kill()
    finally:
        kafka.close()
    broker = Broker(tmp_path, settings=QUICK)
    broker.start()
    yield broker
    broker.close()


def fill(bootstrap: str) -> None:
    """Topics `shapes`, `counted` and `transacted`, and a group of each protocol half-way through `counted`."""
    create = topic_creator(bootstrap)
    create(1, name="shapes")
    create(2, name="counted")
    create(1, name="transacted")
    create(1, name="kept", cleanup_policy="compact", retention_ms=-1)
    for compression in COMPRESSIONS:
        producer = new_producer(bootstrap, compression_type=compression)
        for sample in SAMPLES:
            producer.produce(
                "shapes",
                sample.value,
                sample.key,
                headers=list(sample.headers),
                timestamp=sample.timestamp_ms,
                partition=0,
            )
        assert producer.flush(DEADLINE_SECONDS) == 0
    send_numbered(bootstrap, NUMBERED)
    transacted = new_producer(bootstrap, transactional_id="t")
    transacted.init_transactions(DEADLINE_SECONDS)
    for value, is_kept in ((b"kept", True), (b"aborted", False), (b"kept too", True)):
        transacted.begin_transaction()
        transacted.produce("transacted", value, partition=0)
        if is_kept:
            transacted.commit_transaction(DEADLINE_SECONDS)
        else:
            transacted.flush(DEADLINE_SECONDS)
            transacted.abort_transaction(DEADLINE_SECONDS)
    # One transaction is left open, and an id is left that has not written: its producer id is in no other log.
    create(1, name="left-open")
    left = new_producer(bootstrap, transactional_id="left-open", transaction_timeout_ms=LEFT_OPEN_MS)
    left.init_transactions(DEADLINE_SECONDS)
    left.begin_transaction()
    left.produce("left-open", b"undecided", partition=0)
    assert left.flush(DEADLINE_SECONDS) == 0
    new_producer(bootstrap, transactional_id="silent").init_transactions(DEADLINE_SECONDS)
    for protocol in PROTOCOLS:
        consumer = new_consumer(bootstrap, f"of-{protocol}", group_protocol=protocol)
        consumer.subscribe(["counted"])
        read(consumer, ROUNDS)
        half = [TopicPartition("counted", index, ROUNDS // 4, metadata="half") for index in range(2)]
        consumer.commit(offsets=half, asynchronous=False)
        consumer.close()


def new_producer(bootstrap: str, **more: Any) -> Producer:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    own = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
    return Producer({**own, **settings})


def send_numbered(bootstrap: str, values: list[bytes]) -> None:
    """Value n to partition n mod 2 of `counted`, by an idempotent producer of its own."""
    producer = new_producer(bootstrap)
    refused: list[Any] = []

    def told(error: Any, _: Any) -> None:
        if error is not None:
            refused.append(error)

    for number, value in enumerate(values):
        producer.produce("counted", value, partition=number % 2, on_delivery=told)
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert not refused


def new_consumer(bootstrap: str, group: str, **more: Any) -> Consumer:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    own = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    return Consumer({**own, "enable.auto.commit": False, "isolation.level": "read_committed", **settings})


def read(consumer: Consumer, count: int) -> list[Any]:
    """`count` records; fails when they do not come."""
    found: list[Any] = []
    while len(found) < count:
        batch = consumer.consume(count - len(found), DEADLINE_SECONDS)
        assert batch, f"{len(found)} of {count} records came"
        for message in batch:
            assert message.error() is None, message.error()
            found.append(message)
    return found


def values_of(bootstrap: str, topic: str, count: int) -> list[Any]:
    consumer = new_consumer(bootstrap, "reader")
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = read(consumer, count)
    consumer.close()
    return found


def test_what_kafka_wrote_is_served(adopted: Broker) -> None:
    bootstrap = adopted.bootstrap
    shapes = values_of(bootstrap, "shapes", len(COMPRESSIONS) * len(SAMPLES))
    assert [
        (message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()[1])
        for message in shapes
    ] == [(one.key, one.value, one.headers, one.timestamp_ms) for one in SAMPLES] * len(COMPRESSIONS)
    assert {"kept", "left-open", "shapes", "counted", "transacted"} == set(names_of_topics(bootstrap))
    kept = settings_of_topic(bootstrap, "kept")
    assert (kept["cleanup.policy"].value, kept["retention.ms"].value) == ("compact", "-1")
    assert [message.value() for message in values_of(bootstrap, "transacted", 2)] == [b"kept", b"kept too"]
    groups_go_on(bootstrap)
    transactional_ids_go_on(bootstrap)
    producers_go_on(bootstrap)
    adopted.restart()
    groups_go_on(bootstrap)


def names_of_topics(bootstrap: str) -> list[str]:
    """Those that are not the broker's own."""
    listed = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=DEADLINE_SECONDS).topics
    return [name for name in listed if name not in ("__consumer_offsets", "__transaction_state")]


def settings_of_topic(bootstrap: str, topic: str) -> dict[str, Any]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found: dict[str, Any] = admin.describe_configs([resource])[resource].result(DEADLINE_SECONDS)
    return found


def groups_go_on(bootstrap: str) -> None:
    """The groups are as Kafka had them, and their members read on from what was committed."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    listed = {
        group.group_id: group.type.name.lower()
        for group in admin.list_consumer_groups().result(SECONDS_MAX).valid
    }
    for protocol in PROTOCOLS:
        assert listed[f"of-{protocol}"] == protocol
        consumer = new_consumer(bootstrap, f"of-{protocol}", group_protocol=protocol)
        committed = consumer.committed([TopicPartition("counted", index) for index in range(2)], 30)
        assert [(part.offset, part.metadata) for part in committed] == [(ROUNDS // 4, "half")] * 2
        consumer.subscribe(["counted"])
        found = [message.value() for message in read(consumer, ROUNDS // 2)]
        assert sorted(found) == NUMBERED[ROUNDS // 2 :]
        consumer.close()


def transactional_ids_go_on(bootstrap: str) -> None:
    """They keep their producer ids, which no other one gets; what one has left open is aborted when it returns."""
    shell = Shell(bootstrap)
    before = {one["transactional_id"]: one for one in shell.json("transactions", "list")}
    assert sorted(before) == sorted(TRANSACTIONAL_IDS)
    assert [before[name]["state"] for name in TRANSACTIONAL_IDS] == ["Ongoing", "Empty", "CompleteCommit"]
    for name in ("new", *TRANSACTIONAL_IDS):
        producer = new_producer(bootstrap, transactional_id=name)
        producer.init_transactions(DEADLINE_SECONDS)
        producer.begin_transaction()
        producer.produce("left-open", name.encode(), partition=0)
        producer.commit_transaction(DEADLINE_SECONDS)
    after = {one["transactional_id"]: one for one in shell.json("transactions", "list")}
    for name in TRANSACTIONAL_IDS:
        assert after[name]["producer_id"] == before[name]["producer_id"]
    used = [one["producer_id"] for one in before.values()]
    assert after["new"]["producer_id"] > max(used)
    expected = [b"new", *(name.encode() for name in TRANSACTIONAL_IDS)]
    assert [message.value() for message in values_of(bootstrap, "left-open", len(expected))] == expected


def producers_go_on(bootstrap: str) -> None:
    """New producers' ids are not those that Kafka gave: their first batches would be taken for duplicates."""
    for topic, written in (("shapes", len(COMPRESSIONS) * len(SAMPLES)), ("transacted", 6)):
        for number in range(3):
            assert offset_of_new_record(bootstrap, topic) == written + number


def test_a_new_kafka_beyond_our_producer_ids_takes_new_producers(tmp_path: Path) -> None:
    """The page's way into a new Kafka. With the ids that we have given, Kafka acknowledges records and drops them."""
    kafka = KafkaPeer(tmp_path / "kafka", settings=QUICK, heap="512m")
    ours = Broker(tmp_path / "odradek", settings=QUICK)
    ours.start()
    try:
        topic_creator(ours.bootstrap)(1, name="payments")
        assert [offset_of_new_record(ours.bootstrap, "payments") for _ in range(3)] == [0, 1, 2]
        ours.stop()
        kafka.start()
        for topic in ("payments", "scratch"):
            topic_creator(kafka.bootstrap)(1, name=topic)
        offset_of_new_record(kafka.bootstrap, "scratch")
        kafka.stop()
        replace_log(ours.data / "payments-0", kafka.data / "payments-0")
        for checkpoint in (
            ".kafka_cleanshutdown",
            "recovery-point-offset-checkpoint",
            "replication-offset-checkpoint",
        ):
            (kafka.data / checkpoint).unlink(missing_ok=True)
        kafka.start()
        assert [offset_of_new_record(kafka.bootstrap, "payments") for _ in range(3)] == [3, 4, 5]
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    finally:
        ours.close()
        kafka.close()


def replace_log(source: Path, target: Path) -> None:
    """Put the files of a partition in the place of another one's, which keeps its topic's id."""
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.name != "partition.metadata":
            shutil.copy2(path, target)


def offset_of_new_record(bootstrap: str, topic: str) -> int:
    """Where a record of a new idempotent producer went."""
    producer = new_producer(bootstrap)
    told: list[Any] = []
    producer.produce(topic, b"new", partition=0, on_delivery=lambda *outcome: told.append(outcome))
    assert producer.flush(DEADLINE_SECONDS) == 0
    ((error, message),) = told
    assert error is None, error
    offset: int = message.offset()
    return offset
