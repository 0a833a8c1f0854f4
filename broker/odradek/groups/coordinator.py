"""Coordinates groups: finds the partition that a group lives in, loads it, and lets its groups do the rest.

A group belongs to the partition of `__consumer_offsets` that its id hashes to (Java's `String.hashCode`), and
is served by that partition's leader. Partitions are loaded when this broker comes to lead them and forgotten
when it ceases to. What a request changes is in the log before it is answered; when it cannot be written the
client is told so, and nothing has changed.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from odradek.foundation.clock import Clock
from odradek.foundation.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidGroupId,
    NotCoordinator,
    OdradekError,
)
from odradek.foundation.tasks import TaskOwner
from odradek.groups import housekeeping
from odradek.groups.consumer_group import ConsumerGroup
from odradek.groups.loading import holds_nothing, load
from odradek.groups.offsets_log import OFFSETS_TOPIC, OffsetsLog
from odradek.groups.patterns import TopicPatterns
from odradek.groups.sessions import SessionTimers
from odradek.groups.shard import Shard, ShardState

if TYPE_CHECKING:
    from odradek.cluster.image import ClusterImage, ImageHolder

logger = logging.getLogger(__name__)

__all__ = ["OFFSETS_TOPIC", "GroupCoordinator", "OffsetsLog", "partition_of"]

LOAD_RETRY_SECONDS: Final = 1.0
LOAD_RETRY_SECONDS_MAX: Final = 60.0


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 units, in 32 bits with a sign."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(encoded), 2):
        value = (31 * value + (encoded[position] << 8 | encoded[position + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_of(group_id: str, partition_count: int) -> int:
    """The partition of the offsets topic that holds the group, as Kafka reckons it: its hash without
    the sign.
    """
    value = java_hash(group_id)
    return 0 if value == -(1 << 31) else abs(value) % partition_count


def _refusal(partition: int, error: BaseException | None) -> str:
    return (
        f"partition {partition} of {OFFSETS_TOPIC} cannot be loaded ({error}). Its groups are refused, and its log "
        f"is left as it is, until it can be read: put the partition's directory back from a copy, or stop the "
        f"broker and delete the directory to begin without its groups and their offsets. Loading is tried again "
        f"every {LOAD_RETRY_SECONDS_MAX:.0f} s at the least"
    )


class GroupCoordinator:
    """The coordinator of one broker. Everything happens on the event loop.

    `settings` has Kafka's group and offset settings as attributes; `images` holds the current cluster image.
    """

    def __init__(
        self,
        offsets_log: OffsetsLog,
        *,
        clock: Clock,
        settings: Any,
        images: ImageHolder,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._log = offsets_log
        self.clock = clock
        self.settings = settings
        self.images = images
        self.new_id = new_id
        self.patterns = TopicPatterns()
        self._timers = SessionTimers()
        self._shards: dict[int, Shard] = {}
        self._tasks: TaskOwner | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self.commits = 0
        self.commits_failed = 0
        self.offsets_expired = 0
        self.rebalances_of_gone_shards = 0

    # --- life -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to serve: load what this broker leads, in the background, and follow the image from
        here on.
        """
        self._tasks = TaskOwner("groups")
        self._unsubscribe = self.images.subscribe(self._image_changed)
        self.refresh()
        self._tasks.start(housekeeping.keep_house(self), name="housekeeping")

    async def stop(self) -> None:
        """Stop serving. Whoever waits is told to find the coordinator again."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        for partition in list(self._shards):
            self._unload(partition)
        self._timers.close()
        if self._tasks is not None:
            await self._tasks.close()
            self._tasks = None

    def refresh(self) -> None:
        """Load partitions that this broker has come to lead, forget those that it leads no more."""
        led = set(self._log.led_partitions())
        for partition, shard in list(self._shards.items()):
            if partition not in led or self._log.leader_epoch(partition) != shard.leader_epoch:
                self._unload(partition)
        for partition in led:
            if partition not in self._shards:
                self._begin_load(partition)

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.topics.get(OFFSETS_TOPIC) is not new.topics.get(OFFSETS_TOPIC):
            self.refresh()
        housekeeping.forget_deleted_topics(self, old, new)

    def _begin_load(self, partition: int) -> Shard:
        shard = Shard(
            partition,
            log=self._log,
            leader_epoch=self._log.leader_epoch(partition),
            clock=self.clock,
            timers=self._timers,
            max_size=self.settings.group_max_size,
            initial_rebalance_delay_ms=self.settings.group_initial_rebalance_delay_ms,
            new_member_id=lambda prefix: f"{prefix}-{self.new_id()}",
            expire_consumer_group=self._expire_consumer_group,
        )
        self._shards[partition] = shard
        if holds_nothing(shard, self._log):
            shard.activate()
        else:
            assert self._tasks is not None, "start() comes first"
            self._tasks.start(self._load(shard), name=f"load-{partition}")
        return shard

    def _expire_consumer_group(self, group: ConsumerGroup) -> None:
        from odradek.groups.consumer_requests import expire_members

        expire_members(self, group)

    async def _load(self, shard: Shard) -> None:
        """Load until it succeeds: a disk that fails now may be back, and damage may be mended.

        What lies before and after damage is not served meanwhile: members would go back to old positions,
        and a rewrite would make the loss last.
        """
        pause_seconds = LOAD_RETRY_SECONDS
        while shard.is_to_be_loaded:
            try:
                await load(shard, self._log, bytes_max=self.settings.offsets_load_buffer_size)
            except (OdradekError, OSError) as error:
                logger.error("%s", _refusal(shard.partition, error))
                shard.fail(error)
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, LOAD_RETRY_SECONDS_MAX)
                continue
            if shard.activate():
                housekeeping.forget_topics(shard, shard.topics_gone)

    def _unload(self, partition: int) -> None:
        shard = self._shards.pop(partition)
        self.rebalances_of_gone_shards += shard.rebalances_completed
        shard.close(NotCoordinator("this broker no longer coordinates the group; find its coordinator again"))

    # --- routing --------------------------------------------------------------------------------------------

    async def ensure_topic(self) -> None:
        """Create the offsets topic if there is none. Raises what the controller raises."""
        await self._log.ensure_topic()

    def partition_for(self, group_id: str) -> int:
        """The partition of the offsets topic that the group belongs to."""
        return partition_of(group_id, self._log.partition_count())

    def shard(self, group_id: str) -> Shard:
        """The group's shard. Raises NotCoordinator, CoordinatorLoadInProgress, CoordinatorNotAvailable."""
        if self._tasks is None:
            raise CoordinatorNotAvailable("the group coordinator is not running; try again")
        partition = self.partition_for(group_id)
        shard = self._shards.get(partition)
        if shard is None:
            if not self._log.is_ready(partition):
                raise NotCoordinator(
                    f"the group {group_id!r} is coordinated elsewhere; find its coordinator again"
                )
            shard = self._begin_load(partition)
        if shard.state is ShardState.LOADING:
            raise CoordinatorLoadInProgress(f"the group {group_id!r} is being loaded; try again")
        if shard.state is ShardState.FAILED:
            raise CoordinatorNotAvailable(
                f"the group {group_id!r} is not served: {_refusal(partition, shard.failure)}"
            )
        return shard

    def named_shard(self, group_id: str) -> Shard:
        """As `shard`; raises InvalidGroupId for an empty id, which only offsets may have."""
        if not group_id:
            raise InvalidGroupId("the group id must not be empty; set group.id")
        return self.shard(group_id)

    def shards(self) -> list[Shard]:
        return list(self._shards.values())

    def loaded_shards(self) -> Iterator[Shard]:
        return (shard for shard in list(self._shards.values()) if shard.state is ShardState.ACTIVE)

    @property
    def is_loading(self) -> bool:
        return any(shard.state is ShardState.LOADING for shard in self._shards.values())

    @property
    def failed_partitions(self) -> int:
        """Partitions of the offsets topic that could not be loaded, whose groups are refused."""
        return sum(shard.state is ShardState.FAILED for shard in self._shards.values())

    async def loaded(self) -> None:
        """Wait until every partition led now is loaded."""
        for shard in list(self._shards.values()):
            await shard.loaded.wait()

    @property
    def log(self) -> OffsetsLog:
        return self._log

    @property
    def rebalances(self) -> int:
        """Rebalances of classic groups that came to their end."""
        return self.rebalances_of_gone_shards + sum(s.rebalances_completed for s in self._shards.values())

    def start_task(self, work: Any, *, name: str) -> None:
        assert self._tasks is not None, "start() comes first"
        self._tasks.start(work, name=name)
