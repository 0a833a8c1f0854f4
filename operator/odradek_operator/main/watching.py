"""kopf's watches of one namespace, in a thread and an event loop of their own.

When kopf ends it waits for every task of its loop that is younger than itself, and then cancels it. On a shared loop,
those would be our requests, our probes and other namespaces. When one of its watches is refused it ends all of them. So
each namespace has a kopf. What it brings is handed over to our loop, and each answer of the API server too.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Final

import aiohttp
import kopf
from yarl import URL

from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.kubernetes import Api
from odradek_operator.handlers.events import SELECTOR, children_of, group_and_version, registry_of
from odradek_operator.main.watches import INACTIVE_SECONDS_MAX, WATCH_SECONDS, NoteAnswer, WatchesEnded

FINALIZER: Final = "odradek.io/kopf"
PREFIX: Final = "kopf.odradek.io"

END_SECONDS_MAX: Final = 10.0

LogIn = Callable[[], kopf.ConnectionInfo]


class KopfWatching:
    """Watches kinds and what they own with kopf. `wake` is called on the loop that it is called on."""

    def __init__(self, kinds: Collection[Api], *, wake: Callable[[Key], None], login: LogIn) -> None:
        self._kinds = kinds
        self._wake = wake
        self._login = login

    async def __call__(self, namespace: str | None, note_answer: NoteAnswer) -> None:
        """Watch until cancelled. Raises what kopf ends with, and WatchesEnded when kopf does not end."""
        ours, theirs = asyncio.get_running_loop(), asyncio.new_event_loop()
        ended: asyncio.Future[BaseException | None] = ours.create_future()
        # kopf would wait for a threading.Event in a thread of its loop, whose end the loop waits for in turn.
        stop = asyncio.Event()
        sessions: list[aiohttp.ClientSession] = []

        def hand_over(call: Callable[..., object], *given: object) -> None:
            with suppress(RuntimeError):  # our loop is closed: the process ends
                ours.call_soon_threadsafe(call, *given)

        def end(failure: BaseException | None) -> None:
            if not ended.done():
                ended.set_result(failure)

        async def log_in() -> kopf.AiohttpSession:
            opened = await self._open_session(namespace, partial(hand_over, note_answer))
            sessions[:] = [*(session for session in sessions if not session.closed), opened.aiohttp_session]
            return opened

        async def watch() -> None:
            try:
                await kopf.operator(
                    registry=registry_of(self._kinds, wake=partial(hand_over, self._wake), login=log_in),
                    settings=kopf_settings(self._kinds, namespace),
                    standalone=True,
                    clusterwide=namespace is None,
                    namespaces=() if namespace is None else (namespace,),
                    stop_flag=stop,
                )
            finally:
                # kopf closes them at its end, and leaves them open where it fails.
                for session in sessions:
                    await session.close()

        def work() -> None:
            failure: BaseException | None = None
            try:
                with asyncio.Runner(loop_factory=lambda: theirs) as runner:
                    runner.run(watch())
            except BaseException as caught:
                failure = caught
            hand_over(end, failure)

        # A daemon: a kopf that hangs must not keep the process from its end.
        threading.Thread(target=work, name=f"kopf {namespace or ''}", daemon=True).start()
        try:
            failure = await asyncio.shield(ended)
        except asyncio.CancelledError:
            with suppress(RuntimeError):
                theirs.call_soon_threadsafe(stop.set)
            done, _ = await asyncio.wait({ended}, timeout=END_SECONDS_MAX)
            if not done:
                raise WatchesEnded(f"kopf has not ended within {END_SECONDS_MAX:.0f} s") from None
            raise
        if failure is not None:
            raise failure

    async def _open_session(self, namespace: str | None, note_answer: NoteAnswer) -> kopf.AiohttpSession:
        info = await asyncio.to_thread(self._login)
        kinds = {api.path(namespace): api for api in (*self._kinds, *children_of(self._kinds))}
        root = URL(info.server).path.rstrip("/")

        async def note(_: object, __: object, done: aiohttp.TraceRequestEndParams) -> None:
            api = kinds.get(done.url.path.removeprefix(root))
            # A list that is answered is no watch yet; one that is refused never becomes one.
            if api is not None and ("watch" in done.url.query or not done.response.ok):
                note_answer(api, done.response.status)

        tracing = aiohttp.TraceConfig()
        tracing.on_request_end.append(note)
        return kopf.AiohttpSession(
            server=info.server,
            default_namespace=info.default_namespace,
            expiration=info.expiration,
            aiohttp_session=aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
                headers=info.as_http_headers(),
                proxy=info.proxy_url,
                trust_env=info.trust_env,
                trace_configs=[tracing],
            ),
        )


def kopf_settings(kinds: Collection[Api], namespace: str | None) -> kopf.OperatorSettings:
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
    configured.watching.server_timeout = WATCH_SECONDS
    configured.watching.inactivity_timeout = INACTIVE_SECONDS_MAX
    for api in children_of(kinds):
        configured.watching.label_selectors[(*group_and_version(api), api.plural)] = SELECTOR
    # A role for some namespaces may not look for others, nor for resource definitions as they come and go.
    configured.scanning.disabled = namespace is not None
    # It would kill the process, and the first process of a container cannot be killed from inside.
    configured.process.ultimate_exiting_timeout = None
    return configured
