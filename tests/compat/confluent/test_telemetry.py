"""librdkafka pushes its metrics by itself (KIP-714), and /metrics shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.local_process import running
from tests.support.polling import wait_until
from tests.support.telemetry_broker import TelemetryBroker

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.thorough]

LATENCY = "org.apache.kafka.producer.node.request.latency.max"
QUEUE_TIME = "org.apache.kafka.producer.record.queue.time.max"


def test_a_producer_pushes_what_it_counts(tmp_path: Path) -> None:
    with running(TelemetryBroker(tmp_path)) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "pushing"})

        def is_pushed() -> bool:
            producer.produce("t", b"x")
            producer.flush(10)
            return broker.pushed("pushing").keys() >= {LATENCY, QUEUE_TIME}

        wait_until("metrics of the client", is_pushed, bool, seconds_max=60)
