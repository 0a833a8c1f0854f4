"""Transactions of Java's clients: 3.9 speaks the first generation, 4.1 the second. Kafka's own tools look on."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.cli.conftest import Shell
from tests.compat.java.test_tools import TOOLS, tool
from tests.support.java import (
    KAFKA_OLD_VERSION,
    KAFKA_VERSION,
    JavaUnavailableError,
    kafka_classpath,
    run_kafka_tool,
)
from tests.support.java_gateway import java_consumer, java_producer, poll
from tests.support.peers import CreateTopic, Peer, skip_or_fail
from tests.support.plain_reads import all_records

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.slow, pytest.mark.thorough]

DEADLINE_SECONDS = 45
both_versions = pytest.mark.parametrize("jvm", ["3_9", "4_1"], indirect=True)


def read(jvm: Any, bootstrap: str, topic: str, count: int, level: str) -> list[bytes]:
    consumer = java_consumer(jvm, bootstrap, isolation_level=level)
    parts = jvm.java.util.ArrayList()
    parts.add(jvm.org.apache.kafka.common.TopicPartition(topic, 0))
    consumer.assign(parts)
    found: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(found) < count and time.monotonic() < deadline:
        found += [bytes(record.value()) for record in poll(jvm, consumer)]
    found += [bytes(record.value()) for record in poll(jvm, consumer)]
    consumer.close()
    return found


def send(jvm: Any, producer: Any, topic: str, value: bytes) -> None:
    record = jvm.org.apache.kafka.clients.producer.ProducerRecord(topic, 0, None, None, value)
    producer.send(record).get()


@both_versions
def test_transactions_commit_abort_and_fence(jvm: Any, bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(1)
    old = java_producer(jvm, bootstrap, transactional_id=topic)
    old.initTransactions()
    for number in range(4):
        old.beginTransaction()
        send(jvm, old, topic, b"%d" % number)
        if number % 2:
            old.abortTransaction()
        else:
            old.commitTransaction()
    old.beginTransaction()
    send(jvm, old, topic, b"of a zombie")
    new = java_producer(jvm, bootstrap, transactional_id=topic)
    new.initTransactions()
    with pytest.raises(Py4JJavaError, match=r"fenced|Fenced|newer"):
        old.commitTransaction()
    new.beginTransaction()
    send(jvm, new, topic, b"the last")
    new.commitTransaction()
    assert read(jvm, bootstrap, topic, 3, "read_committed") == [b"0", b"2", b"the last"]
    assert len(read(jvm, bootstrap, topic, 6, "read_uncommitted")) == 6
    new.close()
    old.close()


@pytest.mark.parametrize("version", [KAFKA_OLD_VERSION, KAFKA_VERSION])
def test_the_copier_of_kafkas_tools_copies_exactly_once(bootstrap: str, unique: str, version: str) -> None:
    try:
        kafka_classpath(version)
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    source, target = f"{unique}-in", f"{unique}-out"
    tool(f"{TOOLS}.VerifiableProducer", bootstrap, f"--topic {source} --max-messages 3000 --acks -1")
    copied = run_kafka_tool(
        f"{TOOLS}.TransactionalMessageCopier",
        *("--broker-list", bootstrap, "--transactional-id", unique, "--consumer-group", unique),
        *("--input-topic", source, "--input-partition", "0", "--output-topic", target),
        *("--max-messages", "3000", "--transaction-size", "250", "--transaction-timeout", "10000"),
        *("--enable-random-aborts", "--use-group-metadata"),
        version=version,
    )
    assert json.loads(copied.stdout.splitlines()[-1])["remaining"] == 0
    # Not by Kafka's console consumer. With Apache Kafka too, a poll now and then waits for its whole time although
    # records are there. A poll without a record ends it.
    both = [
        [value.decode() for _, value in all_records(bootstrap, name, **{"isolation.level": "read_committed"})]
        for name in (source, target)
    ]
    assert both[0] == both[1] == [str(number) for number in range(3000)]
    transactions = f"{TOOLS}.TransactionsCommand"
    listed = tool(transactions, bootstrap, "list")
    (row,) = [line.split() for line in listed.splitlines() if line.startswith(unique)]
    assert row[-1].startswith("Complete")
    described = tool(transactions, bootstrap, f"describe --transactional-id {unique}")
    assert "CompleteCommit" in described or "CompleteAbort" in described
    tool(transactions, bootstrap, "find-hanging --broker-id 1")


def test_kafka_features_changes_the_level(bootstrap: str) -> None:
    features = f"{TOOLS}.FeatureCommand"
    for verb, level in (("downgrade", 1), ("upgrade", 2)):
        changed = tool(features, bootstrap, verb, "--feature", f"transaction.version={level}")
        assert f"transaction.version was {verb}d to {level}" in changed
        described = tool(features, bootstrap, "describe")
        (row,) = [line for line in described.splitlines() if "transaction.version" in line]
        assert f"FinalizedVersionLevel: {level}" in row


@pytest.mark.parametrize("jvm", ["4_1"], indirect=True)
def test_a_producer_lives_through_a_rolling_upgrade_and_back(
    jvm: Any, restartable: Peer, create_topic: CreateTopic
) -> None:
    """It learns of the level from a broker that has restarted, and takes another epoch by itself."""
    bootstrap = restartable.bootstrap
    topic = create_topic(1)
    shell = Shell(bootstrap)

    def change(verb: str, level: int) -> None:
        tool(f"{TOOLS}.FeatureCommand", bootstrap, verb, "--feature", f"transaction.version={level}")
        restartable.restart()

    change("downgrade", 1)
    producer = java_producer(jvm, bootstrap, transactional_id=topic)
    producer.initTransactions()
    epochs: list[int] = []

    def commit(count: int) -> None:
        for _ in range(count):
            producer.beginTransaction()
            send(jvm, producer, topic, b"%d" % len(epochs))
            producer.commitTransaction()
            (described,) = shell.json("transactions", "describe", topic)
            epochs.append(described["producer_epoch"])

    commit(3)
    assert len(set(epochs)) == 1, "version 1 keeps its epoch"
    change("upgrade", 2)
    commit(4)
    assert epochs[4:] == [epochs[4] + number for number in range(3)], "version 2 raises it with each end"
    assert epochs[4] > epochs[2]
    change("downgrade", 1)
    commit(3)
    assert len(set(epochs[-2:])) == 1
    change("upgrade", 2)
    commit(1)
    producer.close()
    assert read(jvm, bootstrap, topic, 11, "read_committed") == [b"%d" % number for number in range(11)]
