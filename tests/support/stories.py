"""How tests that await are run: an `async def test_…` on virtual time, and with a decorator in what it names.

    async def test_a_topic_is_made() -> None:               # on virtual time
    @in_real_time
    async def test_a_socket_closes() -> None:               # on a loop of asyncio
    @told_by(in_world, topics={"t": 2})
    async def test_a_member_joins(world: World) -> None:    # `in_world(story, topics=…)` gives the first argument

Further arguments are fixtures and parameters, as in any other test. `tests.support.pytest_hooks` runs the first kind.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from tests.support import loop

Story = Callable[..., Coroutine[Any, Any, None]]


def in_virtual_time(story: Story) -> Callable[..., None]:
    """The same as without it; for what cannot call coroutine functions, as Hypothesis cannot."""

    @functools.wraps(story)
    def test(*given: Any, **named: Any) -> None:
        loop.run(story(*given, **named))

    return test


def in_real_time(story: Story) -> Callable[..., None]:
    """A test on a loop of asyncio."""

    @functools.wraps(story)
    def test(*given: Any, **named: Any) -> None:
        asyncio.run(story(*given, **named))

    return test


def told_by(runner: Callable[..., Any], *rest: Any, gives: int = 1, **more: Any) -> Callable[[Story], Any]:
    """A test that `runner(story, *rest, **more)` runs; it gives the story its first `gives` arguments."""

    def decorate(story: Story) -> Callable[..., None]:
        @functools.wraps(story)
        def test(*given: Any, **named: Any) -> None:
            def told(*own: Any) -> Any:
                return story(*own, *given, **named)

            runner(told, *rest, **more)

        signature = inspect.signature(story)
        asked = list(signature.parameters.values())[gives:]
        test.__signature__ = signature.replace(parameters=asked)  # type: ignore[attr-defined]
        return test

    return decorate
