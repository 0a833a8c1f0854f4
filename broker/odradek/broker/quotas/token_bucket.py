"""A bucket of tokens that may be overdrawn once, as Apache Kafka's `TokenBucket` (KIP-599).

Tokens are refilled at the quota's rate, up to what all windows together give. A spender that finds none left waits. The
last one before that may take more than there is: a topic of a thousand partitions can always be created.
"""

from __future__ import annotations


class TokenBucket:
    """Times are whole milliseconds; `burst_seconds` is the time in which an empty bucket is refilled."""

    __slots__ = ("_burst_seconds", "_tokens", "_updated_ms")

    def __init__(self, *, burst_seconds: float) -> None:
        self._burst_seconds = burst_seconds
        self._tokens: float | None = None
        self._updated_ms = 0

    def tokens(self, rate: float, now_ms: int) -> float:
        """The tokens there are, below zero after one that took too many."""
        burst = rate * self._burst_seconds
        tokens = burst if self._tokens is None else self._tokens
        tokens = min(burst, tokens + rate * (now_ms - self._updated_ms) / 1000)
        self._tokens, self._updated_ms = tokens, now_ms
        return tokens

    def spend(self, count: float, rate: float, now_ms: int) -> None:
        """Take tokens, also more than there are."""
        burst = rate * self._burst_seconds
        self._tokens = min(burst, self.tokens(rate, now_ms) - count)

    def excess_ms(self, rate: float, now_ms: int) -> int:
        """The time until there are no tokens lacking; 0 while none are."""
        tokens = self.tokens(rate, now_ms)
        return 0 if tokens >= 0 else int(-tokens / rate * 1000 + 0.5)
