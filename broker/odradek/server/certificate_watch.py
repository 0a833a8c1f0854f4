"""Looks twice a second whether files with certificates changed, on a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from odradek.foundation.tasks import TaskOwner

if TYPE_CHECKING:
    from odradek.security.followed_context import FollowedContext

# An authority that is taken away must be gone within a second.
_SECONDS: Final = 0.5


class CertificateWatch:
    """Follows the files of some contexts, from `start` to `stop`. `on_change` is called when a context is replaced."""

    def __init__(self, contexts: Sequence[FollowedContext], *, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._contexts = [context for context in contexts if context.files]
        self._tasks = TaskOwner("certificates")

    def start(self) -> None:
        """Begin to look. Without files there is nothing to do."""
        if self._contexts:
            self._tasks.start(self._look(), name="watch")

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_SECONDS)
            for context in self._contexts:
                if await asyncio.to_thread(context.follow):
                    self._on_change()

    async def stop(self) -> None:
        """Look no more."""
        await self._tasks.close()
