"""The load of requests that were made before: it counts what a broker has, and sees what it has not."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from bench import raw_load
from bench.one_core import SHAPES, Measured, print_medians
from bench.raw_load import Load, RequestRefused
from tests.support.broker_process import Broker
from tests.support.peers import topic_creator

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("broker"))
    broker.start()
    yield broker
    broker.close()


def load_of(broker: Broker, *, is_together: bool) -> Load:
    topic = topic_creator(broker.bootstrap)(2)
    now_ms = int(time.time() * 1000)
    return Load(
        broker.bootstrap, topic, [0, 1], 0.05, 100, 3, 2, is_together=is_together, timestamp_ms=now_ms
    )


@pytest.mark.parametrize("is_together", [False, True], ids=["a connection each", "together"])
def test_all_that_was_acknowledged_is_read_and_is_what_was_sent(broker: Broker, is_together: bool) -> None:
    load = load_of(broker, is_together=is_together)
    sent = raw_load.send(load)
    assert sent.batches >= 4 and sent.cpu_seconds > 0
    assert raw_load.read(load).batches == sent.batches
    assert raw_load.compare(load).batches == sent.batches


def test_another_batch_is_found(broker: Broker) -> None:
    load = load_of(broker, is_together=False)
    raw_load.send(load)
    with pytest.raises(AssertionError, match="at offset 0 is not the one that was sent"):
        raw_load.compare(load._replace(timestamp_ms=load.timestamp_ms + 1))


def test_a_refusal_ends_it(broker: Broker) -> None:
    load = load_of(broker, is_together=False)
    with pytest.raises(RequestRefused):
        raw_load.send(load._replace(partitions=[7]))
    with pytest.raises(RequestRefused):
        raw_load.read(load._replace(partitions=[7]))


def test_the_table_has_medians_and_names_the_load_where_it_is_the_limit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = {
        ("produce tiny", "odradek"): [Measured(1.0, rate, 2.0, 0.95) for rate in (100, 300, 200)],
        ("produce tiny", "kafka"): [Measured(1.0, 100, 8.0, 0.5)],
    }
    print_medians(rows, other="Kafka 4.1.1", is_json=True)
    printed = capsys.readouterr().out
    assert '"rate, ours / theirs": 2.0, "CPU for a GB, ours / theirs": 0.25' in printed
    assert '"the load is the limit of": ["odradek"]' in printed
    assert len(SHAPES) == len({tuple(shape) for shape in SHAPES.values()})
