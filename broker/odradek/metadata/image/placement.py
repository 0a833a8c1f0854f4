"""Chooses the brokers for the partitions of a new topic.

The leaders (first replicas) go around the brokers, from a random start. The followers of a partition begin at a shift
that grows by one in each round. So the load of a lost broker spreads over all others. A topic that gets more partitions
starts where its old and new leaders together are spread best. With racks, the order of brokers alternates between
racks, and so do the leaders. A partition has a second replica in a rack only when it has one in every other rack with a
free broker.

Brokers that are away get the replicas that are left: they come last, and never lead. As with Kafka, racks count more
than that: a partition is rather on a broker that is away than twice in one rack.

Brokers of one machine die together, so a partition never has two replicas there. The order of the brokers of a rack
alternates between its machines. Racks are balanced as before, among the brokers whose machines are free.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import Final

from odradek.foundation.errors import InvalidPartitions, InvalidReplicaAssignment, InvalidReplicationFactor
from odradek.foundation.words import count

_NOBODY: Final[Mapping[int, str | None]] = MappingProxyType({})
_NO_MACHINES: Final[Mapping[int, str]] = MappingProxyType({})


def place(
    brokers: Mapping[int, str | None],
    *,
    partition_count: int,
    replication_factor: int,
    rng: random.Random,
    leaders: Sequence[int] = (),
    away: Mapping[int, str | None] = _NOBODY,
    machines: Mapping[int, str] = _NO_MACHINES,
) -> list[tuple[int, ...]]:
    """The replicas of each new partition, as `placements` has them."""
    return list(
        placements(
            brokers,
            partition_count=partition_count,
            replication_factor=replication_factor,
            rng=rng,
            leaders=leaders,
            away=away,
            machines=machines,
        )
    )


def placements(
    brokers: Mapping[int, str | None],
    *,
    partition_count: int,
    replication_factor: int,
    rng: random.Random,
    leaders: Sequence[int] = (),
    away: Mapping[int, str | None] = _NOBODY,
    machines: Mapping[int, str] = _NO_MACHINES,
) -> Iterator[tuple[int, ...]]:
    """The replicas of each new partition, leaders first, found as they are asked for.

    `brokers` are the racks by live broker id, `away` those of known brokers that cannot lead now. `machines` are the
    machines of brokers that share one. `leaders` are the preferred leaders of the partitions that the topic already
    has. Raises InvalidPartitions and
    InvalidReplicationFactor.
    """
    if partition_count < 1:
        raise InvalidPartitions(f"the number of partitions is {partition_count}; it must be at least 1")
    if replication_factor < 1:
        raise InvalidReplicationFactor(
            f"the replication factor is {replication_factor}; it must be at least 1"
        )
    if not brokers and away:
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {replication_factor} time(s): All brokers are currently fenced or in "
            f"controlled shutdown, or accept no new replicas; start one of {sorted(away)}"
        )
    racks = {**brokers, **away}
    if replication_factor > len(racks):
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {replication_factor} time(s): only {len(racks)} broker(s) are "
            "registered and accept new replicas; ask for fewer replicas or start more brokers"
        )
    machine_count = count_machines(racks, machines)
    if replication_factor > machine_count:
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {replication_factor} time(s): the brokers run on "
            f"{count(machine_count, 'machine')}, and no machine has two replicas; ask for fewer or add machines"
        )
    order = _alternate_racks(brokers, machines)
    first_partition = len(leaders)
    start = _even_start(order, leaders, added=partition_count, start=rng.randrange(len(order)))
    numbers = range(first_partition, first_partition + partition_count)
    return _place_replicas(
        numbers,
        order,
        racks,
        machines,
        away=_alternate_racks(away, machines),
        start=start,
        shift=rng.randrange(len(order)),
        wanted=replication_factor,
    )


def count_machines(brokers: Collection[int], machines: Mapping[int, str]) -> int:
    """On how many machines the brokers run. One without a name is a machine of its own."""
    return len({machines.get(broker_id, broker_id) for broker_id in brokers})


def _place_replicas(
    numbers: Sequence[int],
    order: Sequence[int],
    racks: Mapping[int, str | None],
    machines: Mapping[int, str],
    *,
    away: Sequence[int],
    start: int,
    shift: int,
    wanted: int,
) -> Iterator[tuple[int, ...]]:
    count = len(order)
    must_choose = len(set(racks.values())) > 1 or count_machines(racks, machines) < len(racks)
    # Without racks and machines, the followers are the first of the others. There may be hundreds.
    looked_at = count - 1 if must_choose else min(wanted, count) - 1
    away_looked_at = len(away) if must_choose else wanted - 1 - looked_at
    for number in numbers:
        if number > 0 and number % count == 0:
            shift += 1
        leader = (start + number) % count
        others = [order[(leader + 1 + (shift + step) % (count - 1)) % count] for step in range(looked_at)]
        others += [away[(number + step) % len(away)] for step in range(away_looked_at)]
        if len(others) == wanted - 1:
            yield order[leader], *others
        else:
            yield _over_racks(order[leader], others, racks, machines, wanted=wanted)


def _even_start(order: Sequence[int], leaders: Sequence[int], *, added: int, start: int) -> int:
    """The start that spreads the leaders of old and new partitions best; `start` itself if none is better."""
    if not leaders:
        return start
    count, led = len(order), Counter(leaders)
    # Whole rounds give each broker the same number.
    rest = range(len(leaders), len(leaders) + added % count)

    def sum_of_squares(candidate: int) -> int:
        more = {(candidate + number) % count for number in rest}
        return sum((led[broker_id] + (place in more)) ** 2 for place, broker_id in enumerate(order))

    return min(((start + step) % count for step in range(count)), key=sum_of_squares)


def _over_racks(
    leader: int,
    others: Iterable[int],
    racks: Mapping[int, str | None],
    machines: Mapping[int, str],
    *,
    wanted: int,
) -> tuple[int, ...]:
    """The leader and as many of `others` as needed, in their order; racks with fewer replicas come first.

    A machine has at most one of them.
    """
    chosen = [leader]
    taken = Counter((racks[leader],))
    while len(chosen) < wanted:
        machine = machines.get(chosen[-1], chosen[-1])
        others = [other for other in others if machines.get(other, other) != machine]
        broker_id = min(others, key=lambda other: taken[racks[other]])
        others.remove(broker_id)
        chosen.append(broker_id)
        taken[racks[broker_id]] += 1
    return tuple(chosen)


def _alternate_racks(brokers: Mapping[int, str | None], machines: Mapping[int, str]) -> list[int]:
    racks: dict[str | None, dict[int | str, list[int]]] = {}
    for broker_id in sorted(brokers):
        of_rack = racks.setdefault(brokers[broker_id], {})
        of_rack.setdefault(machines.get(broker_id, broker_id), []).append(broker_id)
    return _alternate(
        [_alternate(list(racks[rack].values())) for rack in sorted(racks, key=lambda rack: rack or "")]
    )


def _alternate(queues: Sequence[Sequence[int]]) -> list[int]:
    """One of each queue in turn."""
    return [one for turn in zip_longest(*queues) for one in turn if one is not None]


def check_assignment(
    assignment: Sequence[tuple[int, ...]],
    *,
    brokers: Mapping[int, str | None],
    active: Collection[int],
    machines: Mapping[int, str] = _NO_MACHINES,
    first: int = 0,
) -> list[tuple[int, ...]]:
    """A client's own assignment, partition by partition from `first`. Raises InvalidReplicaAssignment.

    `brokers` may be given replicas; one of each partition has to be in `active`, to lead.
    """
    factor = len(assignment[0]) if assignment else 0
    for number, replicas in enumerate(assignment, start=first):
        if not replicas:
            raise InvalidReplicaAssignment(f"partition {number} is assigned to no broker; give at least one")
        if len(set(replicas)) < len(replicas):
            raise InvalidReplicaAssignment(
                f"partition {number} is assigned to {list(replicas)}, which names a broker twice"
            )
        unknown = [broker_id for broker_id in replicas if broker_id not in brokers]
        if unknown:
            raise InvalidReplicaAssignment(
                f"partition {number} is assigned to {list(replicas)}, but the brokers {unknown} are not registered or "
                f"accept no new replicas; choose from {sorted(brokers)}"
            )
        if len(replicas) != factor:
            raise InvalidReplicaAssignment(
                f"partition {number} has {count(len(replicas), 'replica')} and partition {first} has {factor}; "
                "give all the same number"
            )
        if count_machines(replicas, machines) < len(replicas):
            raise InvalidReplicaAssignment(
                f"partition {number} is assigned to {list(replicas)}, of which several run on one machine; name "
                "brokers of different machines (`odradek brokers list`)"
            )
        if not any(broker_id in active for broker_id in replicas):
            raise InvalidReplicaAssignment(
                f"All brokers specified in the manual partition assignment for partition {number} are fenced or in "
                f"controlled shutdown; name at least one of {sorted(active)}"
            )
    return list(assignment)
