"""The key set of a listener, followed while the broker runs: keys are rotated without a restart.

A file is looked at each second. An address is asked again after `refresh_ms`. It is also asked when a token names an
unknown key, but not more often than each ten seconds, since every client can name any. While it fails the keys stay,
and it is asked again after a pause that grows. A login never waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.foundation.errors import SettingError
from odradek.security.authentication.json_web_keys import (
    KeySetUnreadable,
    VerificationKey,
    parse_key_set,
    require_library,
)
from odradek.security.authentication.web_documents import DocumentUnavailable, is_file, read_document, shown

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_WISHES_MIN: Final = 10.0


class KeySetOptions(NamedTuple):
    """`name` is the listener, for messages."""

    name: str
    url: str
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


class KeySet:
    """`follow` reads the keys when it is time, on a thread; `find` is for the event loop. `now` is monotonic."""

    def __init__(self, options: KeySetOptions, *, now: Callable[[], float]) -> None:
        """Raises SettingError for a file without usable keys. An address may come up later than the broker."""
        self._options = options
        self._now = now
        self._keys: dict[str, VerificationKey] = {}
        self._data: bytes | None = None
        self._is_file = is_file(options.url)
        self._is_wished = False
        self._next_at = now()
        self._last_at = now() - _SECONDS_BETWEEN_WISHES_MIN
        self._failures = 0
        self._failure = ""
        if self._is_file:
            try:
                self._take(read_document(options.url))
            except (DocumentUnavailable, KeySetUnreadable) as failure:
                raise SettingError(
                    f"listener {options.name}: OAUTHBEARER has no keys to check tokens with: {failure}"
                ) from None
        else:
            # So that a missing package stops the start, and not the first login.
            require_library()

    def find(self, name: str) -> VerificationKey | None:
        """The key of this id. A token without an id is for the only key there is."""
        found = self._keys.get(name)
        if found is None and not name and len(self._keys) == 1:
            (found,) = self._keys.values()
        if found is None:
            self._is_wished = True
        return found

    def follow(self) -> bool:
        """Read the keys again when it is time: False, since open connections stay. Not for the event loop."""
        now = self._now()
        is_wished = self._is_wished and now - self._last_at >= _SECONDS_BETWEEN_WISHES_MIN
        if not (self._is_file or now >= self._next_at or (is_wished and not self._failures)):
            return False
        self._is_wished, self._last_at = False, now
        try:
            self._take(read_document(self._options.url))
        except (DocumentUnavailable, KeySetUnreadable) as failure:
            self._failures += 1
            pause_ms = self._options.retry_backoff_ms * 2 ** min(self._failures - 1, 20)
            self._next_at = self._now() + min(pause_ms, self._options.retry_backoff_max_ms) / 1000
            if str(failure) != self._failure:
                self._failure = str(failure)
                logger.error(
                    "listener %s keeps its %d keys for tokens, since the new ones fail: %s",
                    *(self._options.name, len(self._keys), failure),
                )
            return False
        self._failures, self._failure = 0, ""
        self._next_at = self._now() + self._options.refresh_ms / 1000
        return False

    def _take(self, data: bytes) -> None:
        if data == self._data:
            return
        # Whole or not at all: a reader sees one generation.
        self._keys, self._data = parse_key_set(data), data
        logger.info(
            "listener %s has %d keys for tokens from %s",
            *(self._options.name, len(self._keys), shown(self._options.url)),
        )
