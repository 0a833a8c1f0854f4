"""Waiting for a condition of other processes, in real time, for as long as it takes and no longer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

SECONDS_MAX = 60.0


async def eventually(what: str, is_so: Callable[[], Any], *, seconds_max: float = SECONDS_MAX) -> None:
    """Return once it is so; `is_so` may be a coroutine function. Fails after `seconds_max`, saying what was not."""
    deadline = time.monotonic() + seconds_max
    while True:
        found = is_so()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return
        assert time.monotonic() < deadline, f"not within {seconds_max:g} s: {what}"
        await asyncio.sleep(0.05)
