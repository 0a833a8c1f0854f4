"""Traces of brokers that run as processes, as a collector of OpenTelemetry gets them."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from odradek.sync import Admin, Client, Producer
from tests.support.broker_process import Broker, free_port
from tests.support.cluster_processes import Cluster
from tests.support.command_line import run_command
from tests.support.local_process import running
from tests.support.polling import wait_until
from tests.support.span_collector import CollectedSpan, SpanCollector
from tests.support.zookeeper import ZooKeeper

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PRODUCER_SPAN = "00f067aa0ba902b7"


@pytest.fixture
def collector() -> Iterator[SpanCollector]:
    made = SpanCollector()
    yield made
    made.close()


def settings(collector: SpanCollector, **more: str) -> Mapping[str, str]:
    given = {key.replace("_", "."): value for key, value in more.items()}
    return {"trace.otlp.endpoint": collector.endpoint, **given}


def configure(broker: Broker, *changes: str) -> None:
    ended = run_command(
        ["configs", "set", "broker", "default", *changes], environment={"ODRADEK_BOOTSTRAP": broker.bootstrap}
    )
    assert ended.code == 0, ended.error.decode()


def test_tracing_is_switched_on_and_off_while_a_broker_runs(tmp_path: Path, collector: SpanCollector) -> None:
    with (
        running(Broker(tmp_path, settings=settings(collector))) as broker,
        Client(broker.bootstrap) as client,
    ):
        Admin(client).topics.create("before", partitions=1)
        configure(broker, "trace.enable=true", "trace.sampling.ratio=1")
        Admin(client).topics.create("during", partitions=1)
        span = collector.await_span(lambda span: span.name == "CREATE_TOPICS")
        assert span.instance == "broker-1"
        assert span.attributes["messaging.destination.name"] == "during"
        configure(broker, "trace.enable=false")
        Admin(client).topics.create("after", partitions=1)
        broker.stop()
    # It has sent what it had.
    named = {span.attributes.get("messaging.destination.name") for span in collector.spans}
    assert "during" in named
    assert not {"before", "after"} & named


def test_a_collector_that_refuses_costs_spans_and_nothing_else(
    tmp_path: Path, collector: SpanCollector
) -> None:
    collector.status = 400
    port = free_port()
    on = settings(collector, trace_enable="true", trace_sampling_ratio="1")
    broker = Broker(tmp_path, settings=on, arguments=["--admin", f"127.0.0.1:{port}"])
    with running(broker), Client(broker.bootstrap) as client:
        Admin(client).topics.create("t", partitions=1)
        with Producer(client) as producer:
            for number in range(50):
                producer.send("t", b"%d" % number).result()

        def refused() -> float:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
            name = 'odradek_trace_spans_total{outcome="refused"} '
            return float(next(line for line in lines if line.startswith(name)).removeprefix(name))

        wait_until("refused spans are counted", refused)
        broker.stop()
    assert broker.log().count("spans are lost") in (1, 2)
    assert "Traceback" not in broker.log()
    assert "opentelemetry" not in broker.log()


def test_without_its_packages_a_broker_serves_and_says_what_is_missing(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked" / "opentelemetry"
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text("raise ImportError('No module named opentelemetry')\n")
    broker = Broker(
        tmp_path,
        settings={"trace.enable": "true"},
        wrapper=["env", f"PYTHONPATH={blocked.parent}:{_python_path()}"],
    )
    with running(broker), Client(broker.bootstrap) as client:
        Admin(client).topics.create("t", partitions=1)
    assert "install odradek[traces]" in broker.log()


def _python_path() -> str:
    import odradek

    return str(Path(odradek.__file__).parents[1])


@pytest.mark.integration
def test_a_trace_goes_from_the_producer_to_the_leader_and_its_followers(
    tmp_path: Path, zookeeper: ZooKeeper, collector: SpanCollector
) -> None:
    on = settings(collector, trace_enable="true", trace_sampling_ratio="0")
    cluster = Cluster(tmp_path, zookeeper.connect, brokers=3, controllers=1, settings=on)
    with running(cluster), Client(cluster.bootstrap) as client:
        Admin(client).topics.create("t", partitions=1, replication_factor=3)
        with Producer(client, acks="all") as producer:
            headers = [("traceparent", f"00-{TRACE}-{PRODUCER_SPAN}-01".encode())]
            producer.send("t", b"value", headers=headers).result()
            producer.send("t", b"of no trace").result()
        span = collector.await_span(lambda span: span.name == "PRODUCE")
    assert (span.trace_id, span.parent_id) == (TRACE, PRODUCER_SPAN)
    leader = int(span.instance.removeprefix("broker-"))
    parts = collector.children(span)
    followers = {f"replicate to broker {number}" for number in {1, 2, 3} - {leader}}
    assert parts.keys() - {"queue"} == {"handle", "wait", *followers}
    assert all(_is_within(part, span) for part in parts.values())
    assert [one.name for one in collector.spans if not one.parent_id] == []


@pytest.mark.integration
def test_a_request_that_the_controller_decides_is_one_trace(
    tmp_path: Path, zookeeper: ZooKeeper, collector: SpanCollector
) -> None:
    on = settings(collector, trace_enable="true", trace_sampling_ratio="1")
    cluster = Cluster(tmp_path, zookeeper.connect, brokers=1, controllers=1, settings=on)
    with running(cluster), Client(cluster.bootstrap) as client:
        Admin(client).topics.create("t", partitions=1)
        of_controller = collector.await_span(
            lambda span: span.name == "CREATE_TOPICS" and span.instance == "controller-101"
        )
        of_broker = collector.await_span(lambda span: span.span_id == of_controller.parent_id)
    assert (of_broker.name, of_broker.instance) == ("CREATE_TOPICS", "broker-1")
    assert of_broker.trace_id == of_controller.trace_id
    assert not of_broker.is_error


def _is_within(part: CollectedSpan, whole: CollectedSpan) -> bool:
    return whole.start_ns <= part.start_ns <= part.end_ns <= whole.end_ns
