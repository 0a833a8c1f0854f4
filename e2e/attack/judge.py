"""What honest clients were promised, compared with what they wrote down and with what the brokers hold.

A journal has a line `TIME PARTITION OFFSET VALUE` for each record, or `TIME failed VALUE WHY` (e2e/clients/honest.py).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

_SHOWN_MAX = 5
Place = tuple[int, int]
"""A partition and an offset."""


@dataclass(slots=True)
class Judge:
    """All that was written down so far. Clients are named `producer-…` or `consumer-…`."""

    acknowledged: dict[Place, str] = field(default_factory=dict)
    delivered: dict[Place, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    _times: dict[str, list[float]] = field(default_factory=dict)
    _rests: dict[str, str] = field(default_factory=dict)

    def take(self, client: str, text: str) -> None:
        """Add what a client's journal has more than before; its last line may be cut off."""
        *lines, self._rests[client] = (self._rests.get(client, "") + text).split("\n")
        times = self._times.setdefault(client, [])
        found = self.acknowledged if client.startswith("producer") else self.delivered
        for line in lines:
            at, partition, rest = line.split(" ", 2)
            if partition == "failed":
                self.failed.append(f"{client}: {rest}")
                continue
            offset, _, value = rest.partition(" ")
            found[int(partition), int(offset)] = value
            times.append(float(at))

    def silence(self, kind: str, since: float, until: float) -> float:
        """The longest time of a window, in seconds, in which any one client of a kind had no record."""
        return max(
            (
                _longest_gap(times, since, until)
                for name, times in self._times.items()
                if name.startswith(kind)
            ),
            default=until - since,
        )

    def complaints(self, held: Iterable[tuple[int, int, str]], begin: dict[int, int]) -> list[str]:
        """What is wrong with the records that brokers hold from the offsets `begin` on; each complaint for a person."""
        there: dict[Place, str] = {}
        copies: Counter[str] = Counter()
        for partition, offset, value in held:
            there[partition, offset] = value
            copies[value] += 1
        promised = {
            place: value for place, value in self.acknowledged.items() if place[1] >= begin.get(place[0], 0)
        }
        lost = [f"{place} {value}" for place, value in promised.items() if there.get(place) != value]
        given_otherwise = [
            f"{place} {value}"
            for place, value in self.delivered.items()
            if place[1] >= begin.get(place[0], 0) and there.get(place) != value
        ]
        doubled = [value for value, count in copies.items() if count > 1]
        return [
            f"{len(found)} records {what}: {', '.join(found[:_SHOWN_MAX])}"
            for found, what in (
                (lost, "were acknowledged and are lost"),
                (given_otherwise, "were given to consumers and are not there"),
                (doubled, "are there twice"),
                (self.failed, "failed for good"),
            )
            if found
        ]

    def missing(self) -> list[Place]:
        """Records that were acknowledged, and that no consumer was given yet."""
        return [place for place in self.acknowledged if place not in self.delivered]

    def ends(self) -> dict[int, int]:
        """The offset behind the last acknowledged record of each partition."""
        found: dict[int, int] = {}
        for partition, offset in self.acknowledged:
            found[partition] = max(found.get(partition, 0), offset + 1)
        return found


def _longest_gap(times: list[float], since: float, until: float) -> float:
    """`times` are in order. What began before the window counts from its begin."""
    inside = times[bisect_left(times, since) : bisect_right(times, until)]
    return max(after - before for before, after in pairwise((since, *inside, until)))
