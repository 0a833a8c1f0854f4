"""Writes dead letters through the brokers that lead their topics, with acks=all (KIP-1191).

A failure that may pass is followed by another attempt, after a pause that grows to half a minute. There is no last one:
the group may take its topic's name away, and then its records are archived without a letter. So they are where the
group's topic breaks a rule, and where the leader refuses the records for good.

An attempt whose answer is lost is made again, so a record may have two dead letters. Kafka 4.4 gives up after five
attempts.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from odradek.broker.replication.blocking import BlockingWork
from odradek.broker.replication.broker_transport import BrokerTransport, MessageRequest
from odradek.broker.replication.hosted_partitions import HostedPartitions
from odradek.broker.replication.partition import Partition
from odradek.broker.shares.dead_letter_records import (
    NO_ORIGINAL,
    Headers,
    LetterBatch,
    Original,
    build_letters,
    find_originals,
    headers_of,
)
from odradek.broker.shares.dead_letter_topic import DeadLetterTopics, Destination
from odradek.broker.shares.dead_letters import UndeliverableRange, UndeliverableRecords
from odradek.foundation.errors import (
    FrameError,
    InvalidConfig,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTopic,
    OdradekError,
    PolicyViolation,
    RecordListTooLarge,
    RecordTooLarge,
)
from odradek.foundation.limits import (
    DEAD_LETTER_BATCH_BYTES_MAX,
    DEAD_LETTER_BATCHES_AT_ONCE_MAX,
    DEAD_LETTER_GROUPS_COUNTED_MAX,
    DEAD_LETTER_WRITE_MS_MAX,
    DEAD_LETTERS_AT_ONCE_MAX,
)
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.foundation.security_errors import ClusterAuthorizationFailed, TopicAuthorizationFailed
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.errors import error_name, error_of
from odradek.wire.protocol.messages import request

if TYPE_CHECKING:
    from odradek.wire.protocol.responses.records import ProduceResponse

logger = logging.getLogger(__name__)

# The topic is named by its id: one that is made again under the name is found first.
VERSION: Final = 13
RETRY_SECONDS_MIN: Final = 0.1
RETRY_SECONDS_MAX: Final = 30.0
# What another attempt does not change.
_FINAL: Final = (
    ClusterAuthorizationFailed,
    InvalidConfig,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTopic,
    PolicyViolation,
    RecordListTooLarge,
    RecordTooLarge,
    TopicAuthorizationFailed,
)

Letter = tuple[int, UndeliverableRange]


class GroupCounts:
    """Of one group: records written and refused for good, and requests that wrote and that failed."""

    __slots__ = ("failed_requests", "refused", "requests", "written")

    def __init__(self) -> None:
        self.written = 0
        self.refused = 0
        self.requests = 0
        self.failed_requests = 0


class DeadLetterCounts:
    """Of the groups of one broker, a bounded number of them: clients choose the names."""

    def __init__(self) -> None:
        self._by_group: dict[str, GroupCounts] = {}

    def of(self, group_id: str) -> GroupCounts:
        """The counts of a group, which begin at 0."""
        found = self._by_group.get(group_id)
        if found is None:
            if len(self._by_group) >= DEAD_LETTER_GROUPS_COUNTED_MAX:
                del self._by_group[next(iter(self._by_group))]
            found = self._by_group[group_id] = GroupCounts()
        return found

    def __iter__(self) -> Iterator[tuple[str, GroupCounts]]:
        return iter(list(self._by_group.items()))


class DeadLetterWriter:
    """A `DeadLetters`. `transport` carries requests to brokers, this one among them."""

    def __init__(
        self,
        transport: BrokerTransport,
        topics: DeadLetterTopics,
        *,
        partitions: HostedPartitions,
        blocking: BlockingWork,
        wall_ms: Callable[[], int],
    ) -> None:
        self._transport = transport
        self._topics = topics
        self._partitions = partitions
        self._blocking = blocking
        self._wall_ms = wall_ms
        self._slots = asyncio.Semaphore(DEAD_LETTER_BATCHES_AT_ONCE_MAX)
        self._troubles = RateLimitedLog(logger, "dead letters")
        self.counts = DeadLetterCounts()

    async def send(self, records: UndeliverableRecords) -> None:
        """See `DeadLetters`."""
        group_id = records.key.group_id
        left: list[Letter] = sorted(
            (offset, one) for one in records.ranges for offset in range(one.first, one.last + 1)
        )
        pause_seconds = RETRY_SECONDS_MIN
        while left:
            try:
                async with self._slots:
                    written = await self._write_some(records, left[:DEAD_LETTERS_AT_ONCE_MAX])
            except _FINAL as error:
                self.counts.of(group_id).refused += len(left)
                self._troubles.warning(
                    "%d records of %s-%d from offset %d on are archived without dead letters of %s: %s",
                    *(len(left), records.topic, records.key.partition, left[0][0], group_id, error),
                )
                return
            except (OdradekError, FrameError, OSError) as error:
                self._troubles.warning("dead letters of %s are written later: %s", group_id, error)
            except Exception:
                # A defect. Without another attempt these records would stay as they are.
                logger.exception("dead letters of %s are written later", group_id)
            else:
                del left[:written]
                self.counts.of(group_id).written += written
                pause_seconds = RETRY_SECONDS_MIN
                continue
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, RETRY_SECONDS_MAX)

    async def _write_some(self, records: UndeliverableRecords, letters: Sequence[Letter]) -> int:
        """Write the first of `letters`; how many. Raises why none could be written."""
        key = records.key
        destination = await self._topics.find(key)
        originals: Mapping[int, Original] = {}
        if destination.is_copying:
            originals, letters = await self._find_originals(records, letters)
        named: list[tuple[Headers, Original]] = [
            (headers_of(key, records.topic, offset, letter), originals.get(offset, NO_ORIGINAL))
            for offset, letter in letters
        ]
        batch = build_letters(
            named, timestamp_ms=self._wall_ms(), batch_bytes_max=destination.batch_bytes_max
        )
        counts = self.counts.of(key.group_id)
        counts.requests += 1
        try:
            await self._produce(destination, batch)
        except BaseException:
            counts.failed_requests += 1
            raise
        return batch.letters

    async def _produce(self, destination: Destination, batch: LetterBatch) -> None:
        rows = [{"index": destination.partition, "records": batch.data}]
        message = request(
            ApiKey.PRODUCE,
            VERSION,
            transactional_id=None,
            acks=-1,
            timeout=timedelta(milliseconds=DEAD_LETTER_WRITE_MS_MAX),
            topic_data=[{"topic_id": destination.topic_id, "partition_data": rows}],
        )
        answer: ProduceResponse = await self._transport.send(
            destination.leader, MessageRequest(ApiKey.PRODUCE, VERSION, message)
        )
        (one,) = answer.responses[0].partition_responses
        code = int(one.error_code)
        name = f"{destination.topic}-{destination.partition}"
        failure = error_of(code, f"{name}: {one.error_message or error_name(code)}")
        if failure is not None:
            raise failure

    # --- copies -----------------------------------------------------------------------------------------------

    async def _find_originals(
        self, records: UndeliverableRecords, letters: Sequence[Letter]
    ) -> tuple[Mapping[int, Original], Sequence[Letter]]:
        """Keys and values of the first of `letters`, and these; as many as a batch may have.

        Records that cannot be read have none, as in Kafka: their dead letters still say where they are.
        """
        wanted = [offset for offset, _ in letters]
        found: dict[int, Original] = {}
        size, index = 0, 0
        try:
            partition = self._partitions.get_by_id(records.key.topic_id, records.key.partition)
            while index < len(wanted) and size < DEAD_LETTER_BATCH_BYTES_MAX:
                more, end_offset = await self._read(partition, wanted[index:])
                found |= more
                size += sum(len(one.key or b"") + len(one.value or b"") for one in more.values())
                index = max(bisect_left(wanted, end_offset), index + 1)
        except (OdradekError, OSError) as error:
            self._troubles.warning(
                "records of %s-%d are no part of their dead letters: %s",
                *(records.topic, records.key.partition, error),
            )
            return found, letters
        return found, letters[:index]

    async def _read(self, partition: Partition, wanted: Sequence[int]) -> tuple[dict[int, Original], int]:
        """The originals of the first offsets `wanted`, and the offset behind what was looked at."""
        offset = max(wanted[0], partition.log.log_start_offset)
        read = partition.reader.read(
            offset,
            DEAD_LETTER_BATCH_BYTES_MAX,
            at_least_one_batch=True,
            committed_only=False,
            leader_only=True,
        )
        records = read.slice
        if records is None or not records.size:
            return {}, wanted[-1] + 1
        partition.replica.bytes_out -= records.size
        return await self._blocking.submit(partial(_read_originals, records.read, frozenset(wanted)))


def _read_originals(read: Callable[[], bytes], wanted: frozenset[int]) -> tuple[dict[int, Original], int]:
    return find_originals(memoryview(read()), wanted)
