"""The settings that decide what a broker's partitions remember of producers, and what they demand of transactions."""

from __future__ import annotations

from typing import Final

EXPIRATION_MS_DEFAULT: Final = 24 * 60 * 60 * 1000


class ProducerRules:
    """The rules that all partitions of a broker share; a change counts from now on."""

    __slots__ = ("expiration_ms", "must_verify")

    def __init__(self, *, expiration_ms: int = EXPIRATION_MS_DEFAULT, must_verify: bool = True) -> None:
        self.expiration_ms = expiration_ms
        """producer.id.expiration.ms."""
        self.must_verify = must_verify
        """transaction.partition.verification.enable: whether a transaction needs a token to begin."""
