"""docs/running-a-broker.md says how much memory a partition takes. A broker takes no more, and not much less."""

from __future__ import annotations

import re
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker_process import CHECKOUT, Broker
from tests.support.polling import SECONDS_MAX

pytestmark = [pytest.mark.integration, pytest.mark.thorough]
PARTITIONS = 3000


def test_a_partition_takes_what_the_page_says(tmp_path: Path) -> None:
    page = (CHECKOUT / "docs" / "running-a-broker.md").read_text()
    said = re.search(r"\| memory \| (\d+) MB, and (\d+) KB for each partition", page)
    assert said is not None
    idle_mb, kb_per_partition = map(int, said.groups())
    broker = Broker(tmp_path)
    broker.start()
    try:
        process = psutil.Process(broker.pid)
        idle = process.memory_info().rss
        assert idle <= idle_mb * 1.25 * (1 << 20)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("many", PARTITIONS, 1)])["many"].result(SECONDS_MAX)
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "queue.buffering.max.messages": PARTITIONS}
        )
        for partition in range(PARTITIONS):
            producer.produce("many", b"x" * 100, partition=partition)
        assert producer.flush(SECONDS_MAX) == 0
        kb = (process.memory_info().rss - idle) / PARTITIONS / 1024
    finally:
        broker.stop()
    assert kb_per_partition * 0.6 <= kb <= kb_per_partition * 1.25, f"{kb:.1f} KB for each partition"
