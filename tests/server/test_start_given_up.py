"""A start that a signal ends, and that fails while it is ended."""

from __future__ import annotations

import asyncio
import logging

import pytest

from odradek.server.cluster_start import _start_unless_stopped


async def test_what_failed_meanwhile_is_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def start() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError(5, "the disk went with it")

    stopping = asyncio.Event()
    asyncio.get_running_loop().call_later(1, stopping.set)
    assert not await _start_unless_stopped(stopping, start())
    assert [one for one in caplog.messages if "the disk went with it" in one]
    assert not [one for one in caplog.messages if "never retrieved" in one]
