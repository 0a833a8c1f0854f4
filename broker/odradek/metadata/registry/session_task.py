"""The common part of registration and election: a task that keeps an ephemeral node of a registry session.

The task reconciles whenever something may have changed: at its start, when the watched node changes, and when the
session is connected again. It opens a new session after the old one has expired. The node counts as lost when the
session expires, and when this process was stopped for the session's timeout: the session may have expired unnoticed.
It also counts as lost when the registry did not answer for that long, unless a subclass overrides `_on_silence`. The
next reconciliation finds out whether the session did expire.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from odradek.foundation.registry_errors import StoreConnectionLost, StoreError, StoreSessionExpired
from odradek.foundation.tasks import TaskOwner
from odradek.metadata.registry.store import SessionState, Store

logger = logging.getLogger(__name__)

# The pause between two attempts that a connected registry did not answer.
_RETRY_SECONDS: Final = 0.2
# How often in a session's timeout this process checks whether it was stopped (SIGSTOP, no memory left).
_LIVENESS_CHECKS_PER_TIMEOUT: Final = 4


class SessionTask:
    """One task, from `_start_reconciling` to `_stop_reconciling`. Subclasses define its reconciliation."""

    def __init__(self, store: Store, *, path: str, name: str) -> None:
        self._store = store
        self._path = path
        self._name = name
        self._tasks: TaskOwner | None = None
        self._wake = asyncio.Event()
        self._silence_timer: asyncio.TimerHandle | None = None
        self._liveness_timer: asyncio.TimerHandle | None = None
        self._unsubscribes: list[Callable[[], None]] = []

    @property
    def is_connected(self) -> bool:
        """Whether the registry answers this session at this moment."""
        return self._store.session_state is SessionState.CONNECTED

    async def _reconcile(self) -> None:
        """Compare the node with its wanted state, and correct it. May raise StoreError: it is called again."""
        raise NotImplementedError

    def _on_lost(self, reason: str) -> None:
        """Handle the possible loss of the node; do nothing if there was none."""
        raise NotImplementedError

    def _on_silence(self, reason: str) -> None:
        """The registry has been silent for the session's timeout, and the session may be over."""
        self._on_lost(reason)

    # --- the task ------------------------------------------------------------------------------------------------

    def _start_reconciling(self) -> None:
        self._unsubscribes = [
            self._store.on_session_change(self._session_changed),
            self._store.watch(self._path, lambda path: self._wake.set()),
        ]
        self._wake.set()
        timeout_seconds = self._store.session_timeout_seconds
        if timeout_seconds is not None:
            self._start_liveness_timer(timeout_seconds)
        self._tasks = TaskOwner(self._name)
        self._tasks.start(self._run(), name="reconcile")

    async def _stop_reconciling(self) -> None:
        self._end_reconciling()
        if self._tasks is not None:
            await self._tasks.close()
            self._tasks = None

    def _end_reconciling(self) -> None:
        """Called by `_reconcile`: do not call it again."""
        for unsubscribe in self._unsubscribes:
            unsubscribe()
        self._unsubscribes = []
        self._cancel_silence_timer()
        self._cancel_liveness_timer()

    async def _run(self) -> None:
        while self._unsubscribes:
            await self._wake.wait()
            self._wake.clear()
            if self._store.session_state is SessionState.CLOSED:
                return
            if self._store.session_state is SessionState.SUSPENDED:
                continue  # reconciled when it is connected again
            try:
                await self._store.reopen()
                await self._reconcile()
            except (StoreConnectionLost, StoreSessionExpired) as error:
                logger.info("%s: the registry did not answer: %s", self._name, error)
                await asyncio.sleep(_RETRY_SECONDS)
                self._wake.set()
            except StoreError as error:
                logger.error("%s: the registry refuses: %s", self._name, error)
                await asyncio.sleep(_RETRY_SECONDS)
                self._wake.set()

    def _check_session(self, session_id: int) -> None:
        """Call it after a write of `session_id`. Raises when the session may have ended, and deleted the node."""
        if self._store.session_state is not SessionState.CONNECTED or self._store.session_id != session_id:
            raise StoreConnectionLost(
                "the session with the registry was disturbed during the write; read again"
            )

    # --- the session ---------------------------------------------------------------------------------------------

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.SUSPENDED:
            timeout_seconds = self._store.session_timeout_seconds
            if timeout_seconds is not None and self._silence_timer is None:
                loop = asyncio.get_running_loop()
                self._silence_timer = loop.call_later(timeout_seconds, self._silence_elapsed, timeout_seconds)
            return
        self._cancel_silence_timer()
        if state is SessionState.EXPIRED:
            self._on_lost("the registry ended the session")
        elif state is SessionState.CLOSED:
            self._on_lost("the registry was closed")
        self._wake.set()

    def _silence_elapsed(self, seconds: float) -> None:
        self._silence_timer = None
        self._on_silence(f"the registry has not answered for {seconds:g} s, so the session may be over")

    def _cancel_silence_timer(self) -> None:
        if self._silence_timer is not None:
            self._silence_timer.cancel()
            self._silence_timer = None

    # --- this process ------------------------------------------------------------------------------------------------

    def _start_liveness_timer(self, timeout_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._liveness_timer = loop.call_later(
            timeout_seconds / _LIVENESS_CHECKS_PER_TIMEOUT, self._check_liveness, loop.time(), timeout_seconds
        )

    def _check_liveness(self, before: float, timeout_seconds: float) -> None:
        """Detect that this process was stopped. The registry may be away when it continues, and report no expiry."""
        still_seconds = asyncio.get_running_loop().time() - before
        self._start_liveness_timer(timeout_seconds)
        if still_seconds > timeout_seconds:
            self._on_lost(f"this process was stopped for {still_seconds:.1f} s, so the session may be over")
            self._wake.set()

    def _cancel_liveness_timer(self) -> None:
        if self._liveness_timer is not None:
            self._liveness_timer.cancel()
            self._liveness_timer = None

    def _notify(self, callback: Callable[[], object]) -> None:
        """Call the owner's callback. Its errors are logged, and do not end this task."""
        try:
            callback()
        except Exception:
            logger.exception("%s: %r failed", self._name, callback)
