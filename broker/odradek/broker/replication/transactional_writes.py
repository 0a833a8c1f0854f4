"""The work of a partition's leader for transactions: it lets them begin, and writes the markers that end them.

The transaction coordinator decides both. Whether a partition belongs to a transaction is asked by `verification`.
"""

from __future__ import annotations

from odradek.broker.replication.leader import Leader
from odradek.foundation.errors import NotEnoughReplicas
from odradek.foundation.words import count
from odradek.storage.log import Origin
from odradek.storage.verification import VerificationToken
from odradek.wire.records.control import Marker, build_marker


def begin_verification(
    leader: Leader, producer_id: int, producer_epoch: int, *, first_sequence: int, adds_partition: bool
) -> VerificationToken | None:
    """As `ProducerStates.begin_verification`: None where there is nothing to ask, before the coordinator is asked."""
    producers = leader.replica.log.producers
    if not (adds_partition or producers.rules.must_verify):
        return None
    return producers.begin_verification(
        producer_id,
        producer_epoch,
        first_sequence=first_sequence,
        adds_partition=adds_partition,
        now_ms=leader.replica.context.wall_ms(),
    )


def append_marker(leader: Leader, marker: Marker, *, transaction_version: int) -> int:
    """Append the end of a transaction, unless it has come before; returns the offset that has to be committed for it.

    A marker that has come before counts once all up to the log's end is committed: the first one lies there. Raises
    InvalidProducerEpoch, TransactionCoordinatorFenced, and what `Leader.append` raises.
    """
    leader.require_confirmed()
    replica = leader.replica
    if replica.log.producers.check_marker(marker, transaction_version=transaction_version):
        batch = build_marker(**marker._asdict())
        return leader.append(memoryview(batch), required_acks=-1, origin=Origin.COORDINATOR).last_offset
    if len(replica.in_sync_replicas) < leader.in_sync_needed:
        in_sync = count(len(replica.in_sync_replicas), "replica")
        raise NotEnoughReplicas(
            f"{replica.topic_partition} has {in_sync} in sync and needs {leader.in_sync_needed} for a marker"
        )
    return replica.log.log_end_offset - 1
