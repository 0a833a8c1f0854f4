"""What was asked of a cluster, shared by all viewers.

A fact is asked again when a viewer wants it and it is old. A hundred viewers cost a cluster as much as one, and without
viewers nothing is asked. The time until the next question grows with the work of the last one, so a cluster of 10,000
partitions is asked less often. A failure is a fact, too: a broker that does not answer is not asked again by each
viewer.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from odradek.client.errors import ClientClosed
from odradek.foundation.console_limits import CONSOLE_DETAILS_KEPT_MAX, CONSOLE_REST_FACTOR
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import OdradekError
from odradek.foundation.tasks import TaskOwner

T = TypeVar("T")

_CLOSED = "this login has ended, or the console stops"


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """A fact, and when it was asked, in ms since 1970."""

    value: T
    asked_ms: int


class SharedFact(Generic[T]):
    """One fact. `ask` is called at most every `seconds_min`, by one task for all that wait."""

    def __init__(
        self,
        name: str,
        ask: Callable[[], Awaitable[T]],
        *,
        tasks: TaskOwner,
        seconds_min: float,
        spent: Callable[[], float] = time.process_time,
    ) -> None:
        """`spent` gives the processor's time of this process in seconds."""
        self._name = name
        self._ask = ask
        self._tasks = tasks
        self._seconds_min = seconds_min
        self._spent = spent
        self._question: asyncio.Task[Known[T] | OdradekError | OSError] | None = None
        # When its answer is old; none is while it is under way.
        self._old_at = float("inf")

    async def get(self) -> Known[T]:
        """The fact as it is known, or as the cluster answers now. Raises why it could not be had."""
        if self._tasks.is_closed:
            raise ClientClosed(_CLOSED)
        if self._question is None or asyncio.get_running_loop().time() >= self._old_at:
            self._old_at = float("inf")
            self._question = self._tasks.start(self._refresh(), name=self._name)
        question = self._question
        try:
            # A viewer that goes away does not end the question of the others.
            outcome = await asyncio.shield(question)
        except asyncio.CancelledError:
            if question.cancelled():
                raise ClientClosed(_CLOSED) from None
            raise
        if isinstance(outcome, Known):
            return outcome
        # Each viewer of a failure would add its own to the trace.
        raise without_trace(outcome)

    def forget(self) -> None:
        """Ask again at the next call: the cluster was changed. A question under way may have missed that."""
        self._question = None

    async def _refresh(self) -> Known[T] | OdradekError | OSError:
        before, asked_ms = self._spent(), time.time_ns() // 1_000_000
        try:
            return Known(await self._ask(), asked_ms)
        except (OdradekError, OSError) as failure:
            return failure
        finally:
            if self._question is asyncio.current_task():
                rest = max(self._seconds_min, CONSOLE_REST_FACTOR * (self._spent() - before))
                self._old_at = asyncio.get_running_loop().time() + rest


class SharedDetails(Generic[T]):
    """One fact for each name, as of a topic or a group. Of too many, those that were not wanted for longest go."""

    def __init__(
        self,
        name: str,
        ask: Callable[[str], Awaitable[T]],
        *,
        tasks: TaskOwner,
        seconds_min: float,
        kept_max: int = CONSOLE_DETAILS_KEPT_MAX,
    ) -> None:
        self._name = name
        self._ask = ask
        self._tasks = tasks
        self._seconds_min = seconds_min
        self._kept_max = kept_max
        self._facts: OrderedDict[str, SharedFact[T]] = OrderedDict()

    async def get(self, key: str) -> Known[T]:
        """The fact for this name. Raises why it could not be had."""
        fact = self._facts.get(key)
        if fact is None:
            fact = self._facts[key] = SharedFact(
                self._name, partial(self._ask, key), tasks=self._tasks, seconds_min=self._seconds_min
            )
            while len(self._facts) > self._kept_max:
                self._facts.popitem(last=False)
        self._facts.move_to_end(key)
        return await fact.get()

    def forget(self) -> None:
        """Ask again for each name."""
        self._facts.clear()
