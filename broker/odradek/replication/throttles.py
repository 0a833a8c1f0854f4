"""How fast replicas that catch up may be fed and may fetch (KIP-73), so that moving partitions leaves room for clients.

Topics name the throttled replicas ({leader,follower}.replication.throttled.replicas: `*` or partition:broker pairs),
brokers the bytes per second ({leader,follower}.replication.throttled.rate). All that flows for a throttled replica is
counted, but only what is not in sync is held back: a replica that clients wait for is never slowed down.

The measure is an allowance that grows with time, up to what one second brings, and may be overdrawn by the last answer;
what was overdrawn is waited off. Kafka takes the mean over a window instead and forgets what lies before it, so that
rates below a tenth of an answer's size are exceeded there. Replicas in sync, which nothing holds back, overdraw it by
no more than such a window brings: what clients write above the rate for an hour is not to be waited off for an hour
when they cease, or when the rate is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from odradek.foundation.setting_types import INT64_MAX

EVERY_REPLICA: Final = "*"
_BURST_SECONDS: Final = 1.0
# As long as Kafka's window.
_IN_SYNC_DEBT_SECONDS: Final = 10.0
# The rate may change while somebody waits, so nobody waits longer than this before looking again.
PAUSE_SECONDS_MAX: Final = 1.0
_PAUSE_SECONDS_MIN: Final = 0.02


class Throttle:
    """What one side, the feeding or the fetching, has left. Pure but for the rate and the time, which are asked for."""

    __slots__ = ("_allowance", "_as_of", "_now", "_rate", "bytes_total", "times_held_back")

    def __init__(self, rate: Callable[[], int], *, now: Callable[[], float]) -> None:
        """`rate` gives bytes per second as they are now, `now` seconds that never go back."""
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
        """So many bytes of throttled replicas went through; how many of them are to be waited off."""
        self.bytes_total += size_bytes
        rate = self.rate
        if rate is None:
            return 0.0
        self._refill()
        least = min(self._allowance, -rate * _IN_SYNC_DEBT_SECONDS) if is_in_sync else float("-inf")
        before, self._allowance = self._allowance, max(self._allowance - size_bytes, least)
        return before - self._allowance

    def take_back(self, size_bytes: int, debt_bytes: float) -> None:
        """So many bytes did not go after all; `debt_bytes` is what `record` said of them."""
        self.bytes_total -= size_bytes
        self._allowance += debt_bytes

    def holds_back(self) -> bool:
        """Whether what is not in sync has to wait."""
        if self.rate is None:
            return False
        self._refill()
        if self._allowance > 0:
            return False
        self.times_held_back += 1
        return True

    def pause_seconds(self) -> float:
        """How long to wait before it is worth asking again."""
        rate = self.rate
        if rate is None:
            return 0.0
        missing = -self._allowance / rate if rate else PAUSE_SECONDS_MAX
        return min(max(missing, _PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX)

    def _refill(self) -> None:
        rate, now = self._rate(), self._now()
        self._allowance = min(rate * _BURST_SECONDS, self._allowance + rate * (now - self._as_of))
        self._as_of = now


class Throttles:
    """Both sides of one broker."""

    __slots__ = ("follower", "leader")

    def __init__(
        self, *, leader_rate: Callable[[], int], follower_rate: Callable[[], int], now: Callable[[], float]
    ) -> None:
        self.leader = Throttle(leader_rate, now=now)
        self.follower = Throttle(follower_rate, now=now)


def is_throttled(entries: Sequence[str], *, partition: int, broker_id: int) -> bool:
    """Whether a topic's list of throttled replicas names that of `broker_id`."""
    return EVERY_REPLICA in entries or f"{partition}:{broker_id}" in entries
