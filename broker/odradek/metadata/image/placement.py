"""Chooses the brokers for the partitions of a new topic.

The leaders (first replicas) go around the brokers, from a random start. The followers of a partition begin at a shift
that grows by one in each round. So the load of a lost broker spreads over all others. A topic that gets more partitions
starts where its old and new leaders together are spread best. With racks, the order of brokers alternates between
racks, and so do the leaders. A partition has a second replica in a rack only when it has one in every other rack with a
free broker.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from odradek.foundation.errors import InvalidPartitions, InvalidReplicaAssignment, InvalidReplicationFactor
from odradek.foundation.words import count


def place(
    brokers: Mapping[int, str | None],
    *,
    partition_count: int,
    replication_factor: int,
    rng: random.Random,
    leaders: Sequence[int] = (),
) -> list[tuple[int, ...]]:
    """The replicas of each new partition, as `placements` has them."""
    return list(
        placements(
            brokers,
            partition_count=partition_count,
            replication_factor=replication_factor,
            rng=rng,
            leaders=leaders,
        )
    )


def placements(
    brokers: Mapping[int, str | None],
    *,
    partition_count: int,
    replication_factor: int,
    rng: random.Random,
    leaders: Sequence[int] = (),
) -> Iterator[tuple[int, ...]]:
    """The replicas of each new partition, leaders first, found as they are asked for.

    `brokers` are the racks by live broker id; `leaders` are the preferred leaders of the partitions that the topic
    already has. Raises InvalidPartitions and InvalidReplicationFactor.
    """
    if partition_count < 1:
        raise InvalidPartitions(f"the number of partitions is {partition_count}; it must be at least 1")
    if replication_factor < 1:
        raise InvalidReplicationFactor(
            f"the replication factor is {replication_factor}; it must be at least 1"
        )
    if replication_factor > len(brokers):
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {replication_factor} time(s): only {len(brokers)} broker(s) are "
            "registered and accept new replicas; ask for fewer replicas or start more brokers"
        )
    order = _alternate_racks(brokers)
    count = len(order)
    first_partition = len(leaders)
    start = _even_start(order, leaders, added=partition_count, start=rng.randrange(count))
    numbers = range(first_partition, first_partition + partition_count)
    return _place_replicas(
        numbers, order, brokers, start=start, shift=rng.randrange(count), wanted=replication_factor
    )


def _place_replicas(
    numbers: Sequence[int],
    order: Sequence[int],
    racks: Mapping[int, str | None],
    *,
    start: int,
    shift: int,
    wanted: int,
) -> Iterator[tuple[int, ...]]:
    count = len(order)
    # Without racks, the followers are the first of the others. There may be hundreds.
    looked_at = count - 1 if len(set(racks.values())) > 1 else wanted - 1
    for number in numbers:
        if number > 0 and number % count == 0:
            shift += 1
        leader = (start + number) % count
        others = [order[(leader + 1 + (shift + step) % (count - 1)) % count] for step in range(looked_at)]
        if looked_at == wanted - 1:
            yield order[leader], *others
        else:
            yield _over_racks(order[leader], others, racks, wanted=wanted)


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
    leader: int, others: list[int], racks: Mapping[int, str | None], *, wanted: int
) -> tuple[int, ...]:
    """The leader and as many of `others` as needed, in their order; racks with fewer replicas come first."""
    chosen = [leader]
    taken = Counter((racks[leader],))
    while len(chosen) < wanted:
        broker_id = min(others, key=lambda other: taken[racks[other]])
        others.remove(broker_id)
        chosen.append(broker_id)
        taken[racks[broker_id]] += 1
    return tuple(chosen)


def _alternate_racks(brokers: Mapping[int, str | None]) -> list[int]:
    racks: dict[str | None, list[int]] = {}
    for broker_id in sorted(brokers):
        racks.setdefault(brokers[broker_id], []).append(broker_id)
    order: list[int] = []
    queues = [racks[rack] for rack in sorted(racks, key=lambda rack: rack or "")]
    while any(queues):
        order.extend(queue.pop(0) for queue in queues if queue)
    return order


def check_assignment(
    assignment: Sequence[tuple[int, ...]], *, brokers: Mapping[int, str | None]
) -> list[tuple[int, ...]]:
    """A client's own assignment, partition by partition from the first. Raises InvalidReplicaAssignment."""
    factor = len(assignment[0]) if assignment else 0
    for number, replicas in enumerate(assignment):
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
                f"partition {number} has {count(len(replicas), 'replica')} and partition 0 has {factor}; "
                "give all the same number"
            )
    return list(assignment)
