"""WriteTxnMarkers: the ends of transactions, from their coordinator to the leaders of partitions.

An answer has an error for each partition. It says that the marker is committed; for the offsets topic also that the
offsets are there to be fetched. Version 2 says which version of transactions a marker is of (KIP-1228). The admin
client sends version 1 to abort a transaction that its coordinator does not know.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Iterable, Iterator

from odradek.broker.replication.partition import Partition
from odradek.broker.replication.transactional_writes import append_marker
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.long_answers import make_in_turns
from odradek.broker.requests.parts import MarkerParts
from odradek.foundation.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaStorageError,
    NotCoordinator,
    NotLeaderOrFollower,
    OdradekError,
    RequestError,
)
from odradek.foundation.turns import Leftovers, Turn
from odradek.wire.protocol.errors import NONE, error_code
from odradek.wire.protocol.group_partitions import OFFSETS_TOPIC
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.wire.records.control import Marker

logger = logging.getLogger(__name__)


async def handle(request: WriteTxnMarkersRequest, context: RequestContext[MarkerParts]) -> Message:
    """All markers are appended before the first one is waited for."""
    async with Leftovers() as kept:
        outcomes: list[int | asyncio.Task[int]] = kept.until_end([])
        turn = Turn()
        async with asyncio.TaskGroup() as waits:
            for one in request.markers:
                marker = _marker(one, context)
                for topic in one.topics:
                    for index in topic.partition_indexes:
                        if turn.is_over():
                            await turn.next()
                        outcome = _write(topic.name, index, marker, one.transaction_version, context)
                        outcomes.append(outcome if isinstance(outcome, int) else waits.create_task(outcome))
        codes: list[int] = kept.until_end([])
        for one_outcome in outcomes:
            if turn.is_over():
                await turn.next()
            codes.append(one_outcome if isinstance(one_outcome, int) else one_outcome.result())
        return await make_in_turns(
            context, len(codes), lambda: context.response(markers=_rows(request.markers, codes))
        )


def _rows(markers: Iterable[WritableTxnMarker], codes: Iterable[int]) -> Iterator[dict[str, object]]:
    remaining = iter(codes)

    def partitions(topic: WritableTxnMarkerTopic) -> Iterator[dict[str, object]]:
        return (
            {"partition_index": index, "error_code": next(remaining)} for index in topic.partition_indexes
        )

    for one in markers:
        topics = ({"name": topic.name, "partitions": partitions(topic)} for topic in one.topics)
        yield {"producer_id": one.producer_id, "topics": topics}


def _marker(one: WritableTxnMarker, context: RequestContext[MarkerParts]) -> Marker:
    return Marker(
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        is_commit=one.transaction_result,
        coordinator_epoch=one.coordinator_epoch,
        timestamp_ms=context.broker.clock.wall_ms(),
    )


def _write(
    topic: str, index: int, marker: Marker, transaction_version: int, context: RequestContext[MarkerParts]
) -> int | Coroutine[object, None, int]:
    """Append one marker. Its error, or what ends with it once the marker is committed."""
    try:
        if topic == OFFSETS_TOPIC:
            outcome = context.broker.groups.offsets.complete_transaction(
                index, marker, transaction_version=transaction_version
            )
            return _late_code(outcome) if isinstance(outcome, Awaitable) else _code(outcome)
        partition = context.broker.partitions.get(topic, index)
        last_offset = append_marker(
            partition.require_leader(), marker, transaction_version=transaction_version
        )
        if partition.high_watermark > last_offset:
            return NONE
        return _wait_until_committed(partition, last_offset, context)
    except Exception as error:
        return _code(error)


async def _late_code(outcome: Awaitable[OdradekError | None]) -> int:
    return _code(await outcome)


async def _wait_until_committed(
    partition: Partition, last_offset: int, context: RequestContext[MarkerParts]
) -> int:
    try:
        await partition.wait_until_committed(
            last_offset, seconds_max=context.broker.settings.request_timeout_ms / 1000
        )
    except Exception as error:
        return _code(error)
    return NONE


def _code(error: BaseException | None) -> int:
    """The error of one partition; a coordinator of groups that is not there is a leader that is not there."""
    if isinstance(error, CoordinatorNotAvailable | CoordinatorLoadInProgress | NotCoordinator):
        error = NotLeaderOrFollower(str(error))
    elif error is not None and not isinstance(error, RequestError | KafkaStorageError):
        logger.error("writing the end of a transaction failed", exc_info=error)
    return error_code(error)
