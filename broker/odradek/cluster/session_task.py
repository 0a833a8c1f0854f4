"""What registration and election have in common: a task that keeps something which a session of the registry holds.

The task looks whenever something may have changed: at its start, when the node it watches changes, when the session is
connected again. It opens a new session where the old one has expired. What was held is given up at once when the
session expires, and when this process stood still for the session's timeout: by then it may have expired without our
knowing. It is given up as well when the registry was silent for that long, unless a subclass knows better
(`_went_silent`). Looking again then says whether it did.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from odradek.cluster.store import SessionState, Store
from odradek.foundation.errors import StoreConnectionLost, StoreError, StoreSessionExpired
from odradek.foundation.tasks import TaskOwner

logger = logging.getLogger(__name__)

# Between two looks that the registry did not answer although it seemed to be there.
_RETRY_SECONDS: Final = 0.2
# How often in a session's timeout it is looked whether this process stood still (SIGSTOP, a machine without memory).
_BEATS_PER_TIMEOUT: Final = 4


class SessionTask:
    """One task, from `start_looking` to `stop_looking`. Subclasses say what it looks at, and what giving up means."""

    def __init__(self, store: Store, *, path: str, name: str) -> None:
        self._store = store
        self._path = path
        self._name = name
        self._tasks: TaskOwner | None = None
        self._disturbed = asyncio.Event()
        self._silence: asyncio.TimerHandle | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._forget: list[Callable[[], None]] = []

    async def _look(self) -> None:
        """Compare what should be with what is, and mend it. May raise StoreError: it is called again."""
        raise NotImplementedError

    def _lose(self, reason: str) -> None:
        """What was held cannot be relied on any more; nothing to do when nothing was held."""
        raise NotImplementedError

    def _went_silent(self, reason: str) -> None:
        """The registry has been silent for the session's timeout, and the session may be over."""
        self._lose(reason)

    # --- the task ------------------------------------------------------------------------------------------------

    def _start_looking(self) -> None:
        self._forget = [
            self._store.on_session_change(self._session_changed),
            self._store.watch(self._path, lambda path: self._disturbed.set()),
        ]
        self._disturbed.set()
        timeout_seconds = self._store.session_timeout_seconds
        if timeout_seconds is not None:
            self._set_beat(timeout_seconds)
        self._tasks = TaskOwner(self._name)
        self._tasks.start(self._run(), name="look")

    async def _stop_looking(self) -> None:
        for forget in self._forget:
            forget()
        self._forget = []
        self._end_silence()
        self._end_beat()
        if self._tasks is not None:
            await self._tasks.close()
            self._tasks = None

    def _look_no_more(self) -> None:
        """From within `_look`: this was the last look."""
        for forget in self._forget:
            forget()
        self._forget = []
        self._end_silence()
        self._end_beat()

    async def _run(self) -> None:
        while self._forget:
            await self._disturbed.wait()
            self._disturbed.clear()
            if self._store.session_state is SessionState.CLOSED:
                return
            if self._store.session_state is SessionState.SUSPENDED:
                continue  # looked at when it is there again
            try:
                await self._store.reopen()
                await self._look()
            except (StoreConnectionLost, StoreSessionExpired) as error:
                logger.info("%s: the registry did not answer: %s", self._name, error)
                await asyncio.sleep(_RETRY_SECONDS)
                self._disturbed.set()
            except StoreError as error:
                logger.error("%s: the registry refuses: %s", self._name, error)
                await asyncio.sleep(_RETRY_SECONDS)
                self._disturbed.set()

    def _check_session(self, session_id: int) -> None:
        """After a write that `session_id` made: raises when it may already be gone with its session."""
        if self._store.session_state is not SessionState.CONNECTED or self._store.session_id != session_id:
            raise StoreConnectionLost("the session with the registry was disturbed meanwhile; look again")

    # --- the session ---------------------------------------------------------------------------------------------

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.SUSPENDED:
            timeout_seconds = self._store.session_timeout_seconds
            if timeout_seconds is not None and self._silence is None:
                loop = asyncio.get_running_loop()
                self._silence = loop.call_later(timeout_seconds, self._was_silent, timeout_seconds)
            return
        self._end_silence()
        if state is SessionState.EXPIRED:
            self._lose("the registry gave the session up")
        elif state is SessionState.CLOSED:
            self._lose("the registry was closed")
        self._disturbed.set()

    def _was_silent(self, seconds: float) -> None:
        self._silence = None
        self._went_silent(f"the registry has not answered for {seconds:g} s, so the session may be over")

    def _end_silence(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None

    # --- this process ------------------------------------------------------------------------------------------------

    def _set_beat(self, timeout_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._beat = loop.call_later(
            timeout_seconds / _BEATS_PER_TIMEOUT, self._was_beat, loop.time(), timeout_seconds
        )

    def _was_beat(self, before: float, timeout_seconds: float) -> None:
        """The registry may be silent when this process goes on, so that nobody else would say what has become of the
        session, and all that time it would act as one who has it.
        """
        still_seconds = asyncio.get_running_loop().time() - before
        self._set_beat(timeout_seconds)
        if still_seconds > timeout_seconds:
            self._lose(f"this process stood still for {still_seconds:.1f} s, so the session may be over")
            self._disturbed.set()

    def _end_beat(self) -> None:
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None

    def _tell(self, callback: Callable[[], object]) -> None:
        """Call the owner; what it raises is its own trouble, and ends nothing here."""
        try:
            callback()
        except Exception:
            logger.exception("%s: %r failed", self._name, callback)
