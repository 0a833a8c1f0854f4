"""A user who sets compaction with log.cleaner.enable=false is warned: on standard error and in the broker's log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.cli.conftest import Shell
from tests.support.broker_process import Broker
from tests.support.polling import SECONDS_MAX

pytestmark = pytest.mark.integration

WHY = "log.cleaner.enable=false"
COMPACT = f"cleanup.policy=compact: {WHY}"
BOTH = f"cleanup.policy=compact,delete: {WHY}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One that does not compact."""
    started = Broker(tmp_path_factory.mktemp("broker"), settings={"log.cleaner.enable": "false"})
    started.start()
    yield started
    started.close()


@pytest.fixture
def shell(broker: Broker) -> Shell:
    return Shell(broker.bootstrap)


@pytest.fixture
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap


def test_no_one_is_warned_where_logs_are_compacted(tmp_path: Path) -> None:
    broker = Broker(tmp_path, settings={"log.cleanup.policy": "compact"})
    broker.start()
    try:
        shell = Shell(broker.bootstrap)
        assert _errors(shell, "topics", "create", "table", "--config", "cleanup.policy=compact,delete") == ""
        (described,) = shell.json("topics", "describe", "table")
        assert described["warnings"] == []
        assert "WARNING" not in broker.log()
    finally:
        broker.close()


def _errors(shell: Shell, *arguments: str) -> str:
    shell.run(*arguments)
    return shell.error


def test_the_command_line_warns_where_compaction_is_asked_for(shell: Shell, unique: str, broker: Any) -> None:
    made = shell.run("topics", "create", unique, "--config", "cleanup.policy=compact")
    assert made.split() == ["created", unique]
    assert shell.error.startswith(f"odradek: warning: topic {unique}: {COMPACT}")
    assert f"  warning: {COMPACT}" in shell.run("topics", "describe", unique)
    (described,) = shell.json("topics", "describe", unique)
    assert described["warnings"][0].startswith(COMPACT)
    error = _errors(shell, "topics", "alter", unique, "--config", "cleanup.policy=compact,delete")
    assert error.startswith(f"odradek: warning: topic {unique}: {BOTH}")
    assert "until retention deletes them" in error
    error = _errors(shell, "configs", "set", "topic", unique, "cleanup.policy=compact")
    assert error.startswith(f"odradek: warning: topic {unique}: {COMPACT}")
    assert f"topic {unique}: {BOTH}" in broker.log()
    assert broker.log().count(f"topic {unique}: {COMPACT}") == 2

    assert _errors(shell, "topics", "alter", unique, "--config", "cleanup.policy=delete") == ""
    assert "warning" not in shell.run("topics", "describe", unique)
    assert _errors(shell, "topics", "create", f"{unique}-plain") == ""


def test_a_brokers_default_warns_too(shell: Shell, unique: str) -> None:
    error = _errors(shell, "configs", "set", "broker", "default", "log.cleanup.policy=compact")
    try:
        assert error.startswith(f"odradek: warning: broker default: {COMPACT}")
        error = _errors(shell, "topics", "create", unique)
        assert error.startswith(f"odradek: warning: topic {unique}: {COMPACT}")
    finally:
        assert _errors(shell, "configs", "unset", "broker", "default", "log.cleanup.policy") == ""


def test_the_log_warns_at_every_start_and_not_of_internal_topics(tmp_path: Path) -> None:
    broker = Broker(
        tmp_path, settings={"log.cleanup.policy": "compact,delete", "log.cleaner.enable": "false"}
    )
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        plain = NewTopic("plain", 1, 1, config={"cleanup.policy": "delete"})
        for made in admin.create_topics([plain, NewTopic("orders", 1, 1)]).values():
            made.result(SECONDS_MAX)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        consumer.commit(
            offsets=[TopicPartition("orders", 0, 0)], asynchronous=False
        )  # makes __consumer_offsets
        consumer.close()
        broker.restart()
        lines = [line for line in broker.log().splitlines() if WHY in line]
        assert all(" WARNING " in line for line in lines)
        assert sum("log.cleanup.policy=compact,delete" in line for line in lines) == 2
        assert sum(f"topic orders: {BOTH}" in line for line in lines) == 2
        assert len(lines) == 4
    finally:
        broker.close()


def test_other_clients_take_the_answer_for_what_it_is(bootstrap: str, unique: str) -> None:
    """A message beside the code for success is no error to them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(unique, 1, 1, config={"cleanup.policy": "compact"})])[unique].result(
        SECONDS_MAX
    )
    resource = ConfigResource("topic", unique)
    resource.add_incremental_config(
        ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.APPEND)
    )
    admin.incremental_alter_configs([resource])[resource].result(SECONDS_MAX)
    asked = ConfigResource("topic", unique)
    described = admin.describe_configs([asked])[asked].result(SECONDS_MAX)
    assert described["cleanup.policy"].value == "compact,delete"
