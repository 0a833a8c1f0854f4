"""Plans of reassignments, as pure functions: from the present assignment to the partitions that change.

    drain     brokers give all their replicas to those with the fewest
    spread    brokers with more replicas give some to those with fewer, as after brokers were added
    factor    partitions get more replicas, or fewer

All plans follow the same rules. A partition has no broker twice, and no machine where brokers share machines. Its
replicas are in at least as many racks as before. What leaves a broker goes to another one of its machine if it can.
Moves are as few as possible. Brokers get equally many replicas and, among the partitions that move, equally
many preferred leaders. The same input always gives the same plan. Replicas are counted, not bytes.

What it leaves out: requests to brokers (`reassignments`, `brokers`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from odradek.foundation.errors import InvalidReplicationFactor
from odradek.foundation.ids import TopicPartition
from odradek.foundation.words import count

Assignment = Mapping[TopicPartition, tuple[int, ...]]
"""The replicas of each partition, the preferred leader first."""
Plan = dict[TopicPartition, tuple[int, ...]]
"""The new replicas of the partitions that change."""
Racks = Mapping[int, str | None]
"""The racks of the brokers that may receive replicas."""
Machines = Mapping[int, str]
"""The machines of the brokers that share one with others (`broker.machine`)."""
_NO_MACHINES: Final[Machines] = MappingProxyType({})

_NO_RACK: Final = ""


def plan_drain(
    assignment: Assignment, racks: Racks, *, leaving: Collection[int], machines: Machines = _NO_MACHINES
) -> Plan:
    """Every replica on the `leaving` brokers moves to another broker. Raises InvalidReplicationFactor if too few
    brokers are left for a partition's replicas.
    """
    placement = _Placement(
        assignment, {broker: rack for broker, rack in racks.items() if broker not in leaving}, machines
    )
    for where in _in_order(assignment):
        staying = [broker for broker in assignment[where] if broker not in leaving]
        left = [broker for broker in assignment[where] if broker in leaving]
        for broker in left:
            staying.append(placement.choose(where, staying, wanted=len(assignment[where]), instead_of=broker))
            placement.replicas[staying[-1]] += 1
        if left:
            placement.assign(where, tuple(staying))
    return placement.plan()


def plan_spread(
    assignment: Assignment,
    racks: Racks,
    *,
    onto: Collection[int] | None = None,
    machines: Machines = _NO_MACHINES,
) -> Plan:
    """The numbers of replicas of brokers differ by one at most. With `onto` only those brokers receive any."""
    placement = _Placement(assignment, racks, machines)
    donors = _Donors(placement)
    receivers = set(racks if onto is None else onto) & racks.keys()
    while receivers:
        receiver = min(receivers, key=lambda broker: (placement.replicas[broker], broker))
        if not donors.give_to(receiver):
            receivers.discard(receiver)
    return placement.plan()


def plan_factor(
    assignment: Assignment,
    racks: Racks,
    *,
    topics: Collection[str],
    factor: int,
    machines: Machines = _NO_MACHINES,
) -> Plan:
    """Every partition of `topics` gets `factor` replicas. Raises InvalidReplicationFactor."""
    if factor < 1:
        raise InvalidReplicationFactor(f"the replication factor is {factor}; it must be at least 1")
    placement = _Placement(assignment, racks, machines)
    for where in _in_order(assignment):
        replicas = list(assignment[where])
        if where.topic not in topics or len(replicas) == factor:
            continue
        while len(replicas) < factor:
            replicas.append(placement.choose(where, replicas, wanted=factor))
            placement.replicas[replicas[-1]] += 1
        while len(replicas) > factor:
            replicas.remove(placement.best_to_remove(replicas))
        placement.assign(where, tuple(replicas), keeps_leader=assignment[where][0] in racks)
    return placement.plan()


def _in_order(assignment: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Partitions of all topics alternate. So replicas that are spread in this order are spread for each topic too."""
    return sorted(assignment, key=lambda where: (where.partition, where.topic))


