"""Keeps the watches of each namespace alive, and knows which of them live.

Each namespace is watched by itself (`main.watching`). When its watches end, or one has had no answer for too long, they
are begun again after a pause that doubles. A namespace that the API server refuses is left out until it allows again:
its Role is gone, or the namespace. A metric, an event and the log name it.

    | what                                   | readiness        | the process                             |
    | -------------------------------------- | ---------------- | --------------------------------------- |
    | every watch had an answer of late      | ready            | leads                                   |
    | a namespace is refused, others are not | ready            | leads, and asks the namespace again     |
    | a watch had none, and no refusal       | not ready        | leads, and begins these watches again   |
    | no watch of any namespace had any      | not ready        | ends, so that another one has the Lease |
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from functools import partial
from typing import Final

from odradek.foundation.metrics import Sample
from odradek.foundation.tasks import TaskOwner
from odradek_operator.foundation.metrics import NAMESPACE_LEFT_OUT, WATCH_SILENT_SECONDS
from odradek_operator.gateways.kubernetes import Api, EventType

logger = logging.getLogger(__name__)

WATCH_SECONDS: Final = 60
"""The length of one request of a watch. The next one shows whether the watch is allowed still."""
INACTIVE_SECONDS_MAX: Final = 70
"""A request of a watch that brings nothing for so long, not even its end, is on a dead connection."""
SILENT_SECONDS_MAX: Final = 150.0
"""A watch lives if the API server has answered a request of it within this time: both of the above, and a margin."""
PAUSE_SECONDS_MIN: Final = 1.0
PAUSE_SECONDS_MAX: Final = 60.0
REMINDER_SECONDS: Final = 600.0
_REFUSED: Final = (403, 404)
_OK_MAX: Final = 299

NoteAnswer = Callable[[Api, int], None]
"""Takes the HTTP status of an answer to a watch of a kind, or to the list that it begins with."""
Watch = Callable[[str | None, NoteAnswer], Awaitable[None]]
"""Watches all kinds in one namespace, or in all of them (None), until cancelled. Raises what the watches end with."""
Report = Callable[[EventType, str, str], Coroutine[object, None, None]]
"""Records an event: its type, reason and message."""


class WatchesEnded(Exception):
    """No event would arrive any more in this process."""


class NamespaceState:
    """The watches of one namespace: when each kind's had its last answer, and why the namespace is left out if it is.

    Times are those of the event loop.
    """

    def __init__(self, namespace: str | None, kinds: Collection[Api]) -> None:
        self.namespace = namespace
        self.label = "all namespaces" if namespace is None else f"the namespace {namespace}"
        self.left_out: str | None = None
        self.is_refused = False
        self.reported_at = float("-inf")
        self.answered_at: dict[Api, float | None] = dict.fromkeys(kinds)
        self._deadline: asyncio.Timeout | None = None
        self._begun_at = _now()
        self._answers: dict[Api, int] = {}

    @contextlib.asynccontextmanager
    async def attempt(self) -> AsyncIterator[None]:
        """Watches that are begun and run in here. Raises TimeoutError when one is refused, or silent for too long."""
        self._begun_at = _now()
        self._answers.clear()
        try:
            async with asyncio.timeout_at(self._begun_at + SILENT_SECONDS_MAX) as self._deadline:
                yield
        finally:
            self._deadline = None

    def note_answer(self, api: Api, status: int) -> None:
        if self._deadline is None or self._deadline.expired():
            return
        self._answers[api] = status
        if status <= _OK_MAX:
            self.answered_at[api] = _now()
        times = (max(time or self._begun_at, self._begun_at) for time in self.answered_at.values())
        self._deadline.reschedule(_now() if self.refusal else min(times) + SILENT_SECONDS_MAX)

    @property
    def refusal(self) -> str | None:
        """What the API server refuses, since the watches were begun."""
        for api, status in self._answers.items():
            if status in _REFUSED:
                return f"the API server answers {status} for {api.plural}"
        return None

    @property
    def is_whole(self) -> bool:
        """Whether every watch had a good answer since they were begun."""
        return len(self._answers) == len(self.answered_at) and max(self._answers.values()) <= _OK_MAX

    @property
    def last_answer_at(self) -> float:
        return max((time for time in self.answered_at.values() if time is not None), default=float("-inf"))

    def find_silent_watch(self) -> str | None:
        for api, time in self.answered_at.items():
            if time is None:
                return f"the watch of {api.plural} in {self.label} is not up yet"
            if _now() - time >= SILENT_SECONDS_MAX:
                return f"the watch of {api.plural} in {self.label} had no answer for {_now() - time:.0f} s"
        return None


class NamespaceWatches:
    """The watches of `kinds` in the namespaces; none stands for all. Must be made on the loop."""

    def __init__(
        self, namespaces: Sequence[str], kinds: Collection[Api], *, watch: Watch, report: Report
    ) -> None:
        self._states = [NamespaceState(namespace, kinds) for namespace in namespaces or (None,)]
        self._watch = watch
        self._report = report
        self._tasks = TaskOwner("watches")

    async def run(self) -> None:
        """Watch until cancelled. Raises WatchesEnded when no watch lives, or one cannot be ended."""
        try:
            kept = [
                self._tasks.start(self._keep(state), name=f"watch {state.label}") for state in self._states
            ]
            ending = self._tasks.start(self._end_when_deaf(), name="end when no watch lives")
            ended, _ = await asyncio.wait({*kept, ending}, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            await self._tasks.close()

    def find_problem(self) -> str | None:
        """Why the process is not ready, or None."""
        counted = [state for state in self._states if not state.is_refused]
        if not counted:
            return f"no namespace may be watched: {self._states[0].left_out}"
        return next(filter(None, (state.find_silent_watch() for state in counted)), None)

    def samples(self) -> Iterator[Sample]:
        for state in self._states:
            namespace = state.namespace or ""
            yield NAMESPACE_LEFT_OUT.sample(int(state.left_out is not None), namespace)
            for api, time in state.answered_at.items():
                if time is not None:
                    yield WATCH_SILENT_SECONDS.sample(_now() - time, api.kind, namespace)

    async def _keep(self, state: NamespaceState) -> None:
        pause = PAUSE_SECONDS_MIN
        while True:
            problem = await self._attempt(state)
            if state.is_whole:
                pause = PAUSE_SECONDS_MIN
            self._leave_out(state, problem)
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    async def _attempt(self, state: NamespaceState) -> str:
        """Watch one namespace until that ends; why it did."""
        try:
            async with state.attempt():
                await self._watch(state.namespace, partial(self._note_answer, state))
        except WatchesEnded:
            raise
        except TimeoutError:
            return f"a watch had no answer for {SILENT_SECONDS_MAX:.0f} s"
        except Exception as failure:
            return f"{type(failure).__name__}: {failure}"
        return "the watches ended by themselves"

    def _note_answer(self, state: NamespaceState, api: Api, status: int) -> None:
        state.note_answer(api, status)
        if state.left_out is not None and state.is_whole:
            state.left_out, state.is_refused, state.reported_at = None, False, float("-inf")
            logger.info("%s is watched again", state.label)
            self._record(EventType.NORMAL, "Watched", f"{state.label} is watched again")

    def _leave_out(self, state: NamespaceState, problem: str) -> None:
        state.left_out = reason = state.refusal or problem
        state.is_refused = state.refusal is not None
        if _now() - state.reported_at < REMINDER_SECONDS:
            return
        state.reported_at = _now()
        told = f"{state.label} is left out: {reason}"
        if state.is_refused:
            told += "; give the operator its Role there, or take the namespace out of watch.namespaces"
        logger.warning("%s", told)
        self._record(EventType.WARNING, "NotWatched", told)

    def _record(self, type: EventType, reason: str, message: str) -> None:
        self._tasks.start(self._report(type, reason, message), name="report")

    async def _end_when_deaf(self) -> None:
        began = _now()
        while True:
            last = max(began, *(state.last_answer_at for state in self._states))
            if _now() - last >= SILENT_SECONDS_MAX:
                reasons = {state.left_out for state in self._states if state.left_out} or {"no answer"}
                raise WatchesEnded(
                    f"no watch had an answer for {SILENT_SECONDS_MAX:.0f} s: {', '.join(sorted(reasons))}"
                )
            await asyncio.sleep(last + SILENT_SECONDS_MAX - _now())


def _now() -> float:
    return asyncio.get_running_loop().time()
