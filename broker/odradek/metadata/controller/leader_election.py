"""Which replica leads and which count as in sync: pure, each rule from a partition to the partition that follows.

Every function gives None when nothing changes. A new leader, or none, begins a new leader epoch; members that leave
the in-sync set under the same leader do not. `partition_epoch` is left as it was: it is the version of the registry's
node, and the write that makes the result true raises it.

Which replicas outside the in-sync set are eligible to lead is read here and kept up by `eligible_replicas`.

Sources: Kafka's design 4.7 (in-sync replicas, unclean election), KIP-497 (AlterPartition), KIP-841 (brokers that are
shutting down do not join it), KIP-966 (eligible leader replicas).
"""

from __future__ import annotations

from collections.abc import Collection

from odradek.foundation.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NotLeaderOrFollower,
)
from odradek.foundation.ids import TopicPartition
from odradek.metadata.image.image import NO_LEADER, PartitionImage


def elect_leader(
    partition: PartitionImage, *, live: Collection[int], unclean: bool = False
) -> PartitionImage | None:
    """A leader for a partition whose leader is not live.

    It is the first live replica in sync, in the order of assignment. Without one it is the first eligible replica,
    which is then alone in sync. Without either, and with `unclean`, it is the first live replica; those that once had
    everything come first. Records that it lacks are lost. Otherwise there is no leader. The in-sync set stays as it is,
    because its members have what was acknowledged.
    """
    if partition.leader in live:
        return None
    in_sync = [broker for broker in partition.replicas if broker in live and broker in partition.isr]
    if in_sync:
        remaining = tuple(broker for broker in partition.isr if broker in live)
        return _with_leader(partition, in_sync[0], isr=remaining)
    others = [broker for broker in partition.replicas if broker in live and broker in partition.elr]
    if unclean and not others:
        # An adding replica (KIP-455) has the least, so it leads only when there is no other.
        others = [broker for broker in partition.replicas if broker in live]
        others.sort(key=lambda broker: (broker in partition.adding, broker not in partition.last_known_elr))
    if others:
        return _with_leader(partition, others[0], isr=(others[0],))
    if partition.leader == NO_LEADER:
        return None
    return _with_leader(partition, NO_LEADER, isr=partition.isr)


def without_brokers(
    partition: PartitionImage, gone: Collection[int], *, live: Collection[int], unclean: bool = False
) -> PartitionImage | None:
    """After the brokers `gone`, none of them `live`, went away: another leader if one of them led, else a smaller set.

    A partition left without a leader keeps its in-sync set: nothing is acknowledged any more that a member could lack.
    """
    if partition.leader in gone or partition.leader == NO_LEADER:
        return elect_leader(partition, live=live, unclean=unclean)
    isr = tuple(broker for broker in partition.isr if broker not in gone)
    return partition._replace(isr=isr) if isr != partition.isr else None


def after_unclean_stop(
    partition: PartitionImage, broker: int, *, live: Collection[int], unclean: bool = False
) -> PartitionImage | None:
    """After `broker` returned from a stop that may have cost it records it had acknowledged.

    It leaves the in-sync set and the eligible replicas, and its leadership moves to another. A partition may have no
    leader until a replica that has more returns. Where it is the only one it leads from what it has.
    """
    smaller = partition._replace(isr=_without(partition.isr, broker), elr=_without(partition.elr, broker))
    if smaller == partition or not (smaller.isr or smaller.elr):
        return elect_leader(partition, live=live, unclean=unclean)
    if partition.leader != broker:
        return elect_leader(smaller, live=live, unclean=unclean) or smaller
    vacant = smaller._replace(leader=NO_LEADER)
    return elect_leader(vacant, live=live, unclean=unclean) or _with_leader(
        smaller, NO_LEADER, isr=smaller.isr
    )


def before_shutdown(
    partition: PartitionImage, broker: int, *, live: Collection[int]
) -> PartitionImage | None:
    """Before a controlled stop of `broker`: its leadership goes to another live member in sync, and it leaves the set.

    Where no other member is live nothing changes; the caller counts what `broker` still leads.
    """
    others = [
        other for other in partition.replicas if other != broker and other in live and other in partition.isr
    ]
    if not others:
        return None
    isr = tuple(other for other in partition.isr if other != broker)
    if partition.leader == broker:
        return _with_leader(partition, others[0], isr=isr)
    return partition._replace(isr=isr) if isr != partition.isr else None


def elect_preferred(partition: PartitionImage, *, live: Collection[int]) -> PartitionImage | None:
    """The first replica leads again, if it is live and in sync."""
    first = partition.replicas[0] if partition.replicas else NO_LEADER
    if first == partition.leader or first not in live or first not in partition.isr:
        return None
    return _with_leader(partition, first, isr=partition.isr)


def alter_partition(
    topic_partition: TopicPartition,
    partition: PartitionImage,
    *,
    by: int,
    leader_epoch: int,
    partition_epoch: int,
    isr: tuple[int, ...],
    eligible: Collection[int],
) -> PartitionImage | None:
    """The result of a leader's AlterPartition: its new in-sync set (KIP-497).

    `eligible` are the brokers that may be in it: live and not shutting down. Raises NotLeaderOrFollower,
    FencedLeaderEpoch, InvalidUpdateVersion (the leader's state is older than the registry's), InvalidRequest, and
    IneligibleReplica.
    """
    if partition.leader != by:
        raise NotLeaderOrFollower(f"{topic_partition} is led by {partition.leader}, not by {by}.")
    if leader_epoch != partition.leader_epoch:
        raise FencedLeaderEpoch(
            f"{topic_partition} is in leader epoch {partition.leader_epoch}, the request in {leader_epoch}."
        )
    if partition_epoch != partition.partition_epoch:
        raise InvalidUpdateVersion(
            f"{topic_partition} is at partition epoch {partition.partition_epoch}, the request at {partition_epoch}."
        )
    if by not in isr or len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas):
        raise InvalidRequest(
            f"{topic_partition} cannot have the in-sync set {list(isr)}: it must hold the leader {by} and only "
            f"replicas out of {list(partition.replicas)}, each once."
        )
    unfit = [broker for broker in isr if broker not in eligible and broker not in partition.isr]
    if unfit:
        raise IneligibleReplica(
            f"{topic_partition}: {unfit} cannot come into the in-sync set; they are gone or shutting down."
        )
    return partition._replace(isr=isr) if set(isr) != set(partition.isr) else None


def _with_leader(partition: PartitionImage, leader: int, *, isr: tuple[int, ...]) -> PartitionImage:
    return partition._replace(leader=leader, leader_epoch=partition.leader_epoch + 1, isr=isr)


def _without(brokers: tuple[int, ...], broker: int) -> tuple[int, ...]:
    return tuple(other for other in brokers if other != broker)
