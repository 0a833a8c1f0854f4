"""Which partitions should move where: pure, from who keeps what now to the partitions that are to be kept otherwise.

    drain     brokers lose all that they have, to those with the least
    spread    brokers that have more than others give to those that have less, as when brokers were added
    factor    partitions get more replicas, or fewer

All plans keep to the same rules: no broker twice in a partition, replicas in as many racks as before or more, as few
moves as possible, brokers with equally many replicas and, among the partitions that move, preferred leaders. The same
question always has the same answer. Replicas are counted, not bytes.

What it leaves out: asking and telling brokers (`reassignments`, `brokers`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from odradek.foundation.errors import InvalidReplicationFactor
from odradek.foundation.ids import TopicPartition
from odradek.foundation.words import count

Assignment = Mapping[TopicPartition, tuple[int, ...]]
"""The replicas of each partition, the preferred leader first."""
Plan = dict[TopicPartition, tuple[int, ...]]
"""The same for those that change."""
Racks = Mapping[int, str | None]
"""The racks of the brokers that may be given replicas."""

_NO_RACK: Final = ""


def plan_drain(assignment: Assignment, racks: Racks, *, leaving: Collection[int]) -> Plan:
    """Every partition that `leaving` keep gets other brokers in their place.

    Raises InvalidReplicationFactor where too few brokers are left for a partition's replicas.
    """
    places = _Places(assignment, {broker: rack for broker, rack in racks.items() if broker not in leaving})
    for where in _in_order(assignment):
        staying = [broker for broker in assignment[where] if broker not in leaving]
        missing = len(assignment[where]) - len(staying)
        for _ in range(missing):
            staying.append(places.choose(where, staying, wanted=len(assignment[where])))
            places.replicas[staying[-1]] += 1
        if missing:
            places.assign(where, tuple(staying))
    return places.plan()


def plan_spread(assignment: Assignment, racks: Racks, *, onto: Collection[int] | None = None) -> Plan:
    """Brokers come to have as many replicas as each other, give or take one; with `onto` only those are given any."""
    places = _Places(assignment, racks)
    givers = _Givers(places)
    hungry = set(racks if onto is None else onto) & racks.keys()
    while hungry:
        receiver = min(hungry, key=lambda broker: (places.replicas[broker], broker))
        if not givers.give_to(receiver):
            hungry.discard(receiver)
    return places.plan()


def plan_factor(assignment: Assignment, racks: Racks, *, topics: Collection[str], factor: int) -> Plan:
    """Every partition of `topics` gets `factor` replicas. Raises InvalidReplicationFactor."""
    if factor < 1:
        raise InvalidReplicationFactor(f"the replication factor is {factor}; it must be at least 1")
    places = _Places(assignment, racks)
    for where in _in_order(assignment):
        replicas = list(assignment[where])
        if where.topic not in topics or len(replicas) == factor:
            continue
        while len(replicas) < factor:
            replicas.append(places.choose(where, replicas, wanted=factor))
            places.replicas[replicas[-1]] += 1
        while len(replicas) > factor:
            replicas.remove(places.most_dispensable(replicas))
        places.assign(where, tuple(replicas), keeps_leader=assignment[where][0] in racks)
    return places.plan()


def _in_order(assignment: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Partitions of all topics alternate, so that what is spread in this order is spread for each topic too."""
    return sorted(assignment, key=lambda where: (where.partition, where.topic))


class _Places:
    """An assignment that is changed, and how much that is for each broker."""

    def __init__(self, assignment: Assignment, racks: Racks) -> None:
        self.before = assignment
        self.racks = racks
        self.now = dict(assignment)
        self.replicas = Counter(broker for replicas in assignment.values() for broker in replicas)
        self._keeps_leader: set[TopicPartition] = set()

    def rack(self, broker: int) -> str:
        return self.racks.get(broker) or _NO_RACK

    def choose(self, where: TopicPartition, others: Collection[int], *, wanted: int) -> int:
        """The best broker for one more replica besides `others`: in a rack with the fewest of them, with the least."""
        taken = Counter(self.rack(broker) for broker in others)
        fit = [broker for broker in self.racks if broker not in others]
        if not fit:
            raise InvalidReplicationFactor(
                f"{where} is to have {count(wanted, 'replica')} and only {count(len(self.racks), 'broker')} can "
                f"take one: {sorted(self.racks)}; add brokers or lower its replication factor"
            )
        return min(fit, key=lambda broker: (taken[self.rack(broker)], self.replicas[broker], broker))

    def most_dispensable(self, replicas: list[int]) -> int:
        """The one to go: away, or in the rack of another, or with the most; the first only if it is away."""

        def merit(broker: int) -> tuple[bool, bool, bool, int, int]:
            rest = [self.rack(other) for other in replicas if other != broker]
            is_first = broker == replicas[0] and broker in self.racks
            return (
                broker in self.racks,
                is_first,
                self.rack(broker) not in rest,
                -self.replicas[broker],
                -broker,
            )

        return min(replicas, key=merit)

    def keeps_racks(self, where: TopicPartition, giver: int, receiver: int) -> bool:
        """Whether the partition's replicas are in as many racks as before after a move."""
        rest = {self.rack(broker) for broker in self.now[where] if broker != giver}
        return self.rack(receiver) not in rest or self.rack(giver) in rest

    def assign(self, where: TopicPartition, replicas: tuple[int, ...], *, keeps_leader: bool = False) -> None:
        """With `keeps_leader` the first stays first, whoever leads how much."""
        self.now[where] = replicas
        if keeps_leader:
            self._keeps_leader.add(where)

    def plan(self) -> Plan:
        """What differs, with preferred leaders so that brokers lead equally many."""
        changed = [where for where in _in_order(self.now) if self.now[where] != self.before[where]]
        moving = set(changed) - self._keeps_leader
        leaders = Counter(replicas[0] for where, replicas in self.now.items() if where not in moving)
        plan: Plan = {}
        for where in changed:
            replicas = self.now[where]
            if where in moving:
                first = min(
                    (broker for broker in replicas if broker in self.racks),
                    key=lambda broker: (leaders[broker], replicas.index(broker)),
                    default=replicas[0],
                )
                leaders[first] += 1
                replicas = (first, *(broker for broker in replicas if broker != first))
            plan[where] = replicas
        return plan


class _Givers:
    """Takes single replicas from who has the most."""

    def __init__(self, places: _Places) -> None:
        self._places = places
        self._order = _in_order(places.now)
        self._candidates: dict[tuple[int, int], Iterator[TopicPartition]] = {}

    def give_to(self, receiver: int) -> bool:
        """Move one replica to `receiver` from the fullest broker that has one to give; False when nobody has."""
        places = self._places
        fullest_first = sorted(places.racks, key=lambda broker: (-places.replicas[broker], broker))
        for giver in fullest_first:
            if places.replicas[giver] - places.replicas[receiver] <= 1:
                return False
            where = next(self._from(giver, receiver), None)
            if where is not None:
                moved = tuple(receiver if broker == giver else broker for broker in places.now[where])
                places.assign(where, moved)
                places.replicas[giver] -= 1
                places.replicas[receiver] += 1
                return True
        return False

    def _from(self, giver: int, receiver: int) -> Iterator[TopicPartition]:
        """Each partition is looked at once for each pair, or planning for thousands would take minutes."""
        if (giver, receiver) not in self._candidates:
            places = self._places
            self._candidates[giver, receiver] = (
                where
                for where in self._order
                if giver in places.now[where]
                and receiver not in places.now[where]
                and places.keeps_racks(where, giver, receiver)
            )
        return self._candidates[giver, receiver]
