"""The comparison of Python clients with few records: ours writes and reads, and the table says whether it is ahead."""

from __future__ import annotations

import pytest

from bench import python_clients
from bench.python_clients import Cost
from tests.support.cluster_processes import Cluster
from tests.support.peers import topic_creator
from tests.support.zookeeper import ZooKeeper

pytestmark = pytest.mark.integration


@pytest.mark.thorough
def test_each_of_our_clients_writes_and_reads(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeper
) -> None:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"), zookeeper.connect, brokers=1, controllers=1)
    cluster.start()
    try:
        topic = topic_creator(cluster.bootstrap)(1)
        for client in ("odradek", "documents"):
            for kind in ("produce", "consume"):
                records = 1_500 if kind == "produce" else 400
                seconds, cpu_seconds = python_clients._run(kind, client, cluster, topic, records, 100)
                assert seconds > 0
                assert cpu_seconds > 0
    finally:
        cluster.close()


def test_the_table_says_whether_ours_is_ahead(capsys: pytest.CaptureFixture[str]) -> None:
    cpu = {"odradek": 0.2, "documents": 0.4, "aiokafka": 0.3, "kafka-python": 0.9, "confluent-kafka": 0.1}
    costs: dict[tuple[str, int, str], list[Cost]] = {
        ("consume", 100, client): [(1.0, seconds), (3.0, 9.0), (2.0, seconds)]
        for client, seconds in cpu.items()
    }
    python_clients._show(costs, 100_000, is_json=False)
    rows = {line.split()[2]: line.split()[3:] for line in capsys.readouterr().out.splitlines()[1:]}
    assert rows["odradek"] == ["50,000", "2.00", "ahead"]
    assert rows["documents"] == ["50,000", "4.00", "behind"]
    assert rows["confluent-kafka"] == ["50,000", "1.00"]
