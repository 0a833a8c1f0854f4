"""kopf in a thread and an event loop of its own.

When kopf ends it waits for every task of its loop that is younger than itself, and then cancels it. On a shared loop,
those would be our requests and probes. A slow kopf does not slow our loop either. What it brings is handed over to our
loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection
from typing import Final

import kopf

from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.foundation.watches import WatchStates
from odradek_operator.gateways.kubernetes import Api
from odradek_operator.handlers.events import registry_of

logger = logging.getLogger(__name__)

FINALIZER: Final = "odradek.io/kopf"
PREFIX: Final = "kopf.odradek.io"

END_SECONDS_MAX: Final = 10.0


class WatchesEnded(Exception):
    """kopf ended although it was not stopped: no event would arrive any more."""


class Watching:
    """kopf's watches of some kinds. `wake` and `watches` are called on the loop that `run` is called on."""

    def __init__(
        self,
        settings: OperatorSettings,
        kinds: Collection[Api],
        *,
        wake: Callable[[Key], None],
        watches: WatchStates,
        login: Callable[[], kopf.ConnectionInfo],
    ) -> None:
        self._settings = settings
        self._kinds = kinds
        self._wake = wake
        self._watches = watches
        self._login = login
        self._stop = threading.Event()
        self._ready = threading.Event()

    @property
    def is_up(self) -> bool:
        """Whether kopf has begun to watch."""
        return self._ready.is_set()

    async def run(self) -> None:
        """Watch until cancelled. Raises what kopf ends with, or WatchesEnded."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[BaseException | None] = loop.create_future()

        def end(failure: BaseException | None) -> None:
            if not ended.done():
                ended.set_result(failure)

        def work() -> None:
            failure: BaseException | None = None
            try:
                self._run_kopf(loop)
            except BaseException as caught:
                failure = caught
            if not loop.is_closed():
                loop.call_soon_threadsafe(end, failure)

        # A daemon: a kopf that hangs must not keep the process from its end.
        threading.Thread(target=work, name="kopf", daemon=True).start()
        try:
            failure = await asyncio.shield(ended)
        except asyncio.CancelledError:
            self._stop.set()
            await asyncio.wait({ended}, timeout=END_SECONDS_MAX)
            raise
        raise failure or WatchesEnded("the watches ended by themselves")

    def _run_kopf(self, loop: asyncio.AbstractEventLoop) -> None:
        def wake(key: Key) -> None:
            loop.call_soon_threadsafe(self._wake, key)

        def note_watched(kind: str, version: str) -> None:
            loop.call_soon_threadsafe(self._watches.note_watched, kind, version)

        kopf.run(
            registry=registry_of(self._kinds, wake=wake, note_watched=note_watched, login=self._login),
            settings=kopf_settings(self._settings),
            standalone=True,
            clusterwide=not self._settings.namespaces,
            namespaces=self._settings.namespaces,
            stop_flag=self._stop,
            ready_flag=self._ready,
        )


def kopf_settings(settings: OperatorSettings) -> kopf.OperatorSettings:
    """kopf's settings. What is left at its default would put kopf's own names on people's resources.

    Own names in storage, no log lines as events, no peering of operators, bounded waits.
    """
    configured = kopf.OperatorSettings()
    configured.peering.standalone = True
    configured.persistence.finalizer = FINALIZER
    configured.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=PREFIX)
    configured.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=PREFIX)
    configured.posting.level = logging.ERROR
    configured.networking.request_timeout = 30
    configured.networking.connect_timeout = 10
    # A role for some namespaces may not look for others, nor for resource definitions as they come and go.
    configured.scanning.disabled = bool(settings.namespaces)
    configured.process.ultimate_exiting_timeout = 10
    return configured
