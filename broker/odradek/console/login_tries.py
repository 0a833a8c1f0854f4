"""Pauses between tries to log in, by user and by address, so that passwords cannot be guessed by trying.

A try counts as failed from its beginning until it succeeds: tries at the same time gain nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from math import ceil

from odradek.foundation.console_limits import (
    CONSOLE_TRIES_FORGOTTEN_SECONDS,
    CONSOLE_TRIES_KEPT_MAX,
    CONSOLE_TRIES_OF_ADDRESS_FREE,
    CONSOLE_TRIES_OF_ADDRESS_PAUSE_SECONDS_MAX,
    CONSOLE_TRIES_OF_USER_FREE,
    CONSOLE_TRIES_OF_USER_PAUSE_SECONDS_MAX,
)
from odradek.foundation.errors import OdradekError


class TooManyTriesError(OdradekError):
    """There were too many tries that failed. `pause_seconds` is how long to wait."""

    def __init__(self, pause_seconds: int) -> None:
        super().__init__(f"there were too many tries that failed; try again in {pause_seconds} s")
        self.pause_seconds = pause_seconds


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last_at: float = 0.0


class _Pauses:
    """Failures by key. After `free` of them each further one doubles the pause, up to `seconds_max`."""

    def __init__(self, free: int, seconds_max: float) -> None:
        self._free = free
        self._seconds_max = seconds_max
        self._failures: OrderedDict[Hashable, _Failures] = OrderedDict()

    def find_pause(self, key: Hashable, now: float) -> float:
        """Seconds until the next try is allowed; 0 or less where it is."""
        found = self._failures.get(key)
        if found is None or found.count < self._free:
            return 0.0
        if now - found.last_at >= CONSOLE_TRIES_FORGOTTEN_SECONDS:
            del self._failures[key]
            return 0.0
        doublings = min(found.count - self._free, 30)
        return found.last_at + min(2.0**doublings, self._seconds_max) - now

    def count(self, key: Hashable, now: float) -> None:
        found = self._failures.setdefault(key, _Failures())
        found.count, found.last_at = found.count + 1, now
        self._failures.move_to_end(key)
        while len(self._failures) > CONSOLE_TRIES_KEPT_MAX:
            self._failures.popitem(last=False)

    def take_back(self, key: Hashable) -> None:
        found = self._failures.get(key)
        if found is not None:
            found.count -= 1

    def forget(self, key: Hashable) -> None:
        self._failures.pop(key, None)


class LoginTries:
    """The tries of all viewers. `now` is in seconds, and never goes back."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._users = _Pauses(CONSOLE_TRIES_OF_USER_FREE, CONSOLE_TRIES_OF_USER_PAUSE_SECONDS_MAX)
        self._addresses = _Pauses(CONSOLE_TRIES_OF_ADDRESS_FREE, CONSOLE_TRIES_OF_ADDRESS_PAUSE_SECONDS_MAX)

    def begin(self, cluster: str, user: str, address: str) -> None:
        """Count a try as failed. Raises TooManyTriesError while there is a pause."""
        now = self._now()
        key = (cluster, user)
        pause = max(self._users.find_pause(key, now), self._addresses.find_pause(address, now))
        if pause > 0:
            raise TooManyTriesError(ceil(pause))
        self._users.count(key, now)
        self._addresses.count(address, now)

    def succeed(self, cluster: str, user: str, address: str) -> None:
        """The try was right: it counts no more, and those before it of the same user neither."""
        self._users.forget((cluster, user))
        self._addresses.take_back(address)
