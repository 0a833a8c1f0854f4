"""How tests that await are run: an `async def test_…` on virtual time, and with a decorator in what it names.

    async def test_a_topic_is_made() -> None:               # on virtual time
    @in_real_time
    async def test_a_socket_closes() -> None:               # on a loop of asyncio
    @told_by(in_world, topics={"t": 2})
    async def test_a_member_joins(world: World) -> None:    # `in_world(story, topics=…)` gives the first argument

Further arguments are fixtures and parameters, as in any other test. `tests.support.pytest_hooks` runs the first kind.
Brokers and clusters that a story starts in memory stop when it has passed (`loop.stop_at_end`).
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from tests.support import loop

Story = Callable[..., Coroutine[Any, Any, None]]


def in_real_time(story: Story) -> Callable[..., None]:
    """A test on a loop of asyncio."""

    @functools.wraps(story)
    def test(*given: Any, **named: Any) -> None:
        asyncio.run(loop.to_the_end(story(*given, **named)))

    return test


def told_by(
    runner: Callable[..., Any], *rest: Any, gives: int = 1, asks: Sequence[str] = (), **more: Any
) -> Callable[[Story], Any]:
    """A test that `runner(*asked, story, *rest, **more)` runs; it gives the story its first `gives` arguments.

    `asks` names fixtures and parameters that the runner takes first.
    """

    def decorate(story: Story) -> Callable[..., None]:
        parameters = list(inspect.signature(story).parameters.values())[gives:]
        own = {parameter.name for parameter in parameters}

        @functools.wraps(story)
        def test(*given: Any, **named: Any) -> None:
            def told(*first: Any) -> Any:
                return story(*first, *given, **{name: named[name] for name in named if name in own})

            runner(*(named[name] for name in asks), told, *rest, **more)

        added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in asks if name not in own]
        test.__signature__ = inspect.Signature([*parameters, *added])  # type: ignore[attr-defined]
        return test

    return decorate
