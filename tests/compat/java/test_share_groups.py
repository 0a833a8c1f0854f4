"""Share groups with Kafka 4.4.0's own share consumer, and with `kafka-share-groups.sh`.

Two consumers read one partition at once, which a consumer group does not do. The tool shows the group, and resets it.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from odradek.sync import Client, Consumer, Producer
from tests.support.broker_process import Broker
from tests.support.java import KAFKA_NEWEST_VERSION, JavaUnavailableError, kafka_classpath, run_kafka_tool
from tests.support.local_process import running
from tests.support.peers import QUICK, skip_or_fail, topic_creator

pytestmark = [
    pytest.mark.clients,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.thorough,
]

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONFIGS = "org.apache.kafka.tools.ConfigCommand"
GROUP, TOPIC = "workers", "work"
COUNT = 400
SETTINGS = {**QUICK, "share.coordinator.state.topic.num.partitions": "2"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    try:
        kafka_classpath(KAFKA_NEWEST_VERSION)
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    with running(Broker(tmp_path / "broker", settings=SETTINGS)) as started:
        yield started


def run_tool(broker: Broker, main_class: str, *arguments: str) -> str:
    """What the tool prints."""
    return run_kafka_tool(
        main_class, "--bootstrap-server", broker.bootstrap, *arguments, version=KAFKA_NEWEST_VERSION
    ).stdout


def consume(broker: Broker, count: int) -> list[str]:
    """The values of so many records, each of which is accepted."""
    arguments = ("--topic", TOPIC, "--group", GROUP, "--max-messages", str(count), "--timeout-ms", "60000")
    return run_tool(broker, CONSUMER, *arguments).split()


def find_lag(broker: Broker) -> int:
    """Of the group's one partition. Where it begins to read is stored with a later change, as in Kafka."""
    printed = run_tool(broker, TOOL, "--describe", "--group", GROUP)
    (row,) = [line.split() for line in printed.splitlines() if line.startswith(GROUP)]
    assert row[:3] == [GROUP, TOPIC, "0"]
    return int(row[4])


def test_kafkas_share_consumers_share_a_partition(broker: Broker) -> None:
    topic_creator(broker.bootstrap)(name=TOPIC)
    given = ("--alter", "--entity-type", "groups", "--entity-name", GROUP)
    run_tool(broker, CONFIGS, *given, "--add-config", "share.auto.offset.reset=earliest")
    values = [f"v{number}" for number in range(COUNT)]
    with Client(broker.bootstrap) as client, Producer(client) as producer:
        # Small batches: a batch is for one member.
        for first in range(0, COUNT, 5):
            for value in values[first : first + 5]:
                producer.send(TOPIC, value.encode())
            producer.flush()
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda count: consume(broker, count), (COUNT // 4, COUNT // 4)))
    one, other = map(set, found)
    assert len(one) == len(other) == COUNT // 4
    assert one.isdisjoint(other)
    rest = set(consume(broker, COUNT // 2))
    assert one | other | rest == set(values)
    _check_the_tool(broker)


def _check_the_tool(broker: Broker) -> None:
    assert run_tool(broker, TOOL, "--list").split() == [GROUP]
    assert find_lag(broker) == 0
    reset = ("--reset-offsets", "--group", GROUP, "--topic", TOPIC, "--to-earliest", "--execute")
    assert [GROUP, TOPIC, "0", "0"] in [line.split() for line in run_tool(broker, TOOL, *reset).splitlines()]
    assert find_lag(broker) == COUNT
    assert len(consume(broker, COUNT)) == COUNT
    assert find_lag(broker) == 0
    run_tool(broker, TOOL, "--delete", "--group", GROUP)
    assert run_tool(broker, TOOL, "--list").split() == []
    with Client(broker.bootstrap) as client, Consumer(client, TOPIC, auto_offset_reset="earliest") as reader:
        # Nothing of a share group is in the way of other readers.
        assert reader.poll()
