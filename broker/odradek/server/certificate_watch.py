"""Looks twice a second whether certificates or the keys of tokens changed, on a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from odradek.foundation.tasks import TaskOwner

# An authority that is taken away must be gone within a second.
_SECONDS: Final = 0.5


class Followed(Protocol):
    """What may change outside of the process."""

    def follow(self) -> bool:
        """Take what changed, and say whether open connections may end for it. It may block."""


class CertificateWatch:
    """Follows each of `followed` by itself, from `start` to `stop`. `on_change` is called when open connections may
    end.
    """

    def __init__(self, followed: Sequence[Followed], *, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._followed = followed
        self._tasks = TaskOwner("certificates")

    def start(self) -> None:
        """Begin to look."""
        for one in self._followed:
            self._tasks.start(self._look(one), name="watch")

    async def _look(self, followed: Followed) -> None:
        while True:
            await asyncio.sleep(_SECONDS)
            if await asyncio.to_thread(followed.follow):
                self._on_change()

    async def stop(self) -> None:
        """Look no more."""
        await self._tasks.close()
