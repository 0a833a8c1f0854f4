"""The tasks of all actors: their failures are raised where everything is checked, and they end together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


def raise_failure_of(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Raise what one of the tasks that are done has died of."""
    for task in tasks:
        if task.done() and not task.cancelled() and (failure := task.exception()) is not None:
            raise failure


async def end_all(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel the tasks and wait for their ends."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
