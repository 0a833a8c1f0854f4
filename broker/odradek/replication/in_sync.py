"""In-sync sets on their way to the controller: proposals of one turn in one request, until each is settled.

A partition has at most one proposal open. The controller takes it and says what the partition's state is then; or it
refuses. What is known not to have been taken is withdrawn. Anything else leaves it open: the partition goes on
counting both sets until an image tells, which is safe. A controller that cannot be reached is asked again.

With a set the controller may end a reassignment, and a new leader epoch begins. That is for the image to tell: the
answer knows nothing of replicas, and the epoch stands for having heard which of them left (`reassignments`). A leader
that has left and took the epoch from here would follow in it with all that it is about to delete.

Now and then all leaders are asked whether a follower lags: twice in replica.lag.time.max.ms, so that one that stopped
is out of the set after at most one and a half of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from odradek.cluster.image import PartitionImage
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
from odradek.foundation.tasks import TaskOwner
from odradek.replication.partition import Partition
from odradek.replication.partitions import Partitions

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 0.05
_RETRY_SECONDS_MAX: Final = 1.0


class Proposal(NamedTuple):
    """What one leader asks for: the set `isr`, on the ground of these epochs."""

    topic_partition: TopicPartition
    topic_id: TopicId
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    """Of each member of `isr` the registration in which it was found fit, -1 when unknown (KIP-903)."""


# For each proposal, in order: the partition as it is now, or why it was refused. Raises OSError, FrameError,
# NotController, RequestTimedOut or another RequestError when the controller was not reached or took none of them.
AlterPartition = Callable[[Sequence[Proposal]], Awaitable[Sequence[PartitionImage | RequestError]]]


class InSyncSets:
    """The proposals of all partitions led here."""

    def __init__(self, partitions: Partitions, *, alter_partition: AlterPartition) -> None:
        self._partitions = partitions
        self._alter_partition = alter_partition
        self._waiting: dict[Partition, None] = {}
        self._work = asyncio.Event()
        self._tasks = TaskOwner("in-sync sets")
        self.shrinks = 0
        self.expansions = 0

    def start(self) -> None:
        """Begin to propose, and to look for followers that lag."""
        self._partitions.context.propose = self.propose
        self._tasks.start(self._propose_all(), name="proposals")
        self._tasks.start(self._look_for_laggards(), name="laggards")

    async def stop(self) -> None:
        """Propose nothing any more."""
        await self._tasks.close()

    def propose(self, partition: Partition) -> None:
        """The partition has a proposal that the controller has not heard of."""
        self._waiting[partition] = None
        self._work.set()

    async def _look_for_laggards(self) -> None:
        while True:
            await asyncio.sleep(self._partitions.context.lag_seconds_max / 2)
            for partition in self._partitions:
                partition.shrink_in_sync()

    async def _propose_all(self) -> None:
        while True:
            await self._work.wait()
            # What else happens in this turn of the loop goes along.
            await asyncio.sleep(0)
            asked = self._take_some()
            if not self._waiting:
                self._work.clear()
            pause_seconds = await self._ask(asked) if asked else 0.0
            if pause_seconds:
                await asyncio.sleep(pause_seconds)

    def _take_some(self) -> dict[Partition, Proposal]:
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
            self._ask_again(asked)
            return _RETRY_SECONDS
        except Exception:
            # A fault of ours: without this task no in-sync set would ever change again.
            logger.exception("%d in-sync sets could not be proposed and will be again", len(asked))
            self._ask_again(asked)
            return _RETRY_SECONDS_MAX
        retried: dict[Partition, Proposal] = {}
        _tell_refusals(list(asked.values()), outcomes)
        for (partition, proposal), outcome in zip(asked.items(), outcomes, strict=True):
            if isinstance(outcome, NotController | RequestTimedOut):
                retried[partition] = proposal
            else:
                self._settle(partition, proposal, outcome)
        self._ask_again(retried)
        return _RETRY_SECONDS if retried else 0.0

    def _ask_again(self, asked: dict[Partition, Proposal]) -> None:
        for partition in asked:
            self.propose(partition)

    def _settle(
        self, partition: Partition, proposal: Proposal, outcome: PartitionImage | RequestError
    ) -> None:
        if isinstance(outcome, RequestError):
            partition.proposal_refused(
                frozenset(proposal.isr), outcome, is_final=isinstance(outcome, IneligibleReplica)
            )
            return
        if outcome.leader_epoch != proposal.leader_epoch:
            return
        before = len(partition.in_sync_replicas)
        try:
            partition.take_role(outcome._replace(elr=_eligible_after(partition, outcome)))
        except KafkaStorageError as failure:
            logger.error("%s cannot take its role: %s", partition.topic_partition, failure)
        after = len(partition.in_sync_replicas)
        self.shrinks += after < before
        self.expansions += after > before


def _eligible_after(partition: Partition, outcome: PartitionImage) -> tuple[int, ...]:
    """Who may be eligible to lead besides the set that the controller took. Its answer does not say it (KIP-966), and
    the image that does may be late: until then each that was in sync or eligible counts.
    """
    if outcome.partition_epoch == partition.partition_epoch:
        return partition.eligible_replicas
    before = dict.fromkeys((*partition.eligible_replicas, *partition.in_sync_replicas))
    return tuple(broker for broker in before if broker not in outcome.isr)


def _tell_refusals(proposals: Sequence[Proposal], outcomes: Sequence[PartitionImage | RequestError]) -> None:
    """One line for all, since a broker that comes or goes concerns thousands."""
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
    """The proposal that the partition has open; None when it was settled meanwhile."""
    followers = partition.followers
    if followers is None or followers.proposed is None or not partition.is_leader:
        return None
    # In the order of assignment, as the registry keeps it.
    isr = tuple(broker for broker in partition.replicas if broker in followers.proposed)
    brokers = partition.context.brokers
    own = partition.context.broker_id
    epochs = []
    for broker in isr:
        if broker == own:
            epochs.append(brokers[own].epoch if own in brokers else -1)
        else:
            epochs.append(followers.known[broker].broker_epoch if broker in followers.known else -1)
    return Proposal(
        partition.topic_partition,
        partition.topic_id,
        partition.leader_epoch,
        partition.partition_epoch,
        isr,
        tuple(epochs),
    )
