"""Faults between a session and the registry in memory: delay and lost messages, at random from a given generator.

A session has one connection, and what comes back on it (answers and watch events) keeps its order, as with a real
registry. A lost message ends the connection: the session is suspended, and everything under way is lost with it. After
a pause the session reaches the registry again, if it did not expire meanwhile. A lost request was not done; a lost
answer was. The caller cannot tell the two apart.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RegistryFaults:
    """How slow and how lossy the way to the registry is.

    `latency_seconds` are the least and the most of one direction, `reconnect_seconds` those of the pause after a
    message was lost; `lost_requests` and `lost_answers` are probabilities.
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
