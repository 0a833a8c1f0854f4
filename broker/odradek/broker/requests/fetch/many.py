"""Fetches of many partitions, of which some are read in each turn of the loop. The thread makes the frames."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.fetch.handler import Fetch, Restrict, encode, fetch_of, open_fetch
from odradek.broker.requests.fetch.reading import Fetched, FetchTarget
from odradek.broker.requests.fetch.sessions import (
    INITIAL_EPOCH,
    NO_FOLLOWER,
    FetchSession,
    ManyPartitions,
    ManyTargets,
)
from odradek.broker.requests.long_answers import parse_in_thread
from odradek.broker.requests.parts import FetchParts
from odradek.foundation.errors import FetchSessionIdNotFound, InvalidRequest, RequestError
from odradek.foundation.turn_limits import FETCH_SESSION_PARTITIONS_MAX
from odradek.foundation.turns import Leftovers, Turn
from odradek.wire.protocol.frames import Frame
from odradek.wire.protocol.hot.fetch_request import (
    FINAL_EPOCH,
    NO_SESSION,
    FetchRequest,
    parse_fetch_request,
)

# How often a fetch that waits looks whether its connection is still there.
_LOST_LOOK_SECONDS: Final = 1.0


async def answer_in_turns(
    frame: memoryview, context: RequestContext[FetchParts], *, restrict: Restrict | None = None
) -> Frame:
    """The answer to a request for many partitions, some of which are read in each turn of the loop."""
    header = context.header
    # What the client has sent behind it must not overtake it.
    context.connection.hold()
    try:
        request = await context.broker.long_work.submit(
            lambda: parse_in_thread(parse_fetch_request, header.api_version, frame, header.body_position)
        )
        async with Leftovers() as kept:
            kept.until_end(request.partitions)
            kept.until_end(request.forgotten)
            fetch = await _open_many(request, context, kept)
    except RequestError as error:
        if isinstance(error, InvalidRequest):
            raise
        return encode(context, [], session_id=NO_SESSION, error=error)
    finally:
        context.connection.release()
    return await _answer_many(fetch, request, context, restrict)


async def answer_session(
    session: FetchSession,
    request: FetchRequest,
    context: RequestContext[FetchParts],
    restrict: Restrict | None,
) -> Frame:
    """The answer to a fetch of a session with many partitions."""
    assert isinstance(session.targets, ManyTargets)
    fetch = fetch_of(request, context, session, session.targets.all(), is_incremental=True)
    return await _answer_many(fetch, request, context, restrict)


async def _open_many(request: FetchRequest, context: RequestContext[FetchParts], kept: Leftovers) -> Fetch:
    """As `open_fetch`. There is no session for more partitions than it may have."""
    sessions = context.broker.fetch_sessions
    follower_id = max(request.replica_id, NO_FOLLOWER)
    count = len(request.partitions)
    has_session = count <= FETCH_SESSION_PARTITIONS_MAX or follower_id != NO_FOLLOWER
    if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
        if not has_session:
            sessions.remove(request.session_id)
            raise FetchSessionIdNotFound(
                f"{count} partitions cannot be added to a session; it has {FETCH_SESSION_PARTITIONS_MAX} at most."
            )
        try:
            return open_fetch(request, context)
        except ManyPartitions as many:
            assert isinstance(many.session.targets, ManyTargets)
            if len(many.session.targets) > FETCH_SESSION_PARTITIONS_MAX:
                sessions.remove(many.session.id)
            return fetch_of(request, context, many.session, many.session.targets.all(), is_incremental=True)
    if has_session:
        try:
            return open_fetch(request, context)
        except ManyPartitions as many:
            assert isinstance(many.session.targets, ManyTargets)
            return fetch_of(request, context, many.session, many.session.targets.all(), is_incremental=False)
    if request.session_id != NO_SESSION:
        sessions.remove(request.session_id)
    targets: list[FetchTarget] = []
    turn = Turn()
    for asked in request.partitions:
        if turn.is_over():
            await turn.next()
        targets.append(FetchTarget(*asked))
    return fetch_of(request, context, None, targets, is_incremental=False)


async def _answer_many(
    fetch: Fetch, request: FetchRequest, context: RequestContext[FetchParts], restrict: Restrict | None
) -> Frame:
    """As `answer_request` answers a fetch, in several turns."""
    if restrict is not None:
        await restrict(fetch.reading)
    results = await fetch.reading.read_in_turns()
    if fetch.reading.is_unconfirmed:
        await context.broker.partitions.context.confirm_leadership()
        results = await fetch.reading.read_in_turns(after_wait=True)
    bytes_missing = fetch.min_bytes - fetch.reading.size
    if bytes_missing > 0 and request.max_wait_ms > 0 and not fetch.reading.must_answer_now:
        wait_seconds = request.max_wait_ms / 1000
        if await _wait_for_more(
            fetch, results, context, bytes_missing=bytes_missing, wait_seconds=wait_seconds
        ):
            results = await fetch.reading.read_in_turns(after_wait=True)
    async with Leftovers() as kept:
        if isinstance(fetch.reading.targets, list):
            kept.until_end(fetch.reading.targets)
        return await fetch.answer_in_turns(kept.until_end(results))


async def _wait_for_more(
    fetch: Fetch,
    results: list[Fetched],
    context: RequestContext[FetchParts],
    *,
    bytes_missing: int,
    wait_seconds: float,
) -> bool:
    """Wait until there is more to read, or the time is up. False when the purgatory takes no more."""
    if len(results) > FETCH_SESSION_PARTITIONS_MAX:
        return False
    ready = asyncio.Event()
    waiting = context.broker.purgatory.wait(
        fetch.reading.list_watched(results),
        bytes_missing=bytes_missing,
        wait_seconds=wait_seconds,
        on_ready=ready.set,
    )
    if waiting is None:
        return False
    try:
        # A task is not cancelled when its connection ends, so it looks.
        while not ready.is_set() and not getattr(context.connection, "is_lost", False):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ready.wait(), _LOST_LOOK_SECONDS)
    finally:
        waiting.cancel()
    return True
