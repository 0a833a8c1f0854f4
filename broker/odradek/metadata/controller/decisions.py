"""One decision at a time, each run to its end.

A decision writes to the registry and then changes the image. Its caller may be cancelled in between, when a connection
closes. If the decision ended there, the registry would hold what the image never gets. So it runs in a task of its own,
and its caller only waits for it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Concatenate, ParamSpec, Protocol, Self, TypeVar

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D", bound="Decider")


class Decisions:
    """Runs decisions in their order: inherit it, and mark methods with `decision`."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._under_way: set[asyncio.Task[object]] = set()

    @property
    def decisions(self) -> Self:
        """Itself, as for every object with methods that are decisions."""
        return self

    async def make(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work` alone and to its end. Raises what it raises."""
        task = asyncio.get_running_loop().create_task(self._alone(work), name="controller/decision")
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_report)
            raise

    async def _alone(self, work: Callable[[], Awaitable[T]]) -> T:
        async with self._lock:
            return await work()


class Decider(Protocol):
    """An object with methods that are decisions, which run in the order of `decisions`."""

    @property
    def decisions(self) -> Decisions: ...


def _report(task: asyncio.Task[object]) -> None:
    """The caller no longer waits for the outcome, so a failure is at least logged."""
    if not task.cancelled() and task.exception() is not None:
        logger.warning("a decision whose caller no longer waits failed: %s", task.exception())


def decision(
    method: Callable[Concatenate[D, P], Coroutine[object, None, T]],
) -> Callable[Concatenate[D, P], Coroutine[object, None, T]]:
    """Let a method run alone and to its end."""

    @functools.wraps(method)
    async def decide(self: D, /, *args: P.args, **named: P.kwargs) -> T:
        return await self.decisions.make(lambda: method(self, *args, **named))

    return decide
