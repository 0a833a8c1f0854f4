"""The event loops that the product runs on, for tests that ask the same of each."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Final

MakeLoop = Callable[[], asyncio.AbstractEventLoop]


def asyncio_over_poll() -> asyncio.AbstractEventLoop:
    """The loop of a system with neither epoll nor kqueue."""
    return asyncio.SelectorEventLoop(selectors.PollSelector())


def _installed() -> dict[str, MakeLoop]:
    try:
        import uvloop
    except ImportError:
        return {"asyncio": asyncio.new_event_loop}
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


LOOPS: Final = _installed()
