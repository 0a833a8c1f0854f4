"""Reads partitions that the caller chooses: one fetch at a time to each leader, under way while records are returned.
Offsets are the caller's: only `group` commits them. A partition whose leader moved is read from the new leader. One
whose offset no longer exists starts as `on_out_of_range` says. A new leader is first asked whether it has the records
read from the one before it (KIP-320). Left out: fetch sessions, reading from followers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.client import Client
from odradek.client.consumer.ahead import NOTHING_AHEAD, ReadAhead
from odradek.client.consumer.blocks import ConsumerRecord, RecordBlock
from odradek.client.consumer.fetches import (
    AskedEpoch,
    CompletedFetch,
    EpochEnd,
    FetchBounds,
    epoch_ends,
    fetch_on,
)
from odradek.client.consumer.outage import MissingTopics, Outage
from odradek.client.consumer.positions import PartitionPosition
from odradek.client.errors import (
    FETCHED_AGAIN,
    UNANSWERED,
    ClientClosed,
    LogTruncated,
    UnsupportedByBroker,
)
from odradek.client.metadata import NO_LEADER, NO_TOPIC_ID
from odradek.foundation.client_limits import CLIENT_RETRY_PAUSE_MS_MAX, CLIENT_RETRY_PAUSE_MS_MIN
from odradek.foundation.errors import InvalidRequest, OdradekError, OffsetOutOfRange, UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition
from odradek.foundation.tasks import TaskOwner
from odradek.wire.records.batch import BatchView

logger = logging.getLogger(__name__)

_DOUBLINGS_MAX = 10  # much longer than the longest pause

RESET_TIMESTAMPS = {"earliest": EARLIEST, "latest": LATEST}


class PartitionConsumer:
    """`async with PartitionConsumer(client) as consumer: consumer.assign({tp: 0}); records = await consumer.poll()`.

    `on_out_of_range` is `earliest`, `latest` or `error`. Where a log was truncated below the position, the first two
    continue from its new end. `error` raises LogTruncated until the caller seeks or assigns again. Offsets given to
    `assign` and `seek` are exact; use `LogAdmin.offsets_at` to turn a time into one.

    A topic that no broker has known for `CLIENT_TOPIC_GONE_SECONDS` was deleted, and `poll` raises
    UnknownTopicOrPartition. With `is_waiting_for_topics` it is read again once it exists again, from its first record.
    """

    def __init__(
        self,
        client: Client,
        *,
        bounds: FetchBounds | None = None,
        is_read_committed: bool = False,
        on_out_of_range: str = "error",
        is_waiting_for_topics: bool = False,
        outage: Outage | None = None,
        missing_topics: MissingTopics | None = None,
    ) -> None:
        if on_out_of_range not in (*RESET_TIMESTAMPS, "error"):
            raise InvalidRequest(
                f"on_out_of_range is {on_out_of_range!r}; it can be earliest, latest or error"
            )
        self._client = client
        self._logs = LogAdmin(client)
        self._bounds = bounds or FetchBounds()
        self._is_read_committed = is_read_committed
        self._on_out_of_range = on_out_of_range
        self._is_waiting_for_topics = is_waiting_for_topics
        self._missing_topics = missing_topics or MissingTopics()
        self._positions: dict[TopicPartition, PartitionPosition] = {}
        self._order: list[TopicPartition] = []
        self._busy_leaders: set[int] = set()
        self._changed = asyncio.Event()
        self._failure: OdradekError | None = None
        self._outage = outage or Outage()
        self._tasks = TaskOwner("consumer")
        self._lane = client.new_lane("fetch")
        self._closed = False
        self._is_woken = False
        self._taking: PartitionPosition | None = None  # whose records `take_next` returns
        self._ahead = NOTHING_AHEAD

    async def __aenter__(self) -> PartitionConsumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop fetching and discard fetched records."""
        self._closed = True
        self._changed.set()
        await self._tasks.close()
        await self._client.release_lane(self._lane)

    # --- assignment -----------------------------------------------------------------------------------------------

    def assign(
        self, offsets: Mapping[TopicPartition, int], *, epochs: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Read exactly these partitions from these offsets on. One that stays at its position keeps its fetched
        records. `epochs` has the leader epochs of the records before these offsets, if known.
        """
        self._settle()
        epochs = epochs or {}
        kept: dict[TopicPartition, PartitionPosition] = {}
        for key, offset in offsets.items():
            known = self._positions.get(key)
            if known is None or known.position != offset:
                known = PartitionPosition(key, offset, epoch=epochs.get(key, -1))
            kept[key] = known
        for key, position in self._positions.items():
            if kept.get(key) is not position:
                position.seek(position.position)  # the answer of a fetch under way is discarded
        self._positions = kept
        self._order = list(kept)
        self._outage.keep(kept, now=asyncio.get_running_loop().time())
        self._changed.set()

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        return tuple(self._positions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue from `offset` in one partition. Raises InvalidRequest if it is not assigned."""
        self._settle()
        self._get_assigned(partition).seek(offset)
        self._changed.set()

    def restart_made_again(self, positions: Iterable[PartitionPosition] | None = None) -> bool:
        """Go to the first record of topics that were deleted and made again, by the metadata in the cache. Without
        `positions` all are looked at. Returns whether there are any.
        """
        is_any = False
        for position in list(self._positions.values()) if positions is None else positions:
            topic = self._client.cluster.topics.get(position.topic_partition.topic)
            if topic is None or topic.id == NO_TOPIC_ID or not position.note_topic_id(topic.id):
                continue
            is_any = True
            self._settle()
            logger.info(
                "%s is of a topic that was made again; reading its first record", position.topic_partition
            )
            position.seek(0)
        return is_any

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record to return. Raises InvalidRequest if the partition is not assigned."""
        found, ahead = self._get_assigned(partition), self._ahead.find_next(partition)
        return found.position if ahead is None else ahead.offset

    def epoch(self, partition: TopicPartition) -> int:
        """The leader epoch of the record before the position; -1 if unknown."""
        ahead = self._ahead.find_next(partition)
        return self._positions[partition].epoch if ahead is None else ahead.epoch

    def high_watermark(self, partition: TopicPartition) -> int:
        """The end of the readable records at the last fetch; -1 before the first one. Raises as `position`."""
        return self._get_assigned(partition).high_watermark

    def _get_assigned(self, partition: TopicPartition) -> PartitionPosition:
        found = self._positions.get(partition)
        if found is None:
            raise InvalidRequest(f"partition {partition} is not assigned to this consumer")
        return found

    def wake(self) -> None:
        """Make a `poll` under way return at once, even without records."""
        self._is_woken = True
        self._changed.set()

    # --- reading --------------------------------------------------------------------------------------------------

    async def poll(self, *, records_max: int = 500, timeout_ms: int = 1_000) -> list[ConsumerRecord]:
        """Up to `records_max` records, as soon as there are any; none when the time is up. Raises a partition's final
        error: OffsetOutOfRange, UnknownTopicOrPartition, CorruptRecord, …
        """
        blocks = await self.poll_blocks(records_max=records_max, timeout_ms=timeout_ms)
        return [record for block in blocks for record in block.consumer_records()]

    async def poll_blocks(
        self, *, records_max: int | None = None, timeout_ms: int = 1_000
    ) -> list[RecordBlock]:
        """As `poll`, but by batches whose records are not decoded yet: for programs that read a topic at full speed.
        Without `records_max` it returns all fetched batches: `CHUNKS_PER_PARTITION_MAX` answers of each partition at
        most.
        """
        return self._take_blocks(records_max) if await self._wait_for_data(timeout_ms) else []

    def _take_blocks(self, records_max: int | None) -> list[RecordBlock]:
        taken: list[RecordBlock] = []
        for key in self._in_turn():
            blocks = self._positions[key].take_blocks(records_max)
            taken += blocks
            if records_max is not None:
                records_max -= sum(block.record_count for block in blocks)
                if records_max <= 0:
                    break
        self._start_fetches()
        return taken

    async def read_ahead(self, *, records_max: int, timeout_ms: int) -> ReadAhead:
        """As `poll`, for another thread, which takes the records one at a time. Until it has, positions are before
        them, and any other call continues there. For a consumer that is read in no other way.
        """
        self._settle()
        self._is_woken = False  # this is the poll that it asks for
        if not await self._wait_for_data(timeout_ms):
            return NOTHING_AHEAD
        epochs = {key: position.epoch for key, position in self._positions.items()}
        blocks = self._take_blocks(records_max)
        self._ahead = ReadAhead((block.consumer_records() for block in blocks), epochs)
        return self._ahead

    @property
    def is_interrupted(self) -> bool:
        """Whether the next record needs a `poll` first, which raises an error, or joins a group. Any thread may ask."""
        return self._closed or self._failure is not None or self._is_woken

    def _settle(self) -> None:
        """Put back what was read ahead and no thread has taken."""
        ahead, self._ahead = self._ahead, NOTHING_AHEAD
        for key, place in ahead.give_back().items():
            if key in self._positions:
                self._positions[key].seek(place.offset, epoch=place.epoch)

    def take_next(self) -> ConsumerRecord | None:
        """The next record if `poll` would return it at once. None means: call `poll`."""
        if self._closed or self._failure is not None or self._is_woken:
            return None
        position = self._taking
        if position is not None and (record := position.take_row()) is not None:
            return record
        if position is None or not position.has_data:
            key = next(iter(self._in_turn()), None)
            if key is None:
                return None
            self._taking = position = self._positions[key]
        chunks = len(position.chunks)
        record = position.take_one()
        if len(position.chunks) != chunks:
            self._taking = None  # another partition's turn
            self._start_fetches()
        return record

    async def poll_batches(self, *, timeout_ms: int = 1_000) -> list[tuple[TopicPartition, BatchView]]:
        """As `poll`, but whole stored batches, control batches too: for copying and measuring."""
        if not await self._wait_for_data(timeout_ms):
            return []
        batches = [(key, batch) for key in self._in_turn() for batch in self._positions[key].take_batches()]
        self._start_fetches()
        return batches

    async def _wait_for_data(self, timeout_ms: int) -> bool:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    if self._closed:
                        raise ClientClosed("the consumer is closed")
                    if self._failure is not None:
                        failure, self._failure = self._failure, None
                        raise failure
                    self._changed.clear()
                    pause_seconds = self._start_fetches()
                    if any(position.has_data for position in self._positions.values()):
                        return True
                    if self._is_woken:
                        self._is_woken = False
                        return False
                    await self._wait_for_change(pause_seconds)
        except TimeoutError:
            return False

    async def _wait_for_change(self, pause_seconds: float | None) -> None:
        """Wait until a fetch ends, or the pause of a partition is over."""
        if pause_seconds is None:
            await self._changed.wait()
            return
        timer = asyncio.get_running_loop().call_later(pause_seconds, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            timer.cancel()

    def _in_turn(self) -> Iterable[TopicPartition]:
        """The partitions, each time from another one on, so that none waits for ever behind a busy one."""
        if self._order:
            self._order.append(self._order.pop(0))
        return [key for key in self._order if self._positions[key].has_data]

    # --- fetching -------------------------------------------------------------------------------------------------

    def _start_fetches(self) -> float | None:
        """Send a fetch to each leader without one. Returns the seconds until the end of the next pause, if any."""
        now = asyncio.get_running_loop().time()
        by_leader: dict[int, list[PartitionPosition]] = {}
        pause_seconds: float | None = None
        for key in self._order:
            position = self._positions[key]
            if not position.can_fetch:
                continue
            if position.fetch_at > now:
                wait = position.fetch_at - now
                pause_seconds = wait if pause_seconds is None else min(pause_seconds, wait)
                continue
            leader = self._client.cluster.leader(key)
            if leader not in self._busy_leaders:
                by_leader.setdefault(leader, []).append(position)
        for leader, positions in by_leader.items():
            self._busy_leaders.add(leader)
            for position in positions:
                position.is_fetching = True
            self._tasks.start(self._fetch(leader, positions), name=f"fetch from {leader}")
        return pause_seconds

    async def _fetch(self, leader: int, positions: list[PartitionPosition]) -> None:
        generations = [position.generation for position in positions]
        epochs = self._client.leader_epochs(position.topic_partition for position in positions)
        try:
            if leader == NO_LEADER:
                await self._find_leaders(positions)
                return
            if self._is_waiting_for_topics and self.restart_made_again(positions):
                return
            ahead = [one for one in positions if self._is_ahead(one, epochs[one.topic_partition])]
            if ahead:
                await self._find_leaders(ahead)
                return
            unsure = [one for one in positions if one.must_validate(epochs[one.topic_partition])]
            if unsure:
                # Then all of them are fetched again at once.
                await self._validate(leader, unsure, epochs)
                return
            for position in positions:
                position.leader_epoch = epochs[position.topic_partition]
            answers = await fetch_on(
                await self._client.broker(leader, lane=self._lane),
                {position.topic_partition: position.fetch_offset for position in positions},
                leader_epochs=epochs,
                bounds=self._bounds,
                is_read_committed=self._is_read_committed,
                timeout_ms=self._client.request_timeout_ms + self._bounds.wait_ms_max,
            )
            for position, generation in zip(positions, generations, strict=True):
                answer = answers.get(position.topic_partition)
                if position.generation == generation and answer is not None:
                    await self._take_answer(position, answer)
        except OdradekError as failure:
            self._retry_or_fail(positions, failure)
        finally:
            self._busy_leaders.discard(leader)
            for position in positions:
                position.is_fetching = False
            self._changed.set()

    def _is_ahead(self, position: PartitionPosition, leader_epoch: int) -> bool:
        """Whether committed offsets are of a newer epoch than the known leader."""
        return position.fetch_epoch > leader_epoch >= 0 and self._client.note_leader_epoch(
            position.topic_partition, position.fetch_epoch
        )

    async def _validate(
        self, leader: int, positions: list[PartitionPosition], leader_epochs: Mapping[TopicPartition, int]
    ) -> None:
        """Ask a new leader whether it has the records before these positions."""
        generations = [position.generation for position in positions]
        asked = {
            one.topic_partition: AskedEpoch(one.fetch_epoch, leader_epochs[one.topic_partition])
            for one in positions
        }
        try:
            ends = await epoch_ends(self._client, leader, asked, lane=self._lane)
        except UnsupportedByBroker:
            ends = {}
        cut: LogTruncated | None = None
        for position, generation in zip(positions, generations, strict=True):
            key = position.topic_partition
            end = ends.get(key)
            if position.generation != generation:
                continue
            if end is not None and end.failure is not None:
                self._retry_or_fail([position], end.failure)
            elif end is None or (end.epoch >= 0 and end.end_offset >= position.fetch_offset):
                position.leader_epoch = leader_epochs[key]
            else:
                cut = await self._was_cut(position, end) or cut
        if cut is not None:
            raise cut

    async def _was_cut(self, position: PartitionPosition, end: EpochEnd) -> LogTruncated | None:
        """Handle a leader without the records that were fetched. Returns the error, if it is one."""
        key, cut_offset = position.topic_partition, end.end_offset if end.epoch >= 0 else -1
        if position.position <= cut_offset:
            # None of these records was returned.
            position.seek(position.position, epoch=min(position.epoch, end.epoch))
            return None
        where = f"below offset {cut_offset}" if cut_offset >= 0 else "at an unknown offset"
        failure = LogTruncated(
            f"the log of partition {key} was truncated {where}: its leader lacks records that were read, up to offset "
            f"{position.position} in leader epoch {position.fetch_epoch}. An unclean election does this; "
            "seek to the offset to continue from"
        )
        if self._on_out_of_range == "error":
            position.fetch_at = asyncio.get_running_loop().time() + CLIENT_RETRY_PAUSE_MS_MAX / 1000
            return failure
        logger.warning("%s", failure)
        if cut_offset >= 0:
            position.seek(cut_offset, epoch=end.epoch)
        else:
            await self._reset(position, failure)
        return None

    async def _find_leaders(self, positions: list[PartitionPosition]) -> None:
        """Find the leaders of these partitions. An unknown topic is an error, a missing leader a pause."""
        topics = sorted({position.topic_partition.topic for position in positions})
        cluster = await self._client.with_retries(lambda: self._client.refresh(topics))
        now = asyncio.get_running_loop().time()
        deleted = self._missing_topics.find_deleted(topics, cluster, now=now)
        if deleted is not None and not self._is_waiting_for_topics:
            self._failure = UnknownTopicOrPartition(
                f"there is no topic {deleted!r} any more: it was deleted while it was read"
            )
        for position in positions:
            if cluster.partition(position.topic_partition).leader == NO_LEADER:
                position.fetch_at = now + CLIENT_RETRY_PAUSE_MS_MAX / 1000

    async def _take_answer(self, position: PartitionPosition, answer: CompletedFetch) -> None:
        if not isinstance(answer.failure, UNANSWERED):
            self._outage.note_answer(position.topic_partition, now=asyncio.get_running_loop().time())
        if isinstance(answer.failure, OffsetOutOfRange):
            await self._reset(position, answer.failure)
            return
        if answer.failure is not None:
            self._retry_or_fail([position], answer.failure)
            return
        position.failures = 0
        position.high_watermark = answer.high_watermark
        position.last_stable_offset = answer.last_stable_offset
        position.log_start_offset = answer.log_start_offset
        if len(answer.data):
            position.add(answer.data, answer.aborted)

    async def _reset(self, position: PartitionPosition, failure: OffsetOutOfRange) -> None:
        key = position.topic_partition
        timestamp = RESET_TIMESTAMPS.get(self._on_out_of_range)
        if timestamp is None:
            raise OffsetOutOfRange(
                f"partition {key} does not hold offset {position.fetch_offset}; read it from the beginning or the end"
            ) from failure
        found = (await self._logs.list_offsets({key: timestamp}, read_committed=self._is_read_committed))[key]
        logger.info(
            "offset %d of %s no longer exists; continuing at %d", position.fetch_offset, key, found.offset
        )
        position.seek(found.offset, epoch=found.leader_epoch)

    def _retry_or_fail(self, positions: list[PartitionPosition], failure: OdradekError) -> None:
        if not isinstance(failure, FETCHED_AGAIN):
            self._failure = failure
            return
        logger.debug("fetching again: %s", failure)
        self._client.invalidate()
        now = asyncio.get_running_loop().time()
        if isinstance(failure, UNANSWERED):
            self._outage.note_failure((position.topic_partition for position in positions), failure, now=now)
        for position in positions:
            position.failures += 1
            pause_ms = CLIENT_RETRY_PAUSE_MS_MIN * 2 ** min(position.failures, _DOUBLINGS_MAX)
            position.fetch_at = now + min(pause_ms, CLIENT_RETRY_PAUSE_MS_MAX) / 1000
        self._tasks.start(self._refresh(), name="refresh")

    async def _refresh(self) -> None:
        topics = sorted({key.topic for key in self._positions})
        try:
            await self._client.refresh(topics)
        except OdradekError as failure:
            logger.debug("the metadata could not be refreshed, trying again: %s", failure)
