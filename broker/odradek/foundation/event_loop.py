"""The fastest event loop that is installed: uvloop's, or asyncio's over what the system has (epoll, kqueue, poll).

uvloop has no wheel for every system and every new Python. What runs on a loop behaves the same on both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(main: Coroutine[object, None, T]) -> T:
    """As asyncio.run, on such a loop."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
