"""All fetchers of a broker: which partition is followed by which, as roles change.

A leader has num.replica.fetchers of them, and a partition always the same one. One that has nothing to do waits; there
are never more than that number for each broker of the cluster.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

from odradek.foundation.settings import Settings
from odradek.foundation.tasks import TaskOwner
from odradek.replication.fetcher import Fetcher
from odradek.replication.partition import Partition
from odradek.replication.partitions import Partitions
from odradek.replication.way import Way


class Fetchers:
    """Follows what `partitions` follow, from `start` until `stop`."""

    def __init__(
        self,
        partitions: Partitions,
        *,
        channel: Callable[[int], Way],
        current_settings: Callable[[], Settings],
    ) -> None:
        """`channel` gives the way to leaders that the fetchers of one number use, and nobody else: a fetch that waits
        for records holds up all behind it.
        """
        self._partitions = partitions
        self._context = partitions.context
        self._channel = channel
        self._current_settings = current_settings
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._by_partition: dict[Partition, Fetcher] = {}
        self._tasks = TaskOwner("fetchers")

    def __iter__(self) -> Iterator[Fetcher]:
        return iter(list(self._fetchers.values()))

    def start(self) -> None:
        """Take up what is to be followed now, and what will be."""
        self._context.role_changed = self.role_changed
        self._context.log_start_moved = self._log_start_moved
        for partition in self._partitions:
            self.role_changed(partition)

    def role_changed(self, partition: Partition) -> None:
        """Another leader, another epoch, or nobody to follow any more."""
        before = self._by_partition.pop(partition, None)
        wanted = self._fetcher(partition) if partition.is_follower else None
        if before is not None and before is not wanted:
            before.remove(partition)
        if wanted is not None:
            self._by_partition[partition] = wanted
            wanted.add(partition)

    def _log_start_moved(self, partition: Partition) -> None:
        fetcher = self._by_partition.get(partition)
        if fetcher is not None:
            fetcher.touch(partition)

    def _fetcher(self, partition: Partition) -> Fetcher:
        topic, index = partition.topic_partition
        number = (zlib.crc32(topic.encode()) + index) % self._current_settings().num_replica_fetchers
        key = (partition.leader, number)
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = Fetcher(
                partition.leader,
                context=self._context,
                way=self._channel(number),
                current_settings=self._current_settings,
            )
            self._tasks.start(fetcher.run(), name=f"from {partition.leader}, {number}")
        return fetcher

    async def stop(self) -> None:
        """Follow nobody any more; nothing is appended after this."""
        await self._tasks.close()
