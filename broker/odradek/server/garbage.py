"""Searches for garbage among all objects, at moments when few of them are held.

Python's search holds up all threads while it visits each object. It begins when many were created, and that is when
large requests are held: a million elements take 100 ms. Here one begins once no long work is under way, or has waited
for too long. Where it leaves many, the next one waits until there may be a quarter more, as in Python.

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
SEARCHES_OF_YOUNG_MIN: Final = 10
_SHARE_ADDED: Final = 4
"""A quarter."""
_NEVER: Final = 2**31 - 1


@asynccontextmanager
async def searches_at_quiet_moments(is_at_long_work: Callable[[], bool]) -> AsyncIterator[None]:
    """Inside, no search of all objects begins while `is_at_long_work` says so. What is there now is visited by none."""
    gc.freeze()
    if sys.version_info >= (3, 14):
        yield
        return
    thresholds = gc.get_threshold()
    gc.set_threshold(thresholds[0], thresholds[1], _NEVER)
    owner = TaskOwner("garbage")
    added_max = max(1, thresholds[0] * thresholds[1])
    owner.start(_search_when_quiet(is_at_long_work, added_max=added_max), name="searches")
    try:
        yield
    finally:
        await owner.close()
        gc.set_threshold(*thresholds)


async def _search_when_quiet(is_at_long_work: Callable[[], bool], *, added_max: int) -> None:
    """Search after some searches among younger objects, each of which leaves `added_max` more at most."""
    searches_due = SEARCHES_OF_YOUNG_MIN
    put_off_seconds = 0.0
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if gc.get_count()[2] <= searches_due:
            continue
        if is_at_long_work() and put_off_seconds < PUT_OFF_SECONDS_MAX:
            put_off_seconds += LOOK_SECONDS
            continue
        put_off_seconds = 0.0
        gc.collect()
        left = len(gc.get_objects(generation=2))
        searches_due = max(SEARCHES_OF_YOUNG_MIN, left // (_SHARE_ADDED * added_max))
