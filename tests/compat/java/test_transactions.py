"""Kafka's TransactionalMessageCopier, 4.1.1 and 3.9.1, with random aborts: the output is the input."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from tests.compat.confluent.test_records import read, reader
from tests.support.java import KAFKA_OLD_VERSION, KAFKA_VERSION, run_kafka_tool
from tests.support.peers import CreateTopic

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.slow, pytest.mark.thorough]

COUNT = 5000


@pytest.mark.parametrize("version", [KAFKA_OLD_VERSION, KAFKA_VERSION])
def test_a_copy_with_random_aborts_is_the_input(
    bootstrap: str, create_topic: CreateTopic, version: str
) -> None:
    source, target = create_topic(1), create_topic(1)
    plain = Producer({"bootstrap.servers": bootstrap})
    for number in range(COUNT):
        plain.produce(source, b"%d" % number)
    assert plain.flush(30) == 0
    run_kafka_tool(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", bootstrap, "--transactional-id", f"copier-{source}"),
        *("--consumer-group", f"of-{source}", "--input-topic", source, "--input-partition", "0"),
        *("--output-topic", target, "--max-messages", str(COUNT), "--transaction-size", "250"),
        *("--transaction-timeout", "10000", "--enable-random-aborts", "--use-group-metadata"),
        version=version,
    )
    consumer = reader(bootstrap, target, isolation_level="read_committed")
    found = read(consumer, COUNT) + read(consumer, 1, seconds_max=5)
    assert [one.value() for one in found] == [b"%d" % number for number in range(COUNT)]
