"""Java's clients push their metrics by themselves (KIP-714), and /metrics shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.java_gateway import java_consumer, java_producer, poll
from tests.support.local_process import running
from tests.support.polling import wait_until
from tests.support.telemetry_broker import TelemetryBroker

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.slow, pytest.mark.thorough]

SENT = "org.apache.kafka.producer.record.send.total"
CONNECTIONS = "org.apache.kafka.consumer.connection.count"


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_producer_and_a_consumer_push_what_they_count(
    jvm_4_1: Any, tmp_path: Path, compression: str
) -> None:
    jvm = jvm_4_1
    with running(TelemetryBroker(tmp_path)) as broker:
        producer = java_producer(jvm, broker.bootstrap, client_id="pushing", compression_type=compression)
        consumer = java_consumer(jvm, broker.bootstrap, client_id="reading", group_id="g")
        topics = jvm.java.util.ArrayList()
        topics.add("t")
        consumer.subscribe(topics)
        record = jvm.org.apache.kafka.clients.producer.ProducerRecord("t", None, None, None, b"x")

        def is_pushed() -> bool:
            producer.send(record).get()
            poll(jvm, consumer)
            return (
                broker.pushed("pushing").get(SENT, 0) >= 3
                and broker.pushed("reading").get(CONNECTIONS, 0) >= 1
            )

        wait_until("metrics of both clients", is_pushed, bool, seconds_max=60)
        consumer.close()
        producer.close()
        # The last push, at the close, has the counts of the end.
        assert broker.pushed("pushing")[SENT] >= 3
        assert "refused" not in broker.log()
