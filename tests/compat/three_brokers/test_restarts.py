"""A producer that never stops, while each broker in turn is stopped cleanly and started again."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from tests.compat.three_brokers.bounces import REPLICAS, await_in_sync
from tests.support.cluster_processes import Cluster
from tests.support.peers import topic_creator
from tests.support.polling import wait_until
from tests.support.steady_load import SteadyLoad

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.thorough]

PARTITIONS = 30


def test_restarts_in_turn_fail_no_request(cluster: Cluster) -> None:
    topic = topic_creator(cluster.bootstrap)(PARTITIONS, replicas=REPLICAS, min_insync_replicas=2)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    await_in_sync(admin, topic)
    load = SteadyLoad(cluster.bootstrap, topic, partitions=PARTITIONS, per_second=300)
    try:
        _await_more(load, PARTITIONS)
        for broker in cluster.brokers.values():
            assert broker.stop() == 0
            # By two brokers: what the third led has moved before it was gone.
            _await_more(load, 2 * PARTITIONS)
            broker.start()
            await_in_sync(admin, topic)
            _await_more(load, 2 * PARTITIONS)
    finally:
        load.stop()
    print(f"{load.acknowledged} acknowledged, the longest wait was {load.longest_seconds:.2f} s")
    assert load.failed == []
    high_watermarks = sum(_end_offsets(cluster, topic))
    assert high_watermarks == load.acknowledged, "each record is in the log once"


def _await_more(load: SteadyLoad, count: int) -> None:
    wanted = load.acknowledged + count
    wait_until("more is acknowledged", lambda: load.acknowledged, lambda seen: seen >= wanted)


def _end_offsets(cluster: Cluster, topic: str) -> list[int]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none"})
    try:
        return [
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1]
            for number in range(PARTITIONS)
        ]
    finally:
        consumer.close()
