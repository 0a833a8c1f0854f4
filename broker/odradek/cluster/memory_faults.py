"""What goes wrong on the way to the registry in memory: slowness and lost messages, decided by chance handed in.

A session has one connection, and what comes back on it (answers and watch events) keeps its order, as with a real
registry. A lost message ends the connection: the session is suspended, whatever was under way is lost with it, and
after a pause the session reaches the registry again, if it did not expire meanwhile. A request lost on its way was not
done, an answer lost on its way was: the caller cannot tell.
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
