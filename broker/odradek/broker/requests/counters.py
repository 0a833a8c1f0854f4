"""Requests counted by API: how many, how long they took, how many bytes.

Plain integers, which the dispatcher counts up and a scrape reads.
The time of a request is from its frame to its answer; a fetch's includes its wait.
"""

from __future__ import annotations

import math
from typing import Final

from odradek.foundation.turn_limits import TURN_SECONDS_MAX
from odradek.wire.protocol.api import API_KEY_MAX

# Upper bounds of the latency buckets in seconds; the last bucket is for all above.
LATENCY_BOUNDS_SECONDS: Final = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip


class ApiCounters:
    """One API's counts. `buckets` are not cumulative."""

    __slots__ = (
        "buckets",
        "failures",
        "long_turns",
        "request_bytes",
        "requests",
        "response_bytes",
        "seconds",
        "slow",
    )

    def __init__(self) -> None:
        self.requests = 0
        self.failures = 0
        self.long_turns = 0
        """Turns of the event loop that took longer than they may."""
        self.request_bytes = 0
        self.response_bytes = 0
        self.seconds = 0.0
        self.slow = 0
        """Requests that took longer than `slow.request.log.ms` allows."""
        self.buckets = [0] * (len(LATENCY_BOUNDS_SECONDS) + 1)


class RequestCounters:
    """The counts of every API, of requests that could not be read, and of those that were slow."""

    __slots__ = (
        "by_api",
        "denied",
        "large",
        "looked_at_seconds",
        "malformed",
        "slow_not_logged",
        "slow_seconds",
    )

    def __init__(self) -> None:
        self.by_api: tuple[ApiCounters, ...] = tuple(ApiCounters() for _ in range(API_KEY_MAX + 1))
        self.large = 0
        """Large requests whose elements are held at this moment."""
        self.malformed = 0
        self.denied = 0
        """Operations that the authorizer denied."""
        self.slow_not_logged = 0
        """Slow requests beyond the bound of lines."""
        self.slow_seconds: float
        """A request that takes longer is slow."""
        self.looked_at_seconds: float
        """A request that is answered at once and takes longer is looked at: it is slow, or its turn is long."""
        self.log_slow_requests(-1)

    def log_slow_requests(self, milliseconds: int) -> None:
        """Take requests for slow that take longer; none if it is negative."""
        self.slow_seconds = milliseconds / 1000 if milliseconds >= 0 else math.inf
        self.looked_at_seconds = min(TURN_SECONDS_MAX, self.slow_seconds)
