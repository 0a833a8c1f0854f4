"""Two clusters of three brokers side by side on loopback: ours, with ZooKeeper and two controllers, and Apache Kafka's.

Kafka's nodes are each broker and controller (KRaft), started as its own script does; ours are the processes that
`odradek cluster` starts. A broker that dies is missed after the same time in both: Kafka's default of 9 s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.peers import SETTINGS, compiled, storage
from tests.support.cluster_processes import Cluster
from tests.support.kafka_peer import KafkaCluster
from tests.support.zookeeper import ZooKeeper

SESSION_MS = 9_000
BROKERS = 3
REPLICAS = 3


class OurCluster(Cluster):
    """A `Cluster` with a ZooKeeper of its own."""

    def __init__(self, folder: Path, *, session_ms: int = SESSION_MS) -> None:
        compiled()
        self._zookeeper = ZooKeeper(folder / "zookeeper")
        super().__init__(
            folder,
            self._zookeeper.connect,
            brokers=BROKERS,
            settings={**SETTINGS, "zookeeper.session.timeout.ms": str(session_ms)},
        )

    @property
    def pids(self) -> Sequence[int]:
        return [self._zookeeper.pid, *super().pids]

    def start(self) -> None:
        self._zookeeper.start()
        super().start()

    def close(self) -> None:
        super().close()
        self._zookeeper.close()


AnyCluster = OurCluster | KafkaCluster


def kafka_cluster(folder: Path) -> KafkaCluster:
    settings = {**SETTINGS, "broker.session.timeout.ms": str(SESSION_MS)}
    return KafkaCluster(folder, brokers=BROKERS, settings=settings, quick=False)


@contextmanager
def both_clusters(disk: str | None) -> Iterator[Sequence[AnyCluster]]:
    """Both, started."""
    with storage(disk) as folder:
        clusters: Sequence[AnyCluster] = [OurCluster(folder / "ours"), kafka_cluster(folder / "kafka")]
        try:
            for cluster in clusters:
                cluster.start()
            yield clusters
        finally:
            for cluster in clusters:
                cluster.close()
