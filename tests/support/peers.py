"""Fixtures for tests that foreign clients run against a broker: which broker, and a topic per test.

The broker is ours as a process. `ODRADEK_TEST_PEER=kafka` puts Apache Kafka in its place, which shows whether
a test asks for more than Kafka gives; `ODRADEK_TEST_BOOTSTRAP=host:port` names one that runs already.
A folder's `conftest.py` imports the fixtures it wants.
"""

from __future__ import annotations

import os
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.support.broker_process import Broker
from tests.support.costs import set_heap_aside
from tests.support.java import JavaUnavailableError
from tests.support.kafka_peer import KafkaPeer
from tests.support.polling import SECONDS_MAX

Peer = Broker | KafkaPeer
CreateTopic = Callable[..., str]

_THREAD_SECONDS_MAX: Final = 20.0

# Tests write records of years ago. No round of retention may delete these while a test looks at them: neither the first
# round, 30 s after a start, nor a later one.
NO_RETENTION = {"log.initial.task.delay.ms": "86400000", "log.retention.check.interval.ms": "86400000"}

# The test broker's settings: what keeps a test's waiting short, all else as a user has it.
QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    **NO_RETENTION,
}


def in_ci() -> bool:
    """In CI nothing is skipped: what is missing there is a failure."""
    return os.environ.get("CI") == "true"


def skip_or_fail(reason: str) -> None:
    """Say what is missing: a skip on a developer's machine, a failure in CI."""
    if in_ci():
        pytest.fail(reason)
    pytest.skip(reason)


def make_peer(folder: Path, settings: Mapping[str, str] | None = None) -> Peer:
    """The broker to test, not yet started; Apache Kafka when the environment says so."""
    wanted = {**QUICK, **(settings or {})}
    if os.environ.get("ODRADEK_TEST_PEER") == "kafka":
        return KafkaPeer(folder, settings=wanted)
    return Broker(folder, settings=wanted)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """One broker for all tests of the session; tests may restart it, and leave it running."""
    try:
        peer = make_peer(tmp_path_factory.mktemp("broker"))
        if bootstrap := os.environ.get("ODRADEK_TEST_BOOTSTRAP"):
            peer.port = int(bootstrap.rpartition(":")[2])
        else:
            peer.start()
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    yield peer
    peer.close()


@pytest.fixture
def restartable(broker: Peer) -> Peer:
    """The session's broker, for a test that stops or kills it."""
    if os.environ.get("ODRADEK_TEST_BOOTSTRAP"):
        pytest.skip("the broker was started elsewhere: it cannot be restarted here")
    return broker


@pytest.fixture
def bootstrap(broker: Peer) -> str:
    if not broker.is_running and not os.environ.get("ODRADEK_TEST_BOOTSTRAP"):
        broker.start()  # a test before this one stopped it and failed
    return broker.bootstrap


@pytest.fixture
def unique() -> str:
    """A name no other test has, for groups and topics."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def create_topic(bootstrap: str) -> CreateTopic:
    """`create_topic(partitions=1, **configs)`; underscores in a config's name stand for dots."""
    return topic_creator(bootstrap)


def topic_creator(bootstrap: str) -> CreateTopic:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, "socket.timeout.ms": 10_000})

    def create(partitions: int = 1, name: str | None = None, *, replicas: int = 1, **configs: Any) -> str:
        name = name or f"t-{uuid.uuid4().hex[:12]}"
        config = {key.replace("_", "."): str(value) for key, value in configs.items()}
        wanted = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=config)
        for future in admin.create_topics([wanted], request_timeout=20).values():
            future.result(SECONDS_MAX)
        return name

    return create


@pytest.fixture(autouse=True)
def forgive_unclosed() -> Iterator[None]:
    """Clients leave sockets for the garbage collector: collect here, so that no later test is blamed."""
    yield
    # kafka-python waits for its threads for a time only, and they hold its sockets.
    for thread in threading.enumerate():
        if thread.name.startswith("kafka-io-") or thread.name.endswith("-network-thread"):
            thread.join(_THREAD_SECONDS_MAX)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        set_heap_aside()


@pytest.fixture
def topic(create_topic: CreateTopic) -> str:
    """A fresh topic with one partition."""
    return create_topic()


class TwoClusters(NamedTuple):
    """Both brokers run."""

    source: Peer
    target: Peer


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoClusters]:
    """Two brokers for all tests of the session; tests may restart them, and leave them running."""
    brokers = TwoClusters(*(make_peer(tmp_path_factory.mktemp(name)) for name in TwoClusters._fields))
    for number, broker in enumerate(brokers):
        if isinstance(broker, KafkaPeer):
            broker.cluster_id = (
                f"b2RyYWRla21pcnJvcm1{number}AA"  # a mirror refuses a cluster as its own source
            )
    try:
        for broker in brokers:
            broker.start()
        yield brokers
    finally:
        for broker in brokers:
            if broker.is_running:
                broker.stop()
