"""Waiting until something is so: one way to wait, one bound, and a failure that shows what was not so.

`wait_until` and `eventually` (for coroutines) read again and again. What is read may be a condition, or any value with
`wanted` as its condition. Time is the loop's own where one runs, so waiting on virtual time takes none.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, overload

Seen = TypeVar("Seen")

# What takes a second takes half a minute on a machine with sixteen runnable processes a core and some that are stopped.
SECONDS_MAX: Final = 180.0
PAUSE_SECONDS: Final = 0.05
_SHOWN_CHARACTERS_MAX: Final = 5_000


def wait_until(
    what: str,
    read: Callable[[], Seen],
    wanted: Callable[[Seen], object] = bool,
    *,
    seconds_max: float = SECONDS_MAX,
    pause_seconds: float = PAUSE_SECONDS,
    not_yet: type[Exception] | tuple[type[Exception], ...] = (),
    more: Callable[[], object] | None = None,
) -> Seen:
    """What `read` gives once that is `wanted`; errors of `not_yet` count as not wanted.

    Raises AssertionError after `seconds_max` with what was not so, the last value or error, and `more`, such as a log.
    """
    deadline = time.monotonic() + seconds_max
    while True:
        last: object
        try:
            last = seen = read()
            if wanted(seen):
                return seen
        except not_yet as error:
            last = error
        assert time.monotonic() < deadline, _failure(what, last, more, seconds_max)
        time.sleep(pause_seconds)


@overload
async def eventually(
    what: str,
    read: Callable[[], Awaitable[Seen]],
    wanted: Callable[[Seen], object] = bool,
    *,
    seconds_max: float = SECONDS_MAX,
    pause_seconds: float = PAUSE_SECONDS,
    not_yet: type[Exception] | tuple[type[Exception], ...] = (),
    more: Callable[[], object] | None = None,
) -> Seen: ...


@overload
async def eventually(
    what: str,
    read: Callable[[], Seen],
    wanted: Callable[[Seen], object] = bool,
    *,
    seconds_max: float = SECONDS_MAX,
    pause_seconds: float = PAUSE_SECONDS,
    not_yet: type[Exception] | tuple[type[Exception], ...] = (),
    more: Callable[[], object] | None = None,
) -> Seen: ...


async def eventually(
    what: str,
    read: Callable[[], Any],
    wanted: Callable[[Any], object] = bool,
    *,
    seconds_max: float = SECONDS_MAX,
    pause_seconds: float = PAUSE_SECONDS,
    not_yet: type[Exception] | tuple[type[Exception], ...] = (),
    more: Callable[[], object] | None = None,
) -> Any:
    """As `wait_until`, on the running loop and its time; `read` may be a coroutine function."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds_max
    while True:
        last: Any
        try:
            last = read()
            if inspect.isawaitable(last):
                last = await last
            if wanted(last):
                return last
        except not_yet as error:
            last = error
        assert clock() < deadline, _failure(what, last, more, seconds_max)
        await asyncio.sleep(pause_seconds)


def _failure(what: str, last: object, more: Callable[[], object] | None, seconds_max: float) -> str:
    shown = last[-_SHOWN_CHARACTERS_MAX:] if isinstance(last, str) else repr(last)[:_SHOWN_CHARACTERS_MAX]
    text = f"not within {seconds_max:g} s: {what}; last seen: {shown}"
    return text if more is None else f"{text}\n{str(more())[-_SHOWN_CHARACTERS_MAX:]}"
