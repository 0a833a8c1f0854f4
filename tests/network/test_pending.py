"""An answer that comes later, as connections and tests read it."""

from __future__ import annotations

import asyncio

import pytest

from odradek.foundation.tasks import TaskOwner
from odradek.network.pending import Pending, when_ready


def test_it_is_settled_once_and_calls_back_at_once() -> None:
    reported: list[object] = []
    pending: Pending[bytes] = Pending()
    pending.when_settled(lambda done: reported.append(done.result()))
    pending.settle(b"first")
    pending.settle(b"second")
    pending.cancel()
    assert reported == [b"first"]
    pending.when_settled(lambda done: reported.append(done.cancelled()))
    assert reported == [b"first", False]


def test_what_is_given_up_has_no_answer() -> None:
    pending: Pending[bytes] = Pending()
    pending.cancel()
    pending.settle(b"late")
    assert pending.done() and pending.cancelled()
    with pytest.raises(asyncio.CancelledError):
        _ = pending.result()


def test_its_owner_learns_that_it_is_given_up_and_not_that_it_is_settled() -> None:
    given_up: list[str] = []
    for is_cancelled in (True, False):
        pending: Pending[bytes] = Pending()
        pending.when_cancelled(lambda: given_up.append("given up"))
        if is_cancelled:
            pending.cancel()
        pending.settle(b"x")
        pending.cancel()
    assert given_up == ["given up"]


async def test_settled_soon_is_the_next_turn() -> None:
    pending: Pending[bytes] = Pending()
    pending.settle_soon(b"x")
    assert not pending.done()
    assert await pending == b"x"
    assert await pending == b"x", "also when it is there"


async def test_a_waiting_caller_that_is_cancelled_gives_it_up() -> None:
    pending: Pending[bytes] = Pending()
    waiting = asyncio.ensure_future(_wait(pending))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert pending.cancelled()
    with pytest.raises(asyncio.CancelledError):
        await pending


async def _wait(pending: Pending[bytes]) -> object:
    return await pending


def test_what_is_made_of_it_passes_in_the_order_of_the_steps() -> None:
    pending: Pending[int] = Pending()
    made = pending.then(lambda number: number + 1).then(lambda number: f"{number}!")
    pending.settle(1)
    assert made.result() == "2!"
    assert made.then(len).result() == 2, "also when it is there"


def test_an_error_goes_to_the_first_step_that_takes_errors() -> None:
    for raised_by_step in (False, True):
        pending: Pending[int] = Pending()

        def respond(number: int) -> int:
            raise ValueError("wrong")

        made = pending.then(respond).then(lambda number: number, failed=lambda error: len(str(error)))
        if raised_by_step:
            pending.settle(1)
        else:
            pending.fail(ValueError("wrong"))
        assert made.result() == 5
    pending = Pending()
    pending.fail(ValueError("wrong"))
    with pytest.raises(ValueError, match="wrong"):
        pending.result()


def test_a_cancelled_answer_passes_no_step() -> None:
    passed: list[object] = []
    pending: Pending[int] = Pending()
    made = pending.then(passed.append, failed=passed.append)
    pending.cancel()
    assert made.cancelled()
    assert not passed


async def test_work_is_run_by_its_owner_and_to_its_end() -> None:
    finished: list[str] = []

    async def change() -> bytes:
        await asyncio.sleep(10)
        finished.append("change")
        raise ValueError("too late")

    tasks = TaskOwner("test")
    pending = Pending(change())
    pending.start(tasks, lambda _: finished.append("told"))
    await asyncio.sleep(1)
    pending.cancel()
    assert not pending.done(), "a change is not stopped halfway"
    with pytest.raises(ValueError, match="too late"):
        await pending
    assert finished == ["change", "told"]
    future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    waiting = Pending(future)
    waiting.cancel()
    assert future.cancelled()
    await tasks.close()


async def test_what_is_there_is_answered_at_once() -> None:
    async def later() -> int:
        return 2

    assert when_ready(1, str) == "1"
    answer = when_ready(later(), str)
    assert isinstance(answer, Pending)
    assert await answer == "2"
