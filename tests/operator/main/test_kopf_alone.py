"""What one kopf does when one of its namespaces refuses: why each namespace has a kopf (docs/design/0030).

When this fails, kopf has learned it, and `main.watching` can be less.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from contextlib import suppress
from typing import Any

import kopf
import pytest

from odradek_operator.gateways.kubernetes import TOPICS
from tests.operator.support.api_server import ApiServer
from tests.operator.support.world import manifest
from tests.support.polling import SECONDS_MAX, eventually
from tests.support.stories import in_real_time

pytestmark = pytest.mark.thorough


@in_real_time
async def test_one_namespace_that_refuses_ends_the_watches_of_all() -> None:
    seen: list[str] = []
    registry = kopf.OperatorRegistry()
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = settings.peering.standalone = True
    settings.networking.error_backoffs = [0.1]
    async with ApiServer() as server:
        kopf.on.login(registry=registry)(lambda **_: kopf.ConnectionInfo(server=server.url))

        async def note(name: str | None, **_: Any) -> None:
            seen.append(name or "")

        kopf.on.event("odradek.io", "v1", "topics", registry=registry)(note)
        server.refusals["GET", TOPICS.path("refuses")] = 403
        server.objects.create(manifest(TOPICS, "before"))
        stop = threading.Event()

        def run() -> None:
            with suppress(Exception):  # the refusal, once the flag is set
                kopf.run(
                    registry=registry, settings=settings, namespaces=["refuses", "default"], stop_flag=stop
                )

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        await eventually("the other namespace is watched", lambda: seen, lambda names: "before" in names)
        # It waits five seconds for what it calls hung tasks, which are the watches of the other namespace.
        await asyncio.sleep(8)
        server.objects.create(manifest(TOPICS, "after"))
        await asyncio.sleep(1)
        assert "after" not in seen and thread.is_alive(), (
            "deaf, and its end waits for the flag that nobody sets"
        )
        stop.set()
        await asyncio.to_thread(thread.join, SECONDS_MAX)
        assert not thread.is_alive()
    with warnings.catch_warnings():
        # A kopf that fails leaves its sockets open. They go here, and not in the middle of another test.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
