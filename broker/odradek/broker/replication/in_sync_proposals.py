"""Proposals for in-sync sets, on their way to the controller: those of one turn in one request (KIP-497).

A partition has at most one proposal open. The controller accepts it and answers with the partition's new state, or it
refuses. A proposal that is certainly not accepted is withdrawn. Any other stays open, and the high watermark waits for
both sets until an image decides, which is safe. A controller that cannot be reached is asked again.

With a set the controller may complete a reassignment, and a new leader epoch begins. Only the image reports that: the
answer does not contain the replicas, and the epoch means that a broker knows which of them left (`reassignments`). A
leader that was removed and took the epoch from the answer would follow with all the records that it is about to delete.

Twice in replica.lag.time.max.ms all leaders check whether a follower lags. So one that stopped leaves the set after at
most one and a half of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from odradek.broker.replication.hosted_partitions import HostedPartitions
from odradek.broker.replication.partition import Partition
from odradek.foundation.errors import (
    FrameError,
    IneligibleReplica,
    KafkaStorageError,
    NotController,
    RequestError,
    RequestTimedOut,
)
from odradek.foundation.ids import TopicId, TopicPartition
from odradek.foundation.limits import IN_SYNC_PROPOSALS_PER_REQUEST_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.tasks import TaskOwner
from odradek.foundation.turn_limits import LOGS_LOOKED_AT_PER_TURN_MAX
from odradek.foundation.turns import Turn
from odradek.metadata.image.image import PartitionImage

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 0.05
_RETRY_SECONDS_MAX: Final = 1.0


class Proposal(NamedTuple):
    """The proposal of one leader: the set `isr`, based on these epochs."""

    topic_partition: TopicPartition
    topic_id: TopicId
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    """For each member of `isr` the epoch of its registration, -1 when unknown (KIP-903)."""


# For each proposal, in the same order: the partition as it is now, or why it was refused. Raises OSError, FrameError,
# NotController, RequestTimedOut or another RequestError when the controller was not reached or took none of them.
AlterPartition = Callable[[Sequence[Proposal]], Awaitable[Sequence[PartitionImage | RequestError]]]


class InSyncSets:
    """The proposals of all partitions led here."""

    def __init__(self, partitions: HostedPartitions, *, alter_partition: AlterPartition) -> None:
        self._partitions = partitions
        self._alter_partition = alter_partition
        self._waiting: dict[Partition, None] = {}
        self._work = asyncio.Event()
        self._tasks = TaskOwner("in-sync sets")
        self.shrinks = 0
        self.expansions = 0

    def start(self) -> None:
        """Begin to propose, and to check for followers that lag."""
        self._partitions.callbacks.in_sync_proposed = self.propose
        self._tasks.start(self._propose_all(), name="proposals")
        self._tasks.start(self._shrink_periodically(), name="laggards")

    async def stop(self) -> None:
        """Cease to propose."""
        await self._tasks.close()

    def propose(self, partition: Partition) -> None:
        """The partition has a proposal to send."""
        self._waiting[partition] = None
        self._work.set()

    async def _shrink_periodically(self) -> None:
        while True:
            await asyncio.sleep(self._partitions.context.lag_seconds_max / 2)
            turn = Turn(LOGS_LOOKED_AT_PER_TURN_MAX)
            for partition in self._partitions:
                if turn.is_over():
                    await turn.next()
                if partition.leader is not None:
                    partition.leader.shrink_in_sync()

    async def _propose_all(self) -> None:
        while True:
            await self._work.wait()
            # Proposals of the same turn of the event loop share the request.
            await asyncio.sleep(0)
            asked = self._next_batch()
            if not self._waiting:
                self._work.clear()
            pause_seconds = await self._ask(asked) if asked else 0.0
            if pause_seconds:
                await asyncio.sleep(pause_seconds)

    def _next_batch(self) -> dict[Partition, Proposal]:
        asked: dict[Partition, Proposal] = {}
        while self._waiting and len(asked) < IN_SYNC_PROPOSALS_PER_REQUEST_MAX:
            partition = next(iter(self._waiting))
            del self._waiting[partition]
            proposal = proposal_of(partition)
            if proposal is not None:
                asked[partition] = proposal
        return asked

    async def _ask(self, asked: dict[Partition, Proposal]) -> float:
        """Ask the controller; how many seconds to wait before it is asked again."""
        try:
            outcomes = await self._alter_partition(list(asked.values()))
        except (OSError, FrameError, RequestError) as failure:
            logger.info("%d in-sync sets could not be proposed and will be again: %s", len(asked), failure)
            self._propose_again(asked)
            return _RETRY_SECONDS
        except Exception:
            # A defect: without this task no in-sync set would ever change again.
            logger.exception("%d in-sync sets could not be proposed and will be again", len(asked))
            self._propose_again(asked)
            return _RETRY_SECONDS_MAX
        retried: dict[Partition, Proposal] = {}
        _log_refusals(list(asked.values()), outcomes)
        for (partition, proposal), outcome in zip(asked.items(), outcomes, strict=True):
            if isinstance(outcome, NotController | RequestTimedOut):
                retried[partition] = proposal
            else:
                self._apply_outcome(partition, proposal, outcome)
        self._propose_again(retried)
        return _RETRY_SECONDS if retried else 0.0

    def _propose_again(self, asked: dict[Partition, Proposal]) -> None:
        for partition in asked:
            self.propose(partition)

    def _apply_outcome(
        self, partition: Partition, proposal: Proposal, outcome: PartitionImage | RequestError
    ) -> None:
        if isinstance(outcome, RequestError):
            if partition.leader is not None:
                is_final = isinstance(outcome, IneligibleReplica)
                partition.leader.proposal_rejected(frozenset(proposal.isr), outcome, is_final=is_final)
            return
        if outcome.leader_epoch != proposal.leader_epoch:
            return
        before = len(partition.replica.in_sync_replicas)
        try:
            partition.take_role(outcome._replace(elr=_eligible_after(partition, outcome)))
        except KafkaStorageError as failure:
            logger.error("%s cannot take its role: %s", partition.topic_partition, failure)
        after = len(partition.replica.in_sync_replicas)
        self.shrinks += after < before
        self.expansions += after > before


def _eligible_after(partition: Partition, outcome: PartitionImage) -> tuple[int, ...]:
    """The brokers that may be eligible to lead besides the set that the controller accepted (KIP-966).

    The answer does not name them, and the image that does may be late. Until then each broker that was in sync or
    eligible counts.
    """
    replica = partition.replica
    if outcome.partition_epoch == replica.partition_epoch:
        return replica.eligible_replicas
    before = dict.fromkeys((*replica.eligible_replicas, *replica.in_sync_replicas))
    return tuple(broker for broker in before if broker not in outcome.isr)


def _log_refusals(proposals: Sequence[Proposal], outcomes: Sequence[PartitionImage | RequestError]) -> None:
    """Log one line for all: a broker that starts or stops may change thousands of sets."""
    refused = [
        (proposal, outcome)
        for proposal, outcome in zip(proposals, outcomes, strict=True)
        if isinstance(outcome, RequestError)
    ]
    if refused:
        proposal, failure = refused[0]
        logger.info(
            "%d of %d in-sync sets were not taken, among them %s for %s: %s",
            len(refused),
            len(proposals),
            list(proposal.isr),
            proposal.topic_partition,
            failure,
        )


def proposal_of(partition: Partition) -> Proposal | None:
    """The open proposal of the partition; None when it has ended."""
    replica, leader = partition.replica, partition.leader
    followers = None if leader is None else leader.followers
    if followers is None or followers.proposed is None:
        return None
    # In the order of assignment, as the registry keeps it.
    isr = tuple(broker for broker in replica.replicas if broker in followers.proposed)
    brokers = replica.context.brokers
    own = replica.context.broker_id
    epochs = []
    for broker in isr:
        if broker == own:
            epochs.append(brokers[own].epoch if own in brokers else -1)
        else:
            epochs.append(followers.known[broker].broker_epoch if broker in followers.known else -1)
    return Proposal(
        partition.topic_partition,
        partition.topic_id,
        replica.leader_epoch,
        replica.partition_epoch,
        isr,
        tuple(epochs),
    )
