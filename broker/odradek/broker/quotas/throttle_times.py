"""How long a client over its quota waits: its rate over many small windows, as Apache Kafka's `Rate` over `SampledStat`
(`org.apache.kafka.common.metrics`).

A sample begins with the first value after the one before is a window old. It ends when its last value is as old as all
windows together. The rate is the sum of all samples, divided by the time since the oldest began. That time counts as at
least all windows but one, and the present one so far. So the first values after a pause make no rate without bounds.

Times are whole milliseconds of any clock that never goes back.

Most values are far from the limit, and each look at a sample costs time of a request. So a caller may take values off
an `Allowance` as long as it is not below zero, until its end. Every method takes them into account.
"""

from __future__ import annotations

from collections import deque
from typing import Final

# Integers of one digit: CPython subtracts them without a call.
_SPARE_MAX: Final = (1 << 30) - 1


class Allowance:
    """The amount that may be used before the limit is near, without a look at the samples.

    Its user checks that `spare` stays at zero or above, and that the time is before `until`. It sets `spent_at`.
    """

    __slots__ = ("spare", "spent_at", "until")

    def __init__(self) -> None:
        self.spare = -1
        self.until = 0.0
        """The end of the present sample, in seconds."""
        self.spent_at = 0.0
        """When something was last taken off, in seconds."""


class SampledRate:
    """`windows` samples of `window_ms` each; the rate is per second."""

    __slots__ = (
        "_expiry_ms",
        "_samples",
        "_shortest_seconds",
        "_spare_at_first",
        "_total",
        "_window_ms",
        "_windows",
        "allowance",
    )

    def __init__(self, *, windows: int, window_ms: int) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self._expiry_ms = windows * window_ms
        self._shortest_seconds = (windows - 1) * window_ms / 1000
        # [begin, time of the last value, sum], oldest first.
        self._samples: deque[list[float]] = deque()
        self._total = 0.0
        self._spare_at_first = -1
        self.allowance = Allowance()
        """The amount that may be taken off now; only `add` gives it anything."""

    def settle(self) -> None:
        """Record what was taken off. No more may be, until `add` allows it: another limit may hold."""
        allowance = self.allowance
        spent = self._spare_at_first - allowance.spare
        self._spare_at_first = allowance.spare = -1
        if spent:
            last = self._samples[-1]
            last[1] = int(allowance.spent_at * 1000)
            last[2] += spent
            self._total += spent

    def renew_allowance(self) -> None:
        """End the allowance for good, wherever it is remembered: clients must find their meter again."""
        self.settle()
        self.allowance = Allowance()

    def record(self, value: float, now_ms: int) -> None:
        """Add a value, which may be negative to take one back."""
        self.settle()
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self._window_ms:
            samples.append([now_ms, now_ms, value])
        else:
            last = samples[-1]
            last[1] = now_ms
            last[2] += value
        self._total += value

    def add(self, value: float, limit: float, now_ms: int) -> int:
        """`record`, then `excess_ms`. Where the limit is not near, `allowance` says how much more may come."""
        self.settle()
        samples = self._samples
        if samples and now_ms - (last := samples[-1])[0] < self._window_ms:
            last[1] = now_ms
            last[2] += value
        else:
            samples.append([now_ms, now_ms, value])
        self._total = total = self._total + value
        # The time of a rate is never shorter than this. The total may still have samples that have ended.
        allowed = limit * self._shortest_seconds
        if total <= allowed:
            self._spare_at_first = self.allowance.spare = min(int(allowed - total), _SPARE_MAX)
            self.allowance.until = (samples[-1][0] + self._window_ms) / 1000
            return 0
        return self.excess_ms(limit, now_ms)

    def measure_elapsed_ms(self, now_ms: int) -> int:
        """The time over which the rate is taken, without samples that have ended."""
        self.settle()
        samples = self._samples
        while samples and now_ms - samples[0][1] >= self._expiry_ms:
            self._total -= samples.popleft()[2]
        if not samples:
            # Sums of floating-point numbers leave a rest.
            self._total = 0.0
        elapsed_ms = now_ms - int(samples[0][0]) if samples else 0
        lacking = self._windows - 1 - elapsed_ms // self._window_ms
        if lacking > 0:
            elapsed_ms += lacking * self._window_ms
        return max(elapsed_ms, 1)

    def rate(self, now_ms: int) -> float:
        """The sum of the values per second."""
        elapsed_ms = self.measure_elapsed_ms(now_ms)
        return self._total * 1000 / elapsed_ms

    def excess_ms(self, limit: float, now_ms: int) -> int:
        """The time for which nothing may be added until the rate is `limit` again; 0 while it is not above."""
        elapsed_ms = self.measure_elapsed_ms(now_ms)
        allowed = limit * elapsed_ms / 1000
        if self._total <= allowed:
            return 0
        # Rounded as Java's Math.round does.
        return int((self._total - allowed) / limit * 1000 + 0.5)

    @property
    def total(self) -> float:
        """The sum of the values at the last look."""
        self.settle()
        return self._total
