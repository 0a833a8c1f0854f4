"""Requests that wait for replicas: answered once, in time, and never more of them than the bound."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from odradek.broker.replication.acknowledgements import Acknowledgements, Waiters
from odradek.foundation.errors import NotLeaderOrFollower, RequestTimedOut

Outcome = Mapping[Waiters, Exception]


class Recorder:
    """Records the outcomes of a request, and when."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.at_seconds = -1.0

    def __call__(self, outcome: Outcome) -> None:
        self.outcomes.append(dict(outcome))
        self.at_seconds = asyncio.get_running_loop().time()


async def test_a_request_waits_for_all_its_places() -> None:
    waiting = Acknowledgements(waiting_max=10)
    one, other, recorder = Waiters(), Waiters(), Recorder()
    waiting.wait({one: 3, other: 5}, timeout_seconds=10, on_done=recorder)
    one.release(2)
    other.release(5)
    assert recorder.outcomes == [] and len(waiting) == 1
    one.release(3)
    assert recorder.outcomes == [{}] and not waiting and not one and not other
    await asyncio.sleep(20)
    assert recorder.outcomes == [{}]


async def test_one_that_fails_is_reported_with_the_others() -> None:
    waiting = Acknowledgements(waiting_max=10)
    one, other, recorder = Waiters(), Waiters(), Recorder()
    waiting.wait({one: 3, other: 5}, timeout_seconds=10, on_done=recorder)
    why = NotLeaderOrFollower("gone")
    one.fail(why)
    assert recorder.outcomes == []
    other.release(9)
    assert recorder.outcomes == [{one: why}]


@pytest.mark.parametrize("seconds", [0, 0.01, 0.5, 30])
async def test_the_time_limit_is_kept_by_one_timer_for_all(seconds: float) -> None:
    waiting = Acknowledgements(waiting_max=1000)
    place = Waiters()
    started = asyncio.get_running_loop().time()
    late, later = Recorder(), Recorder()
    for number in range(100):
        waiting.wait({place: 5}, timeout_seconds=seconds + 1 + number, on_done=later)
    waiting.wait({place: 5}, timeout_seconds=seconds, on_done=late)
    await asyncio.sleep(seconds + 0.06)
    (outcome,) = late.outcomes
    assert isinstance(outcome[place], RequestTimedOut)
    assert seconds <= late.at_seconds - started <= seconds + 0.05 + 1e-6
    assert not later.outcomes and len(waiting) == len(place) == 100
    await asyncio.sleep(101)
    assert len(later.outcomes) == 100 and not waiting and not place


async def test_the_timer_continues_after_earlier_answers() -> None:
    waiting = Acknowledgements(waiting_max=10)
    one, other = Waiters(), Waiters()
    early, late = Recorder(), Recorder()
    waiting.wait({one: 1}, timeout_seconds=1, on_done=early)
    waiting.wait({other: 1}, timeout_seconds=2, on_done=late)
    one.release(1)
    await asyncio.sleep(3)
    assert early.outcomes == [{}] and len(late.outcomes) == 1
    after = Recorder()
    waiting.wait({other: 1}, timeout_seconds=1, on_done=after)
    await asyncio.sleep(1.1)
    assert len(after.outcomes) == 1


async def test_a_cancelled_request_is_not_called_and_leaves_nothing() -> None:
    waiting = Acknowledgements(waiting_max=10)
    place, recorder = Waiters(), Recorder()
    request = waiting.wait({place: 1}, timeout_seconds=1, on_done=recorder)
    assert request is not None
    request.cancel()
    request.cancel()
    assert not waiting and not place
    place.release(1)
    await asyncio.sleep(2)
    assert recorder.outcomes == []


async def test_one_answer_may_cancel_the_next_in_line() -> None:
    waiting = Acknowledgements(waiting_max=10)
    place, recorder = Waiters(), Recorder()
    waiting.wait({place: 1}, timeout_seconds=1, on_done=lambda _: second.cancel())  # type: ignore[union-attr]
    second = waiting.wait({place: 1}, timeout_seconds=1, on_done=recorder)
    place.release(1)
    assert recorder.outcomes == [] and not waiting


async def test_there_are_never_more_than_allowed_and_a_stop_answers_all() -> None:
    waiting = Acknowledgements(waiting_max=2)
    place, recorder = Waiters(), Recorder()
    requests = [waiting.wait({place: 1}, timeout_seconds=60, on_done=recorder) for _ in range(3)]
    assert [request is None for request in requests] == [False, False, True]
    waiting.close()
    assert len(recorder.outcomes) == 2 and not waiting and not place


async def test_watermarks_release_in_order_or_by_due_time() -> None:
    waiting = Acknowledgements(waiting_max=10)
    place = Waiters()
    first, second = Recorder(), Recorder()
    waiting.wait({place: 7}, timeout_seconds=60, on_done=first)
    waiting.wait({place: 4}, timeout_seconds=60, on_done=second)
    place.release_any(5)
    assert (len(first.outcomes), len(second.outcomes)) == (0, 1)
    place.release(7)
    assert len(first.outcomes) == 1
    waiting.close()
