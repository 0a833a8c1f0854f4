"""Runs the shards of one coordinator: finds the shard of a key, loads the partitions led here, unloads the others.

A key belongs to the partition that it hashes to (Java's `String.hashCode`), and that partition's leader coordinates it.
Partitions are loaded when this broker becomes their leader, and forgotten when it no longer is. Kafka's
`CoordinatorRuntime` (KIP-848) does the same. What the records mean is left to the state machines.

A partition is read into its shard in bounded pieces, without holding up the loop. Records of a transaction count from
the commit marker on, and never after an abort. Which of two values of a key counts is the state machine's rule, the
same as for live changes.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterator
from typing import Final, Generic

from odradek.broker.coordination.shard import Machine_co, Shard, ShardState, StateMachine
from odradek.broker.coordination.timers import SessionTimers
from odradek.broker.coordination.topic_log import InternalTopicLog, TopicParts
from odradek.foundation.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaStorageError,
    NotCoordinator,
    OdradekError,
)
from odradek.foundation.tasks import TaskOwner
from odradek.metadata.image.image import ClusterImage, ImageHolder
from odradek.wire.protocol.group_partitions import partition_of
from odradek.wire.records.batch import BatchView, split
from odradek.wire.records.control import parse_marker
from odradek.wire.records.record import records

logger = logging.getLogger(__name__)

RECORDS_PER_TURN: Final = 2000  # about 5 ms of decoding: other connections are served in between

LOAD_RETRY_SECONDS: Final = 1.0
LOAD_RETRY_SECONDS_MAX: Final = 60.0
# Between two looks at whether the replicas have what is loaded: at first, and at most.
COMMIT_LOOK_SECONDS: Final = 0.002
COMMIT_LOOK_SECONDS_MAX: Final = 0.1
# When a wait for them is worth a line of the log: a failover takes a fraction of a second.
COMMIT_WAIT_SECONDS_NOTED: Final = 10.0


class CoordinatorRuntime(Generic[Machine_co]):
    """The shards of one coordinator on one broker. Everything happens on the event loop.

    `make_machine` makes the state machine of a new shard.
    """

    def __init__(
        self,
        parts: TopicParts,
        *,
        load_buffer_bytes: int,
        make_machine: Callable[[Shard[Machine_co]], Machine_co],
    ) -> None:
        self.topic = parts.topic
        self.log = parts.log
        self.is_running = False
        self._parts = parts
        self._load_buffer_bytes = load_buffer_bytes
        self._make_machine = make_machine
        self._timers = SessionTimers()
        self._unsubscribe: Callable[[], None] | None = None
        self._shards: dict[int, Shard[Machine_co]] = {}
        self._resigned: list[Shard[Machine_co]] = []
        self._tasks: TaskOwner | None = None

    # --- life -----------------------------------------------------------------------------------------------

    def start(
        self, name: str, images: ImageHolder, image_changed: Callable[[ClusterImage, ClusterImage], None]
    ) -> TaskOwner:
        """Begin to serve: load the partitions that this broker leads, in the background; returns the tasks' owner.

        `image_changed` is called with the old and the new image at each change, until the coordinator resigns.
        """
        self._tasks = TaskOwner(name)
        self._unsubscribe = images.subscribe(image_changed)
        self.is_running = True
        self.refresh()
        return self._tasks

    def resign(self) -> None:
        """Serve no more, and answer every request that waits with NotCoordinator.

        A broker's stop begins so, while there are connections for the answers. A member may wait for others as long
        as its rebalance timeout.
        """
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        self.is_running = False
        self._resigned += self._shards.values()
        for partition in list(self._shards):
            self._unload(partition)

    async def stop(self) -> None:
        """Resign, and end the appends under way, the timers and every background task."""
        self.resign()
        for shard in self._resigned:
            await shard.writer.end()
        self._resigned.clear()
        self._timers.close()
        if self._tasks is not None:
            await self._tasks.close()
            self._tasks = None

    def refresh(self) -> None:
        """Load the partitions that this broker leads now, and forget those that it leads no more."""
        led = set(self.log.list_led_partitions())
        for partition, shard in list(self._shards.items()):
            if partition not in led or self.log.get_led_since_epoch(partition) != shard.led_since_epoch:
                self._unload(partition)
        for partition in led:
            if partition not in self._shards:
                self._begin_load(partition)

    def _begin_load(self, partition: int) -> Shard[Machine_co]:
        shard = Shard(
            partition,
            parts=self._parts,
            timers=self._timers,
            led_since_epoch=self.log.get_led_since_epoch(partition),
            make_machine=self._make_machine,
            on_unknown=self._load_again,
        )
        self._shards[partition] = shard
        if holds_nothing(partition, self.log):
            shard.activate()
        else:
            assert self._tasks is not None, "start() comes first"
            self._tasks.start(self._load(shard), name=f"load-{partition}")
        return shard

    async def _load(self, shard: Shard[Machine_co]) -> None:
        """Load until it succeeds: a disk that fails now may recover, and damage may be repaired.

        Until then the records before and after the damage are not served. Members would go back to old offsets, and
        their commits would make the loss permanent. What is loaded is served once it is committed.
        """
        pause_seconds = LOAD_RETRY_SECONDS
        while shard.is_to_be_loaded:
            try:
                end_offset = await load(shard, self.log, bytes_max=self._load_buffer_bytes)
            except (OdradekError, OSError) as error:
                if shard.state is ShardState.CLOSED:
                    return  # another broker leads by now and may have truncated this log: nothing is wrong with it
                logger.error("%s", self._refusal(shard.partition, error))
                shard.fail(error)
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, LOAD_RETRY_SECONDS_MAX)
                continue
            await self._wait_for_replicas(shard, end_offset)
            shard.activate()

    async def _wait_for_replicas(self, shard: Shard[Machine_co], end_offset: int) -> None:
        """Wait until what is loaded is committed, or the shard is closed.

        A new leader's log may end with records that no other replica has, and the next leader may be without them. It
        would give the same generation of a group to others, or abort what was committed here.
        """
        pause_seconds = COMMIT_LOOK_SECONDS
        waited_seconds = 0.0
        while shard.is_to_be_loaded and not self._is_committed(shard.partition, end_offset):
            if waited_seconds < COMMIT_WAIT_SECONDS_NOTED <= waited_seconds + pause_seconds:
                logger.warning(
                    "%s, is loaded and not served yet: too few replicas have its last records; "
                    "it is served once they do",
                    shard.name,
                )
            await asyncio.sleep(pause_seconds)
            waited_seconds += pause_seconds
            pause_seconds = min(2 * pause_seconds, COMMIT_LOOK_SECONDS_MAX)

    def _is_committed(self, partition: int, end_offset: int) -> bool:
        try:
            return self.log.is_committed(partition, end_offset)
        except OdradekError:
            return False  # the partition is not here any more: the shard is about to be closed

    def _load_again(self, shard: Shard[Machine_co], error: OdradekError) -> None:
        """A write failed, and may count all the same. Its records are in the log, and state has to come from there."""
        if self._shards.get(shard.partition) is not shard:
            return
        logger.warning("%s, is loaded again: its last write may count or not", shard.name)
        del self._shards[shard.partition]
        shard.close(error)
        self.refresh()

    def _unload(self, partition: int) -> None:
        self._shards.pop(partition).close(NotCoordinator(self.topic.moved))

    # --- shards ---------------------------------------------------------------------------------------------

    def partition_for(self, key: str) -> int:
        """The partition of the topic that the key belongs to."""
        return partition_of(key, self.log.partition_count())

    def shard(self, key: str) -> Shard[Machine_co]:
        """The key's shard. Raises NotCoordinator, CoordinatorLoadInProgress, CoordinatorNotAvailable."""
        return self._shard(self.partition_for(key), f"the {self.topic.subject} {key!r}")

    def shard_of_partition(self, partition: int) -> Shard[Machine_co]:
        """The shard of a partition, for what concerns no single key. Raises as `shard`."""
        return self._shard(partition, f"partition {partition} of {self.topic.name}")

    def _shard(self, partition: int, asked: str) -> Shard[Machine_co]:
        if not self.is_running:
            raise CoordinatorNotAvailable(f"the {self.topic.subject} coordinator is not running; try again")
        # Also for a known shard: another broker may lead the partition while the registry does not answer this one.
        if not self.log.is_ready(partition):
            raise NotCoordinator(f"{asked} is coordinated elsewhere; find its coordinator again")
        shard = self._shards.get(partition)
        if shard is None:
            shard = self._begin_load(partition)
        if shard.state is ShardState.LOADING:
            raise CoordinatorLoadInProgress(f"{asked} is being loaded; try again")
        if shard.state is ShardState.FAILED:
            raise CoordinatorNotAvailable(f"{asked} is not served: {self._refusal(partition, shard.failure)}")
        return shard

    def _refusal(self, partition: int, error: BaseException | None) -> str:
        """Why the keys of a partition are not served, and what can be done."""
        topic = self.topic
        return (
            f"partition {partition} of {topic.name} cannot be loaded ({error}). Its {topic.subject}s are refused, and "
            f"its log is left as it is, until it can be read. Restore the partition's directory from a copy, or stop "
            f"the broker and delete the directory to begin without {topic.contents}. Loading is tried again "
            f"every {LOAD_RETRY_SECONDS_MAX:.0f} s at the least"
        )

    def shards(self) -> list[Shard[Machine_co]]:
        return list(self._shards.values())

    def list_loaded_shards(self) -> Iterator[Shard[Machine_co]]:
        """The shards that are served."""
        return (shard for shard in list(self._shards.values()) if shard.state is ShardState.ACTIVE)

    @property
    def is_loading(self) -> bool:
        return any(shard.state is ShardState.LOADING for shard in self._shards.values())

    @property
    def failed_partitions(self) -> int:
        """Partitions of the topic that could not be loaded, whose keys are refused."""
        return sum(shard.state is ShardState.FAILED for shard in self._shards.values())

    async def wait_until_loaded(self) -> None:
        """Wait until every partition led now is loaded."""
        for shard in list(self._shards.values()):
            await shard.loaded.wait()


