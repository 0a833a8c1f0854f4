"""An answer that comes later, as connections and tests read it."""

from __future__ import annotations

import asyncio

import pytest

from odradek.transport.pending import PendingReply
from tests.support.loop import run


def test_it_is_settled_once_and_tells_at_once() -> None:
    told: list[object] = []
    pending = PendingReply()
    pending.when_settled(lambda done: told.append(done.result()))
    pending.settle(b"first")
    pending.settle(b"second")
    pending.cancel()
    assert told == [b"first"]
    pending.when_settled(lambda done: told.append(done.cancelled()))
    assert told == [b"first", False]


def test_what_is_given_up_has_no_answer() -> None:
    pending = PendingReply()
    pending.cancel()
    pending.settle(b"late")
    assert pending.done() and pending.cancelled()
    with pytest.raises(AssertionError):
        _ = pending.result()


def test_settled_soon_is_the_next_turn() -> None:
    async def story() -> None:
        pending = PendingReply()
        pending.settle_soon(None)
        assert not pending.done()
        assert await pending is None
        assert await pending is None, "also when it is there"

    run(story())


def test_a_waiting_caller_that_is_cancelled_gives_it_up() -> None:
    async def story() -> None:
        pending = PendingReply()
        waiting = asyncio.ensure_future(_wait(pending))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert pending.cancelled()
        with pytest.raises(asyncio.CancelledError):
            await pending

    run(story())


async def _wait(pending: PendingReply) -> object:
    return await pending
