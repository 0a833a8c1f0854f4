"""The event loops that the product runs on, for tests that ask the same of each.

@on_each_loop
async def test_a_handshake_has_a_time_limit() -> None:
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.support.loop import to_the_end
from tests.support.polling import SECONDS_MAX
from tests.support.stories import Story, told_by

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


def _play(make_loop: MakeLoop, story: Callable[[], Any]) -> None:
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(to_the_end(asyncio.wait_for(story(), SECONDS_MAX)))


def _on(loops: dict[str, MakeLoop]) -> Callable[[Story], Any]:
    given = pytest.mark.parametrize("make_loop", loops.values(), ids=list(loops))
    return lambda story: given(told_by(_play, gives=0, asks=("make_loop",))(story))


on_each_loop: Final = _on(LOOPS)
on_each_loop_and_poll: Final = _on({**LOOPS, "poll": asyncio_over_poll})
