"""Kafka Streams with `group.protocol=streams`: a word count of two instances, of which one is killed.

The topology has a repartition topic and a changelog, which the broker makes. With exactly_once_v2 each word counts
once. Kafka's own tool lists and describes the group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.sync import Client, Consumer, Producer
from tests.support.broker_process import Broker
from tests.support.java import (
    KAFKA_NEWEST_VERSION,
    JavaUnavailableError,
    kafka_classpath,
    run_kafka_tool,
    streams_classpath,
)
from tests.support.java_program import JavaProgram
from tests.support.local_process import running
from tests.support.peers import QUICK, skip_or_fail, topic_creator
from tests.support.polling import wait_until

pytestmark = [
    pytest.mark.clients,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.thorough,
]

APPLICATION = "word-count"
PATIENCE_SECONDS = 180.0
SETTINGS = {
    **QUICK,
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "3",
    # A killed instance is missed after six seconds.
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "1000",
    "group.streams.num.standby.replicas": "1",
}
TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    try:
        streams_classpath()
        kafka_classpath(KAFKA_NEWEST_VERSION)
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    with running(Broker(tmp_path / "broker", settings=SETTINGS)) as started:
        yield started


def instance(broker: Broker, folder: Path, name: str) -> JavaProgram:
    home = folder / name
    home.mkdir()
    properties = {
        "bootstrap.servers": broker.bootstrap,
        "application.id": APPLICATION,
        "state.dir": str(home / "state"),
        "processing.guarantee": "exactly_once_v2",
        "replication.factor": "1",
        "commit.interval.ms": "200",
        "auto.offset.reset": "earliest",
    }
    return JavaProgram(
        home / "output",
        str(Path(__file__).with_name("WordCount.java")),
        [f"{key}={value}" for key, value in properties.items()],
        classpath=streams_classpath(),
    )


def produce_lines(bootstrap: str, number: int) -> Counter[str]:
    """`number` lines of three words; how often each word is in them."""
    words: Counter[str] = Counter()
    with Client(bootstrap) as client, Producer(client) as producer:
        for line in range(number):
            text = f"all {'even' if line % 2 == 0 else 'odd'} w{line % 7}"
            words.update(text.split())
            producer.send("lines", text.encode(), partition=line % 3)
        producer.flush()
    return words


def read_totals(bootstrap: str) -> dict[str, int]:
    """The last total of each word, as committed."""
    totals: dict[str, int] = {}
    with (
        Client(bootstrap) as client,
        Consumer(client, "totals", auto_offset_reset="earliest", is_read_committed=True) as consumer,
    ):
        while records := consumer.poll(timeout_ms=2_000):
            totals |= {(record.key or b"").decode(): int(record.value or b"0") for record in records}
    return totals


def test_words_are_counted_once_though_an_instance_is_killed(broker: Broker, tmp_path: Path) -> None:
    create = topic_creator(broker.bootstrap)
    for name in ("lines", "totals"):
        create(3, name)
    words = produce_lines(broker.bootstrap, 300)
    first, second = (instance(broker, tmp_path, name) for name in ("first", "second"))
    with running(first), running(second):
        for one in (first, second):
            one.wait_for("REBALANCING -> RUNNING", seconds_max=PATIENCE_SECONDS)
        await_totals(broker.bootstrap, words)
        assert tool(broker, "--list").split() == [APPLICATION]
        members = tool(broker, "--describe", "--group", APPLICATION, "--members", "--verbose")
        assert members.count("-StreamThread-1-consumer") == 2
        assert "STANDBY: 1:" in members
        second.kill()
        words += produce_lines(broker.bootstrap, 300)
        await_totals(broker.bootstrap, words)
        state = tool(broker, "--describe", "--group", APPLICATION, "--state")
        assert "Stable" in state
        assert state.split()[-1] == "1"


def await_totals(bootstrap: str, words: Counter[str]) -> None:
    wait_until(
        "each word has its total",
        lambda: read_totals(bootstrap),
        lambda totals: totals == dict(words),
        seconds_max=PATIENCE_SECONDS,
    )


def tool(broker: Broker, *arguments: str) -> str:
    """What kafka-streams-groups.sh prints."""
    return run_kafka_tool(
        TOOL, "--bootstrap-server", broker.bootstrap, *arguments, version=KAFKA_NEWEST_VERSION
    ).stdout
