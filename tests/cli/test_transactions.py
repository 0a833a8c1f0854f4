"""`odradek transactions`, over a transaction of a real producer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from odradek.cli.exit_codes import ExitCode
from tests.cli.conftest import Shell

pytestmark = pytest.mark.integration


@pytest.fixture
def producer(shell: Shell, bootstrap: str, unique: str) -> Iterator[Producer]:
    """A producer whose transactional id is the test's topic, with one record in an open transaction."""
    shell.run("topics", "create", unique, "-p", "2")
    made = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique, "log_level": 0})
    made.init_transactions(30)
    made.begin_transaction()
    made.produce(unique, b"open", partition=1)
    assert made.flush(30) == 0
    yield made


def test_transactions_are_listed_and_described(shell: Shell, producer: Producer, unique: str) -> None:
    def listed(*options: str) -> Any:
        return [
            one for one in shell.json("transactions", "list", *options) if one["transactional_id"] == unique
        ]

    (found,) = listed("--state", "Ongoing")
    assert (found["state"], found["coordinator"]) == ("Ongoing", 1)
    assert listed("--producer-id", str(found["producer_id"]), "--pattern", f"{unique}.*") == [found]
    assert listed("--state", "empty") == listed("--longer-than", "1h") == []
    (described,) = shell.json("transactions", "describe", unique)
    assert described["state"] == "Ongoing"
    assert described["partitions"] == [{"topic": unique, "partition": 1}]
    assert described["producer_epoch"] == 0
    assert f"{unique}-1" in shell.run("transactions", "describe", unique)
    producer.commit_transaction(30)
    (described,) = shell.json("transactions", "describe", unique)
    assert described["partitions"] == []
    shell.run("transactions", "describe", "no-such-id", code=ExitCode.NOT_FOUND)
    assert "no-such-id" in shell.error


def test_an_open_transaction_is_found_and_aborted(shell: Shell, producer: Producer, unique: str) -> None:
    (row,) = shell.json("transactions", "describe-producers", f"{unique}:1")
    assert row["producer"]["transaction_start_offset"] == 0
    # Its coordinator has it, so it does not hang.
    assert shell.json("transactions", "find-hanging", unique, "--longer-than", "0s") == []
    shell.run("transactions", "abort", f"{unique}:1", "--start-offset", "7", code=ExitCode.NOT_FOUND)
    planned = shell.run("transactions", "abort", f"{unique}:1", "--start-offset", "0")
    assert planned.startswith("would abort the transaction of producer ")
    assert shell.json("transactions", "describe-producers", f"{unique}:1") == [row]
    shell.run("transactions", "abort", f"{unique}:1", "--start-offset", "0", "--execute")
    (row,) = shell.json("transactions", "describe-producers", f"{unique}:1")
    assert row["producer"]["transaction_start_offset"] == -1


@pytest.mark.parametrize(
    "arguments", [("abort", "t", "--start-offset", "1"), ("list", "--longer-than", "soon")]
)
def test_wrong_use(shell: Shell, arguments: tuple[str, ...]) -> None:
    shell.run("transactions", *arguments, code=ExitCode.USAGE)
