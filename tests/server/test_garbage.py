"""Searches for garbage among all objects wait for a moment without long work, and for no longer than is allowed."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Iterator
from weakref import ref

import pytest

from odradek.server.garbage import (
    LOOK_SECONDS,
    PUT_OFF_SECONDS_MAX,
    SEARCHES_OF_YOUNG_MIN,
    searches_at_quiet_moments,
)
from tests.support.loop import run

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="all searches of this Python are short")


@pytest.fixture(autouse=True)
def same_settings_afterwards() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    assert gc.get_threshold() == before
    gc.freeze()  # as at the beginning of the run


class _Circle:
    def __init__(self) -> None:
        self.itself = self


def _old_garbage() -> ref[_Circle]:
    """A circle that only a search of all objects finds: younger ones have seen it while it was held."""
    circle = _Circle()
    gc.collect(1)
    gc.collect(1)
    return ref(circle)


def _count_searches_of_young() -> None:
    """So many that Python would begin a search of all objects."""
    for _ in range(2 * SEARCHES_OF_YOUNG_MIN):
        gc.collect(1)


def _play(story: Callable[[], Awaitable[None]], is_at_long_work: Callable[[], bool]) -> None:
    async def inside() -> None:
        async with searches_at_quiet_moments(is_at_long_work):
            await story()

    run(inside())


def test_python_begins_no_search_of_all_objects_by_itself() -> None:
    async def story() -> None:
        assert gc.get_threshold()[2] > 1_000_000

    _play(story, lambda: False)


def test_old_garbage_is_found_once_enough_was_created() -> None:
    async def story() -> None:
        garbage = _old_garbage()
        await asyncio.sleep(10 * LOOK_SECONDS)
        assert garbage() is not None
        _count_searches_of_young()
        await asyncio.sleep(2 * LOOK_SECONDS)
        assert garbage() is None

    _play(story, lambda: False)


def test_long_work_puts_a_search_off() -> None:
    work = [True]

    async def story() -> None:
        garbage = _old_garbage()
        _count_searches_of_young()
        await asyncio.sleep(PUT_OFF_SECONDS_MAX / 2)
        assert garbage() is not None
        work.clear()
        await asyncio.sleep(2 * LOOK_SECONDS)
        assert garbage() is None

    _play(story, lambda: bool(work))


def test_long_work_without_end_does_not_put_a_search_off_for_ever() -> None:
    async def story() -> None:
        garbage = _old_garbage()
        _count_searches_of_young()
        await asyncio.sleep(PUT_OFF_SECONDS_MAX + 2 * LOOK_SECONDS)
        assert garbage() is None

    _play(story, lambda: True)


def test_a_search_that_has_left_many_puts_the_next_one_off() -> None:
    before = gc.get_threshold()

    async def story() -> None:
        kept = [[number] for number in range(20_000)]
        _count_searches_of_young()
        await asyncio.sleep(2 * LOOK_SECONDS)
        garbage = _old_garbage()
        _count_searches_of_young()
        await asyncio.sleep(2 * LOOK_SECONDS)
        assert garbage() is not None
        for _ in range(len(kept) // 400):  # each may have left a hundred more: a quarter of them all
            gc.collect(1)
        await asyncio.sleep(2 * LOOK_SECONDS)
        assert garbage() is None

    gc.set_threshold(50, 2, 3)
    try:
        _play(story, lambda: False)
    finally:
        gc.set_threshold(*before)
