"""The state of a store's session, and the callbacks for its changes."""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.metadata.registry.store import SessionCallback, SessionState

logger = logging.getLogger(__name__)


class SessionListeners:
    """A session's state, and the callbacks that are called at once for its changes, in the order of `add`."""

    def __init__(self) -> None:
        self.state = SessionState.CONNECTED
        # By a key of their own, since one callback may be added twice.
        self._callbacks: dict[object, SessionCallback] = {}

    def add(self, callback: SessionCallback) -> Callable[[], None]:
        """Call `callback` for changes; the result ends it, and may be called more than once."""
        key = object()
        self._callbacks[key] = callback

        def remove() -> None:
            self._callbacks.pop(key, None)

        return remove

    def change(self, state: SessionState) -> None:
        """Set the state, and call every callback if it changed."""
        if state is self.state:
            return
        self.state = state
        for key, callback in list(self._callbacks.items()):
            if key not in self._callbacks:
                continue  # removed by a callback before it
            try:
                callback(state)
            except Exception:
                # The session has changed nevertheless, and the other callbacks must be called.
                logger.exception("%r could not follow the registry's session to %s", callback, state)
