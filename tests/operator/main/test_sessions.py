"""The sessions of kopf's watches are closed however kopf ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import kopf
import pytest

from odradek_operator.gateways.kubernetes import TOPICS
from odradek_operator.main.watching import KopfWatching
from tests.support.stories import in_real_time


@in_real_time
async def test_a_kopf_that_fails_leaves_no_session_open(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[kopf.AiohttpSession] = []

    async def fail(registry: Callable[[], Awaitable[kopf.AiohttpSession]], **_: Any) -> None:
        opened.extend([await registry(), await registry()])
        raise RuntimeError("kopf fails")

    monkeypatch.setattr(kopf, "operator", fail)
    monkeypatch.setattr("odradek_operator.main.watching.registry_of", lambda _, wake, login: login)
    watching = KopfWatching(
        [TOPICS], wake=lambda _: None, login=lambda: kopf.ConnectionInfo(server="http://127.0.0.1:1")
    )
    with pytest.raises(RuntimeError, match="kopf fails"):
        await watching(None, lambda _, __: None)
    assert [session.aiohttp_session.closed for session in opened] == [True, True]
