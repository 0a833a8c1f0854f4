"""The callbacks that watch nodes, by path."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from odradek.metadata.registry.store import WatchCallback

logger = logging.getLogger(__name__)


class NodeWatches:
    """Callbacks by path, called on the event loop one step after the change."""

    def __init__(self) -> None:
        # Below each path by a key of their own, since one callback may be added twice.
        self._callbacks: dict[str, dict[object, WatchCallback]] = {}

    def add(self, path: str, callback: WatchCallback) -> Callable[[], None]:
        """Watch `path`; the result removes the watch, and may be called more than once."""
        key = object()
        self._callbacks.setdefault(path, {})[key] = callback

        def remove() -> None:
            callbacks = self._callbacks.get(path, {})
            callbacks.pop(key, None)
            if not callbacks:
                self._callbacks.pop(path, None)

        return remove

    def notify(self, paths: Iterable[str]) -> None:
        """Call the callbacks that watch one of `paths`."""
        if not self._callbacks:
            return
        loop = asyncio.get_running_loop()
        for path in paths:
            for key in self._callbacks.get(path, ()):
                loop.call_soon(self._call, path, key)

    def _call(self, path: str, key: object) -> None:
        callback = self._callbacks.get(path, {}).get(key)
        # Removed between the change and now.
        if callback is not None:
            callback(path)

    def has(self, path: str) -> bool:
        """Whether any callback watches `path`."""
        return path in self._callbacks

    def clear(self) -> None:
        self._callbacks.clear()
