"""Searches for garbage among all objects, at moments when few of them are held.

Python's search holds up all threads while it visits each object. It begins when many were created, and that is when
large requests are held: a million elements take 100 ms. Here one begins once no long work is under way, or has waited
for too long. What it leaves is not visited again until there is a quarter more of it, as in Python.

Searches among young objects stay Python's own: they are short. From 3.14 on, all its searches are.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from odradek.foundation.tasks import TaskOwner

LOOK_SECONDS: Final = 1.0
PUT_OFF_SECONDS_MAX: Final = 30.0
_GROWTH: Final = 1.25
_NEVER: Final = 2**31 - 1


@asynccontextmanager
async def searches_at_quiet_moments(is_at_long_work: Callable[[], bool]) -> AsyncIterator[None]:
    """Inside, no search of all objects begins while `is_at_long_work` says so. What is there now counts as old."""
    gc.freeze()
    if sys.version_info >= (3, 14):
        yield
        return
    thresholds = gc.get_threshold()
    gc.set_threshold(thresholds[0], thresholds[1], _NEVER)
    owner = TaskOwner("garbage")
    owner.start(_search_when_quiet(is_at_long_work, searches_of_young=thresholds[2]), name="searches")
    try:
        yield
    finally:
        await owner.close()
        gc.set_threshold(*thresholds)


async def _search_when_quiet(is_at_long_work: Callable[[], bool], *, searches_of_young: int) -> None:
    """Search when Python would, by the number of searches among younger objects, or as soon after as is allowed."""
    old = gc.get_freeze_count()
    put_off_seconds = 0.0
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if gc.get_count()[2] <= searches_of_young:
            continue
        if is_at_long_work() and put_off_seconds < PUT_OFF_SECONDS_MAX:
            put_off_seconds += LOOK_SECONDS
            continue
        put_off_seconds = 0.0
        old = _search(old)


def _search(old: int) -> int:
    """Search among what is new, or among all where the old has grown by a quarter. Returns how many are old then."""
    has_grown = gc.get_freeze_count() > old * _GROWTH
    if has_grown:
        gc.unfreeze()
    gc.collect()
    gc.freeze()
    return gc.get_freeze_count() if has_grown else old
