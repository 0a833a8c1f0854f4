"""Limits on the bytes per second of replicas that catch up (KIP-73), so that moving partitions leaves room for clients.

Topics name the throttled replicas ({leader,follower}.replication.throttled.replicas: `*` or partition:broker pairs),
brokers the bytes per second ({leader,follower}.replication.throttled.rate). All bytes of a throttled replica count, but
only replicas outside the in-sync set wait: a replica that clients wait for is never slowed down.

The measure is an allowance that grows with time, up to one second's worth. The last answer may overdraw it; the debt is
waited off. Kafka takes the mean over a window instead and forgets what lies before it. There, rates below a tenth of an
answer's size are exceeded.

Replicas in sync do not wait, and overdraw the allowance by at most the bytes of Kafka's window. Otherwise an hour of
writes above the rate would be followed by an hour of waiting.

Moves between the log directories of a broker have an allowance of the same kind (KIP-113).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.settings.declaration import INT64_MAX

EVERY_REPLICA: Final = "*"
_BURST_SECONDS: Final = 1.0
# As long as Kafka's window.
_IN_SYNC_DEBT_SECONDS: Final = 10.0
# The rate may change during a wait, so no wait before the next check is longer.
PAUSE_SECONDS_MAX: Final = 1.0
_PAUSE_SECONDS_MIN: Final = 0.02


class Throttle:
    """The allowance of one side, sending or fetching. Pure but for the rate and the time, which are callables."""

    __slots__ = ("_allowance", "_as_of", "_now", "_rate", "bytes_total", "times_held_back")

    def __init__(self, rate: Callable[[], int], *, now: Callable[[], float]) -> None:
        """`rate` gives the current bytes per second, `now` monotonic seconds."""
        self._rate = rate
        self._now = now
        self._as_of = now()
        self._allowance = float(rate()) * _BURST_SECONDS
        self.bytes_total = 0
        self.times_held_back = 0

    @property
    def rate(self) -> int | None:
        """Bytes per second; None for no limit."""
        rate = self._rate()
        return None if rate == INT64_MAX else rate

    def record(self, size_bytes: int, *, is_in_sync: bool = False) -> float:
        """Count `size_bytes` of throttled replicas; how many of them are to be waited off."""
        self.bytes_total += size_bytes
        rate = self.rate
        if rate is None:
            return 0.0
        self._refill()
        least = min(self._allowance, -rate * _IN_SYNC_DEBT_SECONDS) if is_in_sync else float("-inf")
        before, self._allowance = self._allowance, max(self._allowance - size_bytes, least)
        return before - self._allowance

    def refund(self, size_bytes: int, debt_bytes: float) -> None:
        """Uncount `size_bytes` that were not sent after all; `debt_bytes` is what `record` returned for them."""
        self.bytes_total -= size_bytes
        self._allowance += debt_bytes

    def holds_back(self) -> bool:
        """Whether replicas outside the in-sync set have to wait."""
        if self.rate is None:
            return False
        self._refill()
        if self._allowance > 0:
            return False
        self.times_held_back += 1
        return True

    def pause_seconds(self) -> float:
        """The pause before the next check."""
        rate = self.rate
        if rate is None:
            return 0.0
        missing = -self._allowance / rate if rate else PAUSE_SECONDS_MAX
        return min(max(missing, _PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX)

    def _refill(self) -> None:
        rate, now = self._rate(), self._now()
        self._allowance = min(rate * _BURST_SECONDS, self._allowance + rate * (now - self._as_of))
        self._as_of = now


class Throttles(NamedTuple):
    """Both sides of one broker."""

    leader: Throttle
    follower: Throttle


def is_throttled(entries: Sequence[str], *, partition: int, broker_id: int) -> bool:
    """Whether a topic's list of throttled replicas names that of `broker_id`."""
    return EVERY_REPLICA in entries or f"{partition}:{broker_id}" in entries
