"""A process gets uvloop's loop where it is installed, and asyncio's elsewhere; what it runs does not notice."""

from __future__ import annotations

import asyncio
import sys

import pytest

from odradek.foundation import event_loop


async def _kind_of_loop() -> str:
    await asyncio.sleep(0)
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


def test_uvloop_where_it_is_installed() -> None:
    pytest.importorskip("uvloop")
    assert event_loop.run(_kind_of_loop()) == "uvloop"


def test_asyncio_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert event_loop.run(_kind_of_loop()) == "asyncio"
