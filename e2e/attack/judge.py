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
    _acknowledged_at: dict[Place, float] = field(default_factory=dict)
    _delivered_at: dict[Place, float] = field(default_factory=dict)
    _times: dict[str, list[float]] = field(default_factory=dict)
    _rests: dict[str, str] = field(default_factory=dict)

    def take(self, client: str, text: str) -> None:
        """Add what a client's journal has more than before; its last line may be cut off."""
        *lines, self._rests[client] = (self._rests.get(client, "") + text).split("\n")
        times = self._times.setdefault(client, [])
        is_producer = client.startswith("producer")
        found = self.acknowledged if is_producer else self.delivered
        found_at = self._acknowledged_at if is_producer else self._delivered_at
        for line in lines:
            at, partition, rest = line.split(" ", 2)
            if partition == "failed":
                self.failed.append(f"{client}: {rest}")
                continue
            offset, _, value = rest.partition(" ")
            place = int(partition), int(offset)
            found[place] = value
            found_at.setdefault(place, float(at))
            times.append(float(at))

    def seen_since(self, since: float) -> set[str]:
        """The clients that have had a record since a time."""
        return {name for name, times in self._times.items() if times and times[-1] > since}

    def producers_silence(self, since: float, until: float) -> float:
        """The longest time of a window, in seconds, in which any one producer had no acknowledgement."""
        return max(
            (
                _longest_gap(times, since, until)
                for name, times in self._times.items()
                if name.startswith("producer")
            ),
            default=until - since,
        )

    def consumers_silence(self, since: float, until: float) -> float:
        """The longest time of a window in which the group had no record, or an acknowledged one waited for it.

        A member that has no partitions for a while is not silent: another member has them.
        """
        together = sorted(
            at for name, times in self._times.items() if name.startswith("consumer") for at in times
        )
        waits = (
            self._delivered_at.get(place, until) - max(at, since)
            for place, at in self._acknowledged_at.items()
            if since <= self._delivered_at.get(place, until) and at <= until
        )
        return max(_longest_gap(together, since, until), max(waits, default=0.0))

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
    """`times` are ascending. What began before the window counts from its begin."""
    inside = times[bisect_left(times, since) : bisect_right(times, until)]
    return max(after - before for before, after in pairwise((since, *inside, until)))
