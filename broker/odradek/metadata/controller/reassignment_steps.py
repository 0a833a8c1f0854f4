"""The steps by which a partition moves to other brokers (KIP-455). Pure: each maps a partition to its next state.

One write begins a reassignment. The replicas are then the new and the old ones together, the new ones first, with
notes of which are `adding` and which `removing`. The new ones catch up as followers do. When all that stay are in
sync, another write ends it: the old ones leave, and the leadership moves if its holder is among them. Nothing lies
between the two writes, so a controller may die at any moment, and the next one continues from what is written.

Where a broker leaves, a new leader epoch begins, also under the same leader. The broker may learn of it late and keep
fetching. If it were assigned again before that, the leader would count what it has. The broker would still delete that
when it learns that it had left. In the new epoch the leader refuses it until it has learned.

As with `leader_election`, None means that nothing changes, and `partition_epoch` keeps its value.

Where a reassignment replaces one under way, replicas that only the first one was adding leave at once. So a
cancellation returns to the replicas before the first one, as in KIP-455. There is one exception: without such replicas,
fewer than min.insync.replicas might be in sync or eligible (`eligible_replicas`). Acknowledged records would be on
fewer brokers than promised, so such replicas stay until the second one ends. (Kafka 4 always keeps such replicas, and
for ever if the second reassignment is cancelled.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from odradek.foundation.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    NoReassignmentInProgress,
)
from odradek.foundation.ids import TopicPartition
from odradek.metadata.controller import leader_election
from odradek.metadata.image.image import NO_LEADER, PartitionImage

_NO_MACHINES: Final[Mapping[int, str]] = MappingProxyType({})


def is_under_way(partition: PartitionImage) -> bool:
    """Whether the partition is being reassigned."""
    return bool(partition.adding or partition.removing)


def target(partition: PartitionImage) -> tuple[int, ...]:
    """The replicas that the partition will have when nothing is under way any more."""
    return tuple(broker for broker in partition.replicas if broker not in partition.removing)


def original(partition: PartitionImage) -> tuple[int, ...]:
    """The replicas that the partition has had before the reassignment under way."""
    return tuple(broker for broker in partition.replicas if broker not in partition.adding)


def check_target(
    where: TopicPartition,
    partition: PartitionImage,
    wanted: Sequence[int],
    *,
    placeable: Collection[int],
    known: Collection[int],
    machines: Mapping[int, str] = _NO_MACHINES,
    may_change_factor: bool,
) -> None:
    """Raises InvalidReplicaAssignment or InvalidReplicationFactor for replicas that `where` cannot be given.

    `placeable` are the brokers that may be given replicas: those that the cluster knows (`known`), without cordoned
    ones. One that has the partition already may keep it, also on a machine (`machines`) that has it twice.
    """
    if not wanted:
        raise InvalidReplicaAssignment(f"{where} is assigned to no broker; give at least one")
    if len(set(wanted)) < len(wanted):
        raise InvalidReplicaAssignment(
            f"{where} is assigned to {list(wanted)}, which names a broker twice; name each once"
        )
    for broker in wanted:
        if broker in placeable or broker in partition.replicas:
            continue
        if broker in known:
            raise InvalidReplicaAssignment(
                f"{where} is assigned to {list(wanted)}, but broker {broker} is cordoned and takes no new replicas; "
                "lift that, or choose another broker"
            )
        raise InvalidReplicaAssignment(
            f"{where} is assigned to {list(wanted)}, but no broker {broker} is registered; those that are: "
            f"{sorted(known)}"
        )
    settled = original(partition)
    for number, broker in enumerate(wanted):
        machine = machines.get(broker)
        others = [
            other for other in wanted[:number] if machine is not None and machines.get(other) == machine
        ]
        if others and not {broker, *others} <= set(settled):
            raise InvalidReplicaAssignment(
                f"{where} is assigned to {list(wanted)}, but the brokers {others[0]} and {broker} run on one machine; "
                "name brokers of different machines (`odradek brokers list`)"
            )
    factor = len(target(partition))
    if not may_change_factor and len(wanted) != factor:
        # Kafka's words, which its tools print behind the partition.
        raise InvalidReplicationFactor(f"The replication factor is changed from {factor} to {len(wanted)}")


def begin_move(
    partition: PartitionImage, wanted: Sequence[int], *, live: Collection[int], min_in_sync: int
) -> PartitionImage | None:
    """The reassignment to `wanted`, which was checked, is under way, in place of any other; or done, where no replica
    has to catch up. `min_in_sync` is the topic's min.insync.replicas.
    """
    before = original(partition)
    superseded = [broker for broker in partition.adding if broker not in wanted]
    isr = tuple(broker for broker in partition.isr if broker not in superseded)
    if not _enough_stay(partition, superseded, min_in_sync=min_in_sync):
        # Too few others have what was acknowledged, so they stay until more have it.
        having_all = _having_all(partition)
        before += tuple(broker for broker in superseded if broker in having_all)
        isr = partition.isr
    removing = tuple(sorted(broker for broker in before if broker not in wanted))
    after = partition._replace(
        replicas=(*wanted, *removing),
        isr=isr,
        adding=tuple(sorted(broker for broker in wanted if broker not in before)),
        removing=removing,
    )
    after = _ensure_leader(after, live=live)
    after = _fence_who_left(partition, complete_move(after, live=live) or after)
    return after if after != partition else None


def complete_move(partition: PartitionImage, *, live: Collection[int]) -> PartitionImage | None:
    """The end of a reassignment: all that are to stay are in sync, so the others go.

    It waits while none of those could lead.
    """
    if not is_under_way(partition):
        return None
    staying = target(partition)
    if not set(staying) <= set(partition.isr):
        return None
    isr = tuple(broker for broker in partition.isr if broker not in partition.removing)
    after = _ensure_leader(partition._replace(replicas=staying, isr=isr, adding=(), removing=()), live=live)
    return _fence_who_left(partition, after) if after.leader != NO_LEADER else None


def cancel_move(
    where: TopicPartition,
    partition: PartitionImage,
    *,
    live: Collection[int],
    min_in_sync: int,
    unclean: bool,
) -> PartitionImage:
    """Back to the original replicas. Raises NoReassignmentInProgress. Raises InvalidReplicaAssignment where too few of
    them have what was acknowledged (Kafka: where none has) and the topic does not allow unclean elections (`unclean`).
    """
    if not is_under_way(partition):
        raise NoReassignmentInProgress(f"{where} is not being reassigned.")
    replicas = original(partition)
    isr = tuple(broker for broker in partition.isr if broker not in partition.adding)
    is_safe = bool(isr) and _enough_stay(partition, partition.adding, min_in_sync=min_in_sync)
    if not is_safe and not unclean:
        having_all = sorted(_having_all(partition).difference(partition.adding))
        raise InvalidReplicaAssignment(
            f"the reassignment of {where} cannot be cancelled: of {list(replicas)} {list(isr)} are in sync and "
            f"{having_all} have all that was acknowledged. One has to be in sync and "
            f"{_count_needed(partition, min_in_sync)} have to have all, since unclean.leader.election.enable is false. "
            "Wait for another to catch up, or move the partition elsewhere."
        )
    isr = isr or (next((broker for broker in replicas if broker in live), replicas[0]),)
    after = _ensure_leader(partition._replace(replicas=replicas, isr=isr, adding=(), removing=()), live=live)
    return _fence_who_left(partition, after)


def _having_all(partition: PartitionImage) -> set[int]:
    """The replicas that have what was acknowledged."""
    return {*partition.isr, *partition.elr}


def _count_needed(partition: PartitionImage, min_in_sync: int) -> int:
    """The number of replicas that have to keep what was acknowledged; no more than have it now."""
    having_all = len(_having_all(partition))
    # Without a leader no value of min.insync.replicas applies.
    return having_all if partition.leader == NO_LEADER else min(min_in_sync, having_all)


def _enough_stay(partition: PartitionImage, leaving: Collection[int], *, min_in_sync: int) -> bool:
    """Whether without `leaving` enough have what was acknowledged, and one is in sync if one is now."""
    is_in_sync = not partition.isr or not set(partition.isr) <= set(leaving)
    return is_in_sync and len(_having_all(partition).difference(leaving)) >= _count_needed(
        partition, min_in_sync
    )


def _fence_who_left(before: PartitionImage, after: PartitionImage) -> PartitionImage:
    if after.leader_epoch > before.leader_epoch or set(before.replicas) <= set(after.replicas):
        return after
    return after._replace(leader_epoch=before.leader_epoch + 1)


def _ensure_leader(partition: PartitionImage, *, live: Collection[int]) -> PartitionImage:
    """With another leader, or none, where the one there was is no replica or not in sync any more."""
    if partition.leader in partition.replicas and partition.leader in partition.isr:
        return partition
    vacant = partition._replace(leader=NO_LEADER)
    led = leader_election.elect_leader(vacant, live=live)
    if led is not None:
        return led
    if partition.leader == NO_LEADER:
        return partition
    return vacant._replace(leader_epoch=partition.leader_epoch + 1)
