"""`KafkaContainer` without a container, and brokers with TLS and logins: what a test may ask of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import odradek.testing
from odradek.foundation.errors import OdradekError
from odradek.sync import Admin, Client
from odradek.testing.containers import KafkaContainer
from odradek.testing.security import ListenerSecurity
from tests.support.stories import in_real_time

PASSWORD = 'a "quoted\\" one=;'


@pytest.mark.parametrize(
    ("variable", "setting"),
    [
        ("KAFKA_NUM_PARTITIONS", "num.partitions"),
        ("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "group.initial.rebalance.delay.ms"),
        ("KAFKA_A__B_C", "a_b.c"),
        ("KAFKA_A___B_C", "a-b.c"),
    ],
)
def test_variables_are_settings_as_in_kafkas_images(variable: str, setting: str) -> None:
    container = KafkaContainer().with_env(variable, "1")
    assert container._settings == {setting: "1"}


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("CLUSTER_ID", "written like KAFKA_NUM_PARTITIONS"),
        ("KAFKA_", "written like KAFKA_NUM_PARTITIONS"),
        ("KAFKA_LISTENERS", "the container chooses listeners itself"),
        ("KAFKA_LOG_DIRS", "the container chooses log.dirs itself"),
    ],
)
def test_other_variables_are_errors(variable: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        KafkaContainer().with_env(variable, "1")


def test_a_misspelt_variable_is_named_at_the_start() -> None:
    with pytest.raises(ValueError, match=r"no setting 'num\.partitons'; did you mean 'num\.partitions'"):
        KafkaContainer().with_envs(KAFKA_NUM_PARTITONS="3").start()


def test_a_container_that_does_not_run_says_how_it_would() -> None:
    container = KafkaContainer()
    container.stop()
    with pytest.raises(RuntimeError, match=r"call start\(\), or enter it by `with`"):
        container.get_bootstrap_server()


@pytest.mark.integration
def test_lines_written_for_testcontainers_have_a_broker() -> None:
    with KafkaContainer("confluentinc/cp-kafka:7.6.0").with_kraft() as kafka:
        address = kafka.get_bootstrap_server()
        assert address == f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(9093)}"
        with pytest.raises(ValueError, match="no port 9092; it has 9093"):
            kafka.get_exposed_port(9092)
        kafka.broker.create_topic("orders")
        with Client(address) as client:
            assert [topic.name for topic in Admin(client).topics.list()] == ["orders"]
        assert b"log_manager" in kafka.get_logs()[1]
        with pytest.raises(RuntimeError, match="runs already"):
            kafka.start()
        folder, pid = kafka.broker.folder, kafka.broker.pid
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.integration
def test_a_second_start_is_empty_and_a_kept_folder_stays() -> None:
    kafka = KafkaContainer(port=9092).with_env("KAFKA_NUM_PARTITIONS", "3").start()
    kafka.broker.create_topic("orders")
    folder = kafka.broker.folder
    kafka.stop(force=False, delete_volume=False)
    assert (folder / "data" / "orders-0").is_dir()
    with kafka, Client(kafka.get_bootstrap_server()) as client:
        assert Admin(client).topics.list() == []
        assert kafka.get_exposed_port(9092) == kafka.broker.port


@in_real_time
@pytest.mark.integration
async def test_a_container_in_asynchronous_code() -> None:
    async with KafkaContainer() as kafka:
        assert kafka.broker.is_running
    with pytest.raises(RuntimeError, match="does not run"):
        _ = kafka.broker


# --- TLS and logins -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "users", "words"),
    [
        ("TLS", None, "use one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("SASL_SSL", None, "SASL_SSL needs users"),
        ("SSL", {"alice": "x"}, "users log in by SASL"),
        ("SASL_SSL", {"a b": "x"}, "'a b' is no name"),
    ],
)
def test_protection_that_does_not_fit_is_refused(
    protocol: str, users: dict[str, str] | None, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=words):
        odradek.testing.broker(tmp_path, security_protocol=protocol, users=users)


def test_an_unknown_user_is_named(tmp_path: Path) -> None:
    security = ListenerSecurity("SASL_PLAINTEXT", {"alice": "x", "bob": "y"}, tmp_path)
    assert security.librdkafka_properties("bob")["sasl.password"] == "y"
    with pytest.raises(KeyError, match="no user 'carol'; it has alice, bob"):
        security.client_properties("carol")


def test_without_cryptography_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'odradek\[security\]'"):
        ListenerSecurity("SSL", None, tmp_path).write_files()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("protocol", "users"),
    [("SSL", None), ("SASL_PLAINTEXT", {"alice": PASSWORD}), ("SASL_SSL", {"alice": PASSWORD})],
)
def test_clients_need_what_the_broker_asks_for(
    protocol: str, users: dict[str, str] | None, tmp_path: Path
) -> None:
    from confluent_kafka.admin import AdminClient

    with odradek.testing.broker(tmp_path, security_protocol=protocol, users=users) as broker:
        broker.create_topic("orders")
        address = broker.bootstrap
        with Client(address, security=broker.client_properties()) as client:
            assert [topic.name for topic in Admin(client).topics.list()] == ["orders"]
        other = AdminClient({"bootstrap.servers": address, **broker.librdkafka_properties()})
        assert list(other.list_topics(timeout=20).topics) == ["orders"]
        with pytest.raises((OdradekError, OSError)), Client(address, request_timeout_ms=2000) as client:
            Admin(client).topics.list()
        broker.restart(crash=True)
        assert broker.bootstrap == address
        broker.fail("Metadata", error="UNKNOWN_SERVER_ERROR")  # its own calls meet none
        broker.delete_topic("orders")
