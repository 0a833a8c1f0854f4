"""All fetchers of a broker: which of them fetches a partition, as roles change.

Each leader has num.replica.fetchers of them, and a partition always has the same one. An idle fetcher waits. There are
never more than that number for each broker of the cluster.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

from odradek.broker.replication.broker_transport import BrokerTransport
from odradek.broker.replication.hosted_partitions import HostedPartitions
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.replica_fetcher import ReplicaFetcher
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.tasks import TaskOwner


class ReplicaFetcherManager:
    """Fetches the partitions that this broker follows, from `start` until `stop`."""

    def __init__(
        self,
        partitions: HostedPartitions,
        *,
        transport_of: Callable[[int], BrokerTransport],
        current_settings: Callable[[], Settings],
    ) -> None:
        """`transport_of` gives the transport of the fetchers with one number. Nothing else uses it: a fetch that waits
        for records delays all requests behind it.
        """
        self._partitions = partitions
        self._context = partitions.context
        self._transport_of = transport_of
        self._current_settings = current_settings
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._by_partition: dict[Partition, ReplicaFetcher] = {}
        self._tasks = TaskOwner("fetchers")

    def __iter__(self) -> Iterator[ReplicaFetcher]:
        return iter(list(self._fetchers.values()))

    def start(self) -> None:
        """Fetch the partitions that are followed now, and those that are followed later."""
        self._partitions.callbacks.role_changed = self.role_changed
        self._partitions.callbacks.log_start_moved = self._log_start_moved
        for partition in self._partitions:
            self.role_changed(partition)

    def role_changed(self, partition: Partition) -> None:
        """The partition has another leader, another epoch, or is followed no more."""
        before = self._by_partition.pop(partition, None)
        wanted = self._fetcher(partition) if partition.follower is not None else None
        if before is not None and before is not wanted:
            before.remove(partition)
        if wanted is not None:
            self._by_partition[partition] = wanted
            wanted.add(partition)

    def _log_start_moved(self, partition: Partition) -> None:
        fetcher = self._by_partition.get(partition)
        if fetcher is not None:
            fetcher.note_log_start(partition)

    def _fetcher(self, partition: Partition) -> ReplicaFetcher:
        topic, index = partition.topic_partition
        number = (zlib.crc32(topic.encode()) + index) % self._current_settings().num_replica_fetchers
        key = (partition.leader_id, number)
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = ReplicaFetcher(
                partition.leader_id,
                context=self._context,
                transport=self._transport_of(number),
                current_settings=self._current_settings,
            )
            self._tasks.start(fetcher.run(), name=f"from {partition.leader_id}, {number}")
        return fetcher

    async def stop(self) -> None:
        """End all fetchers; nothing is appended after this.

        The cluster's image may still change while a broker stops: roles that it takes then start no fetcher.
        """
        self._partitions.callbacks.role_changed = self._partitions.callbacks.log_start_moved = _ignore
        await self._tasks.close()


def _ignore(partition: Partition) -> None:
    pass
