"""What an attack is, and the list of all of them, by family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from e2e.attack.field import Field

SILENCE_SECONDS_MAX: Final = 2.0
ALL_AT_ONCE_SECONDS_MAX: Final = 10.0
# A process that dies without a word is given up when it is back, and else when its session with ZooKeeper ends. What
# stops with its connections open is given up then only: brokers' sessions last 18 s, as Kafka's.
KILLED_SECONDS_MAX: Final = 10.0
STOPPED_SECONDS_MAX: Final = 20.0


class Attack(NamedTuple):
    """One attack: `promise` says what holds after it, `silence_seconds_max` how long any honest client may wait."""

    name: str
    promise: str
    play: Callable[[Field], None]
    silence_seconds_max: float


ATTACKS: Final[dict[str, Attack]] = {}


def attack(
    promise: str, silence_seconds_max: float = SILENCE_SECONDS_MAX
) -> Callable[[Callable[[Field], None]], Callable[[Field], None]]:
    """Add a function to the attacks, by its name with dashes."""

    def add(play: Callable[[Field], None]) -> Callable[[Field], None]:
        name = play.__name__.replace("_", "-")
        if name in ATTACKS:
            raise ValueError(f"two attacks have the name {name}")
        ATTACKS[name] = Attack(name, promise, play, silence_seconds_max)
        return play

    return add