async def load(shard: Shard[StateMachine], log: InternalTopicLog, *, bytes_max: int) -> int:
    """Apply every record of the shard's partition; the end offset of what is applied.

    Raises what the log raises, and CorruptRecord for a damaged batch.
    """
    start, end = log.bounds(shard.partition)
    offset = start
    applied = 0
    while offset < end:
        data = log.read(shard.partition, offset, bytes_max=bytes_max)
        if inspect.isawaitable(data):
            data = await data
        if not data:
            raise KafkaStorageError(f"{shard.name}, ends at {offset} and should reach {end}")
        for batch in split(memoryview(data), may_be_cut=True):
            batch.verify()
            if batch.last_offset < offset:
                continue
            for _ in _apply_batch(shard, batch, offset):
                applied += 1
                if applied % RECORDS_PER_TURN == 0:
                    await asyncio.sleep(0)
            offset = batch.last_offset + 1
    return end


def holds_nothing(partition: int, log: InternalTopicLog) -> bool:
    """Whether the partition's log is empty, so that there is nothing to wait for."""
    start, end = log.bounds(partition)
    return start == end


def _apply_batch(shard: Shard[StateMachine], batch: BatchView, offset: int) -> Iterator[None]:
    """Apply the records from `offset` on, giving up control after each."""
    if batch.is_control:
        marker = parse_marker(batch)
        if marker is not None:
            shard.end_transaction(marker.producer_id, is_commit=marker.is_commit)
            yield
        return
    for record in records(batch):
        if record.offset < offset or record.key is None:
            continue
        value = record.value
        if batch.is_transactional:
            shard.replay_pending(batch.producer_id, record.key, value)
        else:
            shard.replay(record.key, value)
        yield
