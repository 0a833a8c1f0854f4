"""The choice of brokers for each partition when the number of replicas changes. Pure.

Replicas that stay are those that need no copying: the leader first, then those in sync. New ones go where the topic has
fewest, on racks that the partition is not on, and never on a machine that it is on. Nothing else moves: evening out a
cluster is not a Topic's business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from odradek_operator.gateways.topic_values import ActualPartition

_NO_MACHINES: Final[Mapping[int, str]] = MappingProxyType({})


def with_replicas(
    partitions: Sequence[ActualPartition],
    wanted: int,
    *,
    brokers: Mapping[int, str | None],
    machines: Mapping[int, str] = _NO_MACHINES,
) -> dict[int, tuple[int, ...]]:
    """The replicas of each partition that has not `wanted` of them, preferred leader first; `brokers` by id with racks.

    `machines` are those of brokers that share one. Raises ValueError when there are too few brokers.
    """
    if wanted > len(brokers):
        raise ValueError(f"{wanted} replicas need {wanted} brokers, and the cluster has {len(brokers)}")
    machine_count = len({machines.get(broker, broker) for broker in brokers})
    if wanted > machine_count:
        raise ValueError(f"{wanted} replicas need {wanted} machines, and the cluster has {machine_count}")
    load = Counter(broker for partition in partitions for broker in partition.lasting)
    changed: dict[int, tuple[int, ...]] = {}
    for partition in partitions:
        if len(partition.lasting) == wanted:
            continue
        kept = _replicas_to_keep(partition, wanted)
        for broker in set(partition.lasting) - set(kept):
            load[broker] -= 1
        while len(kept) < wanted:
            broker = _next_broker(kept, brokers=brokers, machines=machines, load=load, turn=partition.number)
            load[broker] += 1
            kept.append(broker)
        changed[partition.number] = tuple(kept)
    return changed


def _replicas_to_keep(partition: ActualPartition, wanted: int) -> list[int]:
    def rank(broker: int) -> tuple[bool, bool, int]:
        return (
            broker != partition.leader,
            broker not in partition.in_sync,
            partition.lasting.index(broker),
        )

    staying = set(sorted(partition.lasting, key=rank)[:wanted])
    # In the order that they had: the first one is the preferred leader, and stays it where it stays at all.
    return [broker for broker in partition.lasting if broker in staying]


def _next_broker(
    kept: Sequence[int],
    *,
    brokers: Mapping[int, str | None],
    machines: Mapping[int, str],
    load: Mapping[int, int],
    turn: int,
) -> int:
    used = {machines.get(broker, broker) for broker in kept}
    racks = {brokers.get(broker) for broker in kept} - {None}

    def rank(broker: int) -> tuple[bool, int, int]:
        # Among equals another one for each partition, so that they do not all go to the same.
        return brokers[broker] in racks, load.get(broker, 0), (broker - turn) % (max(brokers) + 1)

    return min((broker for broker in brokers if machines.get(broker, broker) not in used), key=rank)
