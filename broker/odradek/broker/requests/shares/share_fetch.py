"""ShareFetch: a member acquires records of the partitions of its session, and acknowledges earlier ones with it.

The fetch does not wait for the acknowledgements to be stored, but the answer has both. With `is_renew_ack` a request
renews locks only (KIP-1222). The last request of a session acknowledges and fetches nothing; what its member still has
is released then.

Quotas: a client over its quota of bytes gets no records until its time is over. Unlike in Kafka, records that were
acquired are always sent: they would be locked for nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final, cast
from uuid import UUID

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import SharesParts
from odradek.broker.requests.shares.acknowledgements import (
    NO_TOPIC,
    MayRead,
    acknowledge,
    check_member,
    everyone_may_read,
    has_acknowledgements,
)
from odradek.broker.requests.shares.leaders import leaders_of
from odradek.broker.requests.shares.waiting_fetch import Acquired, MemberFetch
from odradek.broker.shares.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey, ShareSession, Target
from odradek.broker.shares.share_partition import Wanted
from odradek.foundation.errors import InvalidRequest, RequestError, ShareSessionLimitReached
from odradek.foundation.security_errors import TopicAuthorizationFailed
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.wire.protocol.errors import error_code, error_message
from odradek.wire.protocol.frames import Frame, size_of
from odradek.wire.protocol.hot.share_fetch_response import SharedPartition, pack_share_fetch_response
from odradek.wire.protocol.requests.shares import ShareFetchRequest
from odradek.wire.protocol.throttle_times import with_throttle_time

# Of `share_acquire_mode` (KIP-1206).
_STRICT: Final = 1


async def handle(request: ShareFetchRequest, context: RequestContext[SharesParts]) -> Frame:
    return await answer_request(request, context)


async def answer_request(
    request: ShareFetchRequest,
    context: RequestContext[SharesParts],
    *,
    may_read: MayRead = everyone_may_read,
) -> Frame:
    header = context.header
    try:
        key = check_member(context, request.group_id, request.member_id)
        _check_renewal(request)
        session = _session(request, context, key)
    except ShareSessionLimitReached as error:
        # As in Kafka, such a client waits as if there were no records.
        await asyncio.sleep(_seconds(request.max_wait))
        return _refuse(header.correlation_id, error)
    except RequestError as error:
        return _refuse(header.correlation_id, error)
    acknowledging = await acknowledge(
        request.topics,
        context,
        key,
        is_renewal=request.is_renew_ack,
        may_read=may_read,
    )
    fetch: MemberFetch | None = None
    failures: dict[Target, Exception] = {}
    throttle_ms = 0
    if session is not None and not request.is_renew_ack and min(request.max_records, request.max_bytes) > 0:
        if context.broker.throttling is not None:
            throttle_ms, _ = context.broker.throttling.fetch_throttle(context, 0)
        if not throttle_ms:
            targets, failures = _targets(session, may_read)
            fetch = _fetch(request, context, session)
            # A client learns at once of what it may not read.
            await fetch.run(targets, wait_seconds=0 if failures else _seconds(request.max_wait))
            failures.update(fetch.failures)
    acknowledged = await acknowledging.settle()
    if request.share_session_epoch == FINAL_EPOCH:
        await context.broker.leader.close_session(key)
    return await _answer(context, key, fetch, failures, acknowledged, throttle_ms)


def _targets(session: ShareSession, may_read: MayRead) -> tuple[list[Target], dict[Target, Exception]]:
    """The partitions to fetch, and the failures of those that the client may not read."""
    targets: list[Target] = []
    failures: dict[Target, Exception] = {}
    for target in session.next_targets():
        if may_read(target[0]):
            targets.append(target)
        else:
            failures[target] = TopicAuthorizationFailed("Topic authorization failed.")
    return targets, failures


def _seconds(duration: timedelta | int) -> float:
    if isinstance(duration, timedelta):
        return max(duration.total_seconds(), 0.0)
    return max(duration / 1000, 0.0)


def _check_renewal(request: ShareFetchRequest) -> None:
    """Raises InvalidRequest for a request that renews locks and fetches."""
    if not request.is_renew_ack:
        return
    asked = (request.max_bytes, request.min_bytes, request.max_records, _seconds(request.max_wait))
    if any(asked):
        raise InvalidRequest(
            "A request that renews locks fetches nothing: max_bytes, min_bytes, max_records and max_wait must be 0."
        )


def _session(
    request: ShareFetchRequest, context: RequestContext[SharesParts], key: SessionKey
) -> ShareSession | None:
    """The session to fetch for; None for its last request. Raises the errors of share sessions, InvalidRequest."""
    leader = context.broker.leader
    epoch = request.share_session_epoch
    if epoch == FINAL_EPOCH:
        leader.sessions.get(key)
        return None
    if epoch == INITIAL_EPOCH:
        if has_acknowledgements(request.topics):
            raise InvalidRequest("The first request of a share session has nothing to acknowledge.")
        session = leader.open_session(key, context.connection)
    else:
        session = leader.sessions.advance(key, epoch)
    asked = _list_asked(request)
    try:
        session.update(*asked)
    except RequestError:
        leader.sessions.remove(key)
        raise
    return session


def _list_asked(request: ShareFetchRequest) -> tuple[Iterable[Target], Iterable[Target]]:
    """The partitions that a request adds to its session, and those that it takes out."""
    return (
        (
            (topic.topic_id or NO_TOPIC, asked.partition_index)
            for topic in request.topics
            for asked in topic.partitions
        ),
        (
            (topic.topic_id or NO_TOPIC, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ),
    )


def _fetch(
    request: ShareFetchRequest, context: RequestContext[SharesParts], session: ShareSession
) -> MemberFetch:
    broker = context.broker
    bytes_max = min(request.max_bytes, broker.settings.fetch_max_bytes)
    if broker.throttling is not None:
        quota_bytes = broker.throttling.fetch_bytes_max(context)
        bytes_max = bytes_max if quota_bytes is None else min(bytes_max, quota_bytes)
    return MemberFetch(
        broker.leader,
        broker.purgatory,
        session,
        Wanted(
            member=session.key.member_id,
            records_max=request.max_records,
            batch_size=request.batch_size,
            is_strict=request.share_acquire_mode == _STRICT,
        ),
        bytes_max=bytes_max,
        bytes_min=min(request.min_bytes, bytes_max),
    )


async def _answer(
    context: RequestContext[SharesParts],
    key: SessionKey,
    fetch: MemberFetch | None,
    failures: Mapping[Target, Exception],
    acknowledged: Mapping[Target, Exception | None],
    throttle_ms: int,
) -> Frame:
    acquired = {} if fetch is None else fetch.acquired
    lock_timeout_ms = context.broker.leader.rules(key.group_id).lock_ms

    def pack() -> Frame:
        return pack_share_fetch_response(
            context.header.correlation_id,
            _results(acquired, failures, acknowledged),
            lock_timeout_ms=lock_timeout_ms,
            throttle_ms=throttle_ms,
            leaders=leaders_of(context, {**acknowledged, **failures}),
        )

    # The thread packs many partitions.
    is_short = len(acquired) + len(failures) + len(acknowledged) <= REQUEST_ELEMENTS_PER_TURN_MAX
    frame = pack() if is_short else await context.broker.long_work.submit(pack)
    throttling = context.broker.throttling
    if throttling is None or fetch is None:
        return frame
    throttle_ms = throttling.count_fetched(context, size_of(frame))
    header = context.header
    return cast(Frame, with_throttle_time(header.api_key, header.api_version, frame, throttle_ms))


def _results(
    acquired: Mapping[Target, Acquired],
    failures: Mapping[Target, Exception],
    acknowledged: Mapping[Target, Exception | None],
) -> Sequence[SharedPartition]:
    """The partitions of the answer, those of one topic beside each other."""
    by_topic: dict[UUID, list[SharedPartition]] = {}
    for target in dict.fromkeys((*acquired, *failures, *acknowledged)):
        one = SharedPartition(target[0].bytes, target[1])
        by_topic.setdefault(target[0], []).append(one)
        failure = failures.get(target)
        if failure is not None:
            one.error_code, one.error_message = error_code(failure), error_message(failure)
        refused = acknowledged.get(target)
        if refused is not None:
            one.acknowledge_error_code = error_code(refused)
            one.acknowledge_error_message = error_message(refused)
        given = acquired.get(target)
        if given is not None:
            one.records, one.acquired = given
    return [one for parts in by_topic.values() for one in parts]


def _refuse(correlation_id: int, error: RequestError) -> Frame:
    return pack_share_fetch_response(
        correlation_id,
        (),
        lock_timeout_ms=0,
        error_code=error_code(error),
        error_message=error_message(error),
    )
