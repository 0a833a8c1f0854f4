"""Who wants to hear that a store's session is suspended, expired or connected again."""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.cluster.store import SessionCallback, SessionState

logger = logging.getLogger(__name__)


class SessionListeners:
    """A session's state, and the callbacks that are told of its changes, at once and in the order they came."""

    def __init__(self) -> None:
        self.state = SessionState.CONNECTED
        # By a key of their own, since one callback may be there twice.
        self._callbacks: dict[object, SessionCallback] = {}

    def add(self, callback: SessionCallback) -> Callable[[], None]:
        """Tell `callback` of changes; the result ends it, and may be called more than once."""
        key = object()
        self._callbacks[key] = callback

        def remove() -> None:
            self._callbacks.pop(key, None)

        return remove

    def change(self, state: SessionState) -> None:
        """Make `state` the session's and tell everyone, when it is another than before."""
        if state is self.state:
            return
        self.state = state
        for key, callback in list(self._callbacks.items()):
            if key not in self._callbacks:
                continue  # taken back by one that was told before
            try:
                callback(state)
            except Exception:
                # The session has changed all the same, and the others must hear of it.
                logger.exception("%r could not follow the registry's session to %s", callback, state)
