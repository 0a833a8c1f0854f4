"""ListOffsets: offsets for times, and for the earliest, latest and newest.

    -1 latest              the high watermark, or the last stable offset under read_committed
    -2 earliest            the log's start
    -3 max timestamp       the first record that has the newest timestamp, also one below the log's start: as in Kafka,
                           a time counts until its segment is deleted
    -4 earliest local      the log's start: there is no tiered storage (KIP-405)
    -5 latest tiered       no offset: there is no tiered storage
    -6 earliest pending    the first offset that is still to be tiered (KIP-1023): none either
    -2^62 and below        a segment's start: see `wire.protocol.segment_starts`
    -64 compacted up to    for brokers alone, of any replica: see `broker.replication.removal_bounds`

Latest and earliest, which Spark and every consumer ask for at each start and poll, come from memory. A look-up by time
reads an index and at most one stretch of the log. A thread reads and decompresses the batch that it leads to. A time
after the last record has no offset, -1.

Behind a fetch of the connection that waits, the answer is made once that one has its own: see `fetch.waiting`.

A new leader knows its high watermark only after the followers' first fetches. While it is below the start of the
leader's epoch, a request that depends on it gets OFFSET_NOT_AVAILABLE, so that no offset goes back (KIP-207).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Generator, Sequence
from typing import Final

from odradek.broker.replication.leader import Leader
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.removal_bounds import COMPACTED_UP_TO
from odradek.broker.replication.time_searches import run_search
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.fetch.waiting import list_waiting
from odradek.broker.requests.parts import PartitionParts
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import (
    InvalidRequest,
    LeaderNotAvailable,
    OffsetNotAvailable,
    RequestError,
    UnsupportedVersion,
)
from odradek.foundation.named_tuple import NamedTuple
from odradek.network.pending import Pending
from odradek.storage.compaction.candidates import first_dirty_offset
from odradek.storage.log import Log
from odradek.storage.lookup import Search
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.frames import Frame
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import ListOffsetsPartition, ListOffsetsRequest
from odradek.wire.protocol.segment_starts import offset_of_time

logger = logging.getLogger(__name__)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
# The first version that knows each special value; an older client could not have meant it.
_FIRST_VERSIONS: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_READ_COMMITTED: Final = 1
_FIRST_WITH_OFFSET_NOT_AVAILABLE: Final = 5
_NOTHING: Final = (-1, -1, -1)


def handle(
    request: ListOffsetsRequest, context: RequestContext[PartitionParts]
) -> Message | Pending[Message]:
    fetches = list_waiting(context.connection)
    if fetches:
        return Pending(_answer_after(fetches, request, context))
    return _answer_now(request, context)


async def _answer_after(
    fetches: Sequence[Pending[Frame]], request: ListOffsetsRequest, context: RequestContext[PartitionParts]
) -> Message:
    for fetch in fetches:
        await fetch.wait_for_end()
    answer = _answer_now(request, context)
    return await answer if isinstance(answer, Pending) else answer


def _answer_now(
    request: ListOffsetsRequest, context: RequestContext[PartitionParts]
) -> Message | Pending[Message]:
    committed_only = request.isolation_level == _READ_COMMITTED
    counts = Counter(
        (topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions
    )
    late: list[_Late] = []
    topics: list[dict[str, object]] = [
        {
            "name": topic.name,
            "partitions": [
                _answer(
                    topic.name,
                    asked,
                    context,
                    committed_only=committed_only,
                    replica_id=request.replica_id,
                    is_asked_twice=counts[topic.name, asked.partition_index] > 1
                    or (topic.name, asked.partition_index) in context.named_twice,
                    late=late,
                )
                for asked in {asked.partition_index: asked for asked in topic.partitions}.values()
            ],
        }
        for topic in request.topics
    ]
    return Pending(_search(context, topics, late)) if late else context.response(topics=topics)


class _Late(NamedTuple):
    """A partition with a search in its log, and the fields of its answer, which the search completes."""

    search: Search
    asked: ListOffsetsPartition
    topic: str
    leader: Leader
    limit: int
    fields: dict[str, object]


async def _search(
    context: RequestContext[PartitionParts], topics: list[dict[str, object]], late: list[_Late]
) -> Message:
    """The answer once all searches are over; a thread opens the batches, one after the other."""
    for one in late:
        try:
            found = await _run_search(one.search, context)
            _check_found(one.leader, one.asked.timestamp, found, one.limit, context.header.api_version)
        except Exception as error:
            one.fields.update(_describe_failure(one.topic, one.asked, error))
        else:
            one.fields.update(_describe_offset(one.asked.partition_index, *found))
    return context.response(topics=topics)


async def _run_search(search: Search, context: RequestContext[PartitionParts]) -> tuple[int, int, int]:
    result = await run_search(search, context.broker.blocking)
    return _NOTHING if result is None else (result.offset, result.timestamp_ms, result.leader_epoch)


def _answer(
    topic: str,
    asked: ListOffsetsPartition,
    context: RequestContext[PartitionParts],
    *,
    committed_only: bool,
    replica_id: int,
    is_asked_twice: bool,
    late: list[_Late],
) -> dict[str, object]:
    index = asked.partition_index
    try:
        if is_asked_twice:
            raise InvalidRequest(f"{topic}-{index} is in the request twice; ask for one time at once.")
        is_for_brokers = asked.timestamp == COMPACTED_UP_TO and replica_id >= 0
        if not is_for_brokers:
            _check_known(asked.timestamp, context.header.api_version)
        partition = context.broker.partitions.get(topic, index)
        if is_for_brokers:
            return _describe_offset(index, first_dirty_offset(partition.log), -1, -1)
        leader = partition.require_leader(asked.current_leader_epoch)
        if leader.followers is not None and replica_id in leader.followers.known:
            limit = partition.log.log_end_offset
        else:
            leader.require_confirmed()
            limit = partition.last_stable_offset if committed_only else partition.high_watermark
        found = _find(partition, asked.timestamp, limit=limit)
        if isinstance(found, Generator):
            fields: dict[str, object] = {}
            late.append(_Late(found, asked, topic, leader, limit, fields))
            return fields
        _check_found(leader, asked.timestamp, found, limit, context.header.api_version)
    except Exception as error:
        return _describe_failure(topic, asked, error)
    return _describe_offset(index, *found)


def _check_found(
    leader: Leader, timestamp_ms: int, found: tuple[int, int, int], limit: int, version: int
) -> None:
    """Raises OffsetNotAvailable where a new leader may give more later."""
    if limit < leader.epoch_start_offset and (timestamp_ms == LATEST or found[0] < 0):
        _check_available(leader, version)


def _describe_failure(topic: str, asked: ListOffsetsPartition, error: Exception) -> dict[str, object]:
    index = asked.partition_index
    if not isinstance(error, RequestError):
        logger.error("looking up time %d in %s-%d failed", asked.timestamp, topic, index, exc_info=error)
    code = error_code(without_trace(error))
    return {"partition_index": index, "error_code": code, "timestamp": -1, "offset": -1}


def _describe_offset(index: int, offset: int, timestamp_ms: int, leader_epoch: int) -> dict[str, object]:
    return {
        "partition_index": index,
        "error_code": 0,
        "timestamp": timestamp_ms,
        "offset": offset,
        "leader_epoch": leader_epoch,
    }


def _check_known(timestamp_ms: int, version: int) -> None:
    """Raises UnsupportedVersion for a special value that `version` does not have."""
    if timestamp_ms >= 0 or offset_of_time(timestamp_ms) is not None:
        return
    first = _FIRST_VERSIONS.get(timestamp_ms)
    if first is None:
        raise UnsupportedVersion(f"{timestamp_ms} is neither a time nor one of the special values.")
    if version < first:
        raise UnsupportedVersion(
            f"the special value {timestamp_ms} is known from version {first} of ListOffsets on, not in {version}."
        )


def _check_available(leader: Leader, version: int) -> None:
    """Raises OffsetNotAvailable while a new leader does not know its followers' positions."""
    replica = leader.replica
    if leader.followers is None or replica.high_watermark >= leader.epoch_start_offset:
        return
    kind = OffsetNotAvailable if version >= _FIRST_WITH_OFFSET_NOT_AVAILABLE else LeaderNotAvailable
    raise kind(
        f"{replica.topic_partition} has a new leader, whose high watermark {replica.high_watermark} has not come "
        f"up to the start of its epoch, {leader.epoch_start_offset}; try again."
    )


def _find(partition: Partition, timestamp_ms: int, *, limit: int) -> tuple[int, int, int] | Search:
    """(offset, timestamp, leader epoch) of what lies below `limit`, each -1 where there is none; or a search for it."""
    log = partition.log
    if timestamp_ms == LATEST:
        return limit, -1, partition.leader_epoch
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        epoch = log.epochs.epoch_for_offset(start)
        if epoch < 0 and start == log.log_end_offset:
            # Nothing was ever written: the first record will be of this leader.
            epoch = partition.leader_epoch
        return start, -1, epoch
    if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOTHING
    before = offset_of_time(timestamp_ms)
    if before is not None:
        return _find_segment_start(log, min(before, limit))
    if timestamp_ms == MAX_TIMESTAMP:
        return log.search_newest(offset_limit=limit)
    return log.search_timestamp(timestamp_ms, offset_limit=limit)


def _find_segment_start(log: Log, before: int) -> tuple[int, int, int]:
    """(start, time of its newest record, -1) of the newest segment that starts before an offset."""
    if before <= log.log_start_offset:
        return _NOTHING
    segment = log.segments.all[log.segments.floor(before - 1)]
    return max(segment.base_offset, log.log_start_offset), segment.retention_timestamp_ms(), -1
