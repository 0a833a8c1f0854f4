"""Transactions that hang are found and aborted: by `odradek transactions`, and by Kafka's own kafka-transactions.sh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Producer

from odradek.foundation.ids import TopicPartition
from tests.cli.conftest import Shell
from tests.compat.java.test_tools import TOOLS, tool
from tests.support.copiers import read_to_the_end
from tests.support.hanging import leave_hanging
from tests.support.peers import CreateTopic

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.slow, pytest.mark.thorough]

# Higher than any producer id that was allocated.
FORGOTTEN_ID = 8_000_000


def hanging_by_kafka(bootstrap: str, topic: str) -> list[tuple[str, ...]]:
    """(partition, producer id, epoch, start offset) of what Kafka's tool finds in a topic."""
    found = tool(f"{TOOLS}.TransactionsCommand", bootstrap, "find-hanging", "--broker-id", "1")
    header, *rows = [line.split() for line in found.splitlines() if line.strip()] or [[]]
    columns = (
        [header.index(name) for name in ("Partition", "ProducerId", "ProducerEpoch", "StartOffset")]
        if rows
        else []
    )
    return [tuple(row[column] for column in columns) for row in rows if row[0] == topic]


def test_hanging_transactions_are_found_and_aborted_by_both_tools(
    bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(3)
    shell = Shell(bootstrap)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"its own", partition=2)
    assert producer.flush(30) == 0
    (known,) = [one for one in shell.json("transactions", "list") if one["transactional_id"] == topic]
    # The id of one is not known at all, that of the other has a transaction, but not in this partition.
    leave_hanging(
        bootstrap,
        {TopicPartition(topic, 0): (FORGOTTEN_ID, 3), TopicPartition(topic, 1): (known["producer_id"], 0)},
    )
    plain = Producer({"bootstrap.servers": bootstrap})
    for number in range(2):
        plain.produce(topic, b"behind", partition=number)
    assert plain.flush(30) == 0

    def found() -> Sequence[tuple[int, int]]:
        rows: list[Any] = shell.json("transactions", "find-hanging", topic)
        return [(row["partition"], row["producer"]["producer_id"]) for row in rows]

    assert found() == [(0, FORGOTTEN_ID), (1, known["producer_id"])]
    assert (("0", str(FORGOTTEN_ID), "3", "0")) in hanging_by_kafka(bootstrap, topic)
    committed = read_to_the_end(bootstrap, topic, 2, isolation="read_committed")
    assert (committed.values, committed.ends) == ({0: [], 1: []}, {0: 0, 1: 0})

    shell.run("transactions", "abort", f"{topic}:1", "--start-offset", "0", "--execute")
    assert found() == [(0, FORGOTTEN_ID)]
    tool(
        f"{TOOLS}.TransactionsCommand",
        bootstrap,
        *("abort", "--topic", topic, "--partition", "0", "--start-offset", "0"),
    )
    assert found() == []
    assert hanging_by_kafka(bootstrap, topic) == []
    committed = read_to_the_end(bootstrap, topic, 2, isolation="read_committed")
    assert (committed.values, committed.ends) == ({0: [b"behind"], 1: [b"behind"]}, {0: 3, 1: 3})
    producer.commit_transaction(30)
    assert read_to_the_end(bootstrap, topic, 3, isolation="read_committed").values[2] == [b"its own"]
