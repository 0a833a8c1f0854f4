"""Coordinates groups: loads the partitions that they live in, and lets requests and groups do the rest.

A group is served by the leader of its partition of `__consumer_offsets` (see `routing`). Partitions are loaded
when this broker comes to lead them and forgotten when it ceases to. What a request changes is in the log before
it is answered; when it cannot be written the client is told so, and nothing has changed.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from odradek.foundation.clock import Clock
from odradek.foundation.errors import (
    NotCoordinator,
    OdradekError,
)
from odradek.foundation.tasks import TaskOwner
from odradek.groups import fencing, housekeeping
from odradek.groups.consumer_group import ConsumerGroup
from odradek.groups.loading import holds_nothing, load
from odradek.groups.offsets_log import OffsetsLog
from odradek.groups.routing import LOAD_RETRY_SECONDS_MAX, Routing, refusal
from odradek.groups.sessions import SessionTimers
from odradek.groups.shard import Shard, ShardState
from odradek.protocol.group_partitions import OFFSETS_TOPIC

if TYPE_CHECKING:
    from odradek.cluster.image import ClusterImage, ImageHolder

logger = logging.getLogger(__name__)

LOAD_RETRY_SECONDS: Final = 1.0


class GroupCoordinator(Routing):
    """The coordinator of one broker. Everything happens on the event loop. Arguments as for `Routing`."""

    def __init__(
        self,
        offsets_log: OffsetsLog,
        *,
        clock: Clock,
        settings: Any,
        images: ImageHolder,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        super().__init__(offsets_log, clock=clock, settings=settings, images=images, new_id=new_id)
        self._timers = SessionTimers()
        self._tasks: TaskOwner | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._resigned: list[Shard] = []

    # --- life -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to serve: load what this broker leads, in the background, and follow the image from
        here on.
        """
        self._tasks = TaskOwner("groups")
        self.is_running = True
        self._unsubscribe = self.images.subscribe(self._image_changed)
        self.refresh()
        self._tasks.start(housekeeping.keep_house(self), name="housekeeping")

    def resign(self) -> None:
        """Serve no more, as a broker's stop begins: whoever waits is told to find the coordinator again, while there
        are connections to tell them on. A member may wait for others as long as its rebalance timeout.
        """
        self.is_running = False
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        self._resigned += self.shards()
        for partition in list(self._shards):
            self._unload(partition)

    async def stop(self) -> None:
        """Resign, and end what runs in the background."""
        self.resign()
        for shard in self._resigned:
            await shard.writer.end()
        self._resigned.clear()
        self._timers.close()
        if self._tasks is not None:
            await self._tasks.close()
            self._tasks = None

    def refresh(self) -> None:
        """Load partitions that this broker has come to lead, forget those that it leads no more."""
        led = set(self.log.led_partitions())
        for partition, shard in list(self._shards.items()):
            if partition not in led or self.log.led_since_epoch(partition) != shard.led_since_epoch:
                self._unload(partition)
        for partition in led:
            if partition not in self._shards:
                self.begin_load(partition)

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.topics.get(OFFSETS_TOPIC) is not new.topics.get(OFFSETS_TOPIC):
            self.refresh()
        housekeeping.forget_deleted_topics(self, old, new)
        fencing.image_changed(self, old, new)

    def begin_load(self, partition: int) -> Shard:
        shard = Shard(
            partition,
            log=self.log,
            led_since_epoch=self.log.led_since_epoch(partition),
            clock=self.clock,
            timers=self._timers,
            settings=self.settings,
            new_member_id=lambda prefix: f"{prefix}-{self.new_id()}",
            session_timeout_ms=self.session_timeout_ms,
            expire_consumer_group=self._expire_consumer_group,
        )
        self._shards[partition] = shard
        if holds_nothing(shard, self.log):
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
                await load(shard, self.log, bytes_max=self.settings.offsets_load_buffer_size)
            except (OdradekError, OSError) as error:
                if shard.state is ShardState.CLOSED:
                    return  # another leads by now, and our log may have been cut: nothing is wrong with it
                logger.error("%s", refusal(shard.partition, error))
                shard.fail(error)
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, LOAD_RETRY_SECONDS_MAX)
                continue
            if shard.activate():
                housekeeping.forget_topics(shard, shard.topics_gone)
                fencing.shard_loaded(self, shard)

    def _unload(self, partition: int) -> None:
        shard = self._shards.pop(partition)
        self.rebalances_of_gone_shards += shard.rebalances_completed
        shard.close(NotCoordinator("this broker no longer coordinates the group; find its coordinator again"))

    async def ensure_topic(self) -> None:
        """Create the offsets topic if there is none. Raises what the controller raises."""
        await self.log.ensure_topic()