class _Placement:
    """An assignment that is changed, with the count of each broker."""

    def __init__(self, assignment: Assignment, racks: Racks, machines: Machines) -> None:
        self.before = assignment
        self.racks = racks
        self._machines = machines
        self.now = dict(assignment)
        self.replicas = Counter(broker for replicas in assignment.values() for broker in replicas)
        self._keeps_leader: set[TopicPartition] = set()

    def rack(self, broker: int) -> str:
        return self.racks.get(broker) or _NO_RACK

    def machine(self, broker: int) -> str | int:
        """One without a name is a machine of its own."""
        return self._machines.get(broker, broker)

    def choose(
        self, where: TopicPartition, others: Collection[int], *, wanted: int, instead_of: int | None = None
    ) -> int:
        """The best broker for one more replica besides `others`. One on the machine of `instead_of` comes first. Then
        the rack with the fewest of them counts, and the fewest replicas.
        """
        taken = Counter(self.rack(broker) for broker in others)
        used = {self.machine(broker) for broker in others}
        fit = [broker for broker in self.racks if self.machine(broker) not in used]
        if not fit:
            machines = len({self.machine(broker) for broker in self.racks})
            able = count(len(self.racks), "broker")
            if machines < len(self.racks):
                able += f" on {count(machines, 'machine')}"
            raise InvalidReplicationFactor(
                f"{where} needs {count(wanted, 'replica')} and only {able} can take one: {sorted(self.racks)}; "
                "add brokers or lower its replication factor"
            )
        here = None if instead_of is None else self.machine(instead_of)
        return min(
            fit,
            key=lambda broker: (
                self.machine(broker) != here,
                taken[self.rack(broker)],
                self.replicas[broker],
                broker,
            ),
        )

    def best_to_remove(self, replicas: list[int]) -> int:
        """The replica to remove: on a missing broker, else in a shared rack, else on the fullest broker. The first
        replica is removed only from a missing broker.
        """

        def score(broker: int) -> tuple[bool, bool, bool, int, int]:
            rest = [self.rack(other) for other in replicas if other != broker]
            is_first = broker == replicas[0] and broker in self.racks
            return (
                broker in self.racks,
                is_first,
                self.rack(broker) not in rest,
                -self.replicas[broker],
                -broker,
            )

        return min(replicas, key=score)

    def keeps_apart(self, where: TopicPartition, donor: int, receiver: int) -> bool:
        """Whether the partition's replicas are in as many racks as before after a move, and on different machines."""
        staying = (self.machine(broker) for broker in self.now[where] if broker != donor)
        if self.machine(receiver) in staying:
            return False
        rest = {self.rack(broker) for broker in self.now[where] if broker != donor}
        return self.rack(receiver) not in rest or self.rack(donor) in rest

    def assign(self, where: TopicPartition, replicas: tuple[int, ...], *, keeps_leader: bool = False) -> None:
        """With `keeps_leader` the first replica stays first, whatever the number of leaders on each broker."""
        self.now[where] = replicas
        if keeps_leader:
            self._keeps_leader.add(where)

    def plan(self) -> Plan:
        """The partitions that change, with preferred leaders spread equally over brokers."""
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


class _Donors:
    """Takes single replicas from the brokers with the most."""

    def __init__(self, placement: _Placement) -> None:
        self._placement = placement
        self._order = _in_order(placement.now)
        self._candidates: dict[tuple[int, int], Iterator[TopicPartition]] = {}

    def give_to(self, receiver: int) -> bool:
        """Move one replica to `receiver` from the fullest broker that can give one. Returns False when none can."""
        placement = self._placement
        fullest_first = sorted(placement.racks, key=lambda broker: (-placement.replicas[broker], broker))
        for donor in fullest_first:
            if placement.replicas[donor] - placement.replicas[receiver] <= 1:
                return False
            where = next(self._from(donor, receiver), None)
            if where is not None:
                moved = tuple(receiver if broker == donor else broker for broker in placement.now[where])
                placement.assign(where, moved)
                placement.replicas[donor] -= 1
                placement.replicas[receiver] += 1
                return True
        return False

    def _from(self, donor: int, receiver: int) -> Iterator[TopicPartition]:
        """Each partition is considered once for each pair; otherwise a plan for thousands would take minutes."""
        if (donor, receiver) not in self._candidates:
            placement = self._placement
            self._candidates[donor, receiver] = (
                where
                for where in self._order
                if donor in placement.now[where]
                and receiver not in placement.now[where]
                and placement.keeps_apart(where, donor, receiver)
            )
        return self._candidates[donor, receiver]
