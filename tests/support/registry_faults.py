"""Faults between a session and the registry in memory: delay and lost messages, at random from a given generator.

A session has one connection, which keeps the order of answers and watch events, as with a real registry. A lost message
ends the connection: the session is suspended, and all messages in flight are lost. After a pause the session reaches
the registry again, unless it has expired. A request that was lost was not done. A request with a lost answer was. The
caller cannot distinguish the two.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RegistryFaults:
    """The delays and losses of the connections to the registry. `latency_seconds` are the least and the most of one
    direction, `reconnect_seconds` those of the pause after a lost message. `lost_requests` and `lost_answers` are
    probabilities.
    """

    rng: random.Random
    latency_seconds: tuple[float, float] = (0.0, 0.0)
    lost_requests: float = 0.0
    lost_answers: float = 0.0
    reconnect_seconds: tuple[float, float] = (0.0, 0.0)

    def latency(self) -> float:
        return self.rng.uniform(*self.latency_seconds)

    def reconnect(self) -> float:
        return self.rng.uniform(*self.reconnect_seconds)

    def loses_request(self) -> bool:
        return self.rng.random() < self.lost_requests

    def loses_answer(self) -> bool:
        return self.rng.random() < self.lost_answers
