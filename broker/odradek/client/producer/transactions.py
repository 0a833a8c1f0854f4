"""The transaction of a producer: begun, failed, ended; what may be sent in it, and under which epoch.

    IDLE → OPEN → COMMITTING → IDLE              COMMITTING → HANDED_OVER: another process ends it
             ↘ FAILED → ABORTING → IDLE          any → ENDED_FOR_GOOD

A failure is one of two kinds, as in Java's producer. After one the transaction can only be aborted, and the producer
continues. After the other the producer has no future: another one took its transactional id, or the broker knows none
of its state. Both generations of the protocol are spoken. The cluster's finalized `transaction.version` decides for
each transaction again (KIP-890).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NoReturn

from odradek.client.client import Client
from odradek.client.errors import RETRIABLE_OR_LATE, NoTransaction, TransactionAborted, UnsupportedByBroker
from odradek.client.group_metadata import GroupMetadata
from odradek.client.producer.batches import NO_IDENTITY, ProducerIdAndEpoch
from odradek.client.producer.handover import PreparedTransaction
from odradek.client.producer.transaction_requests import TransactionRequests
from odradek.foundation.errors import (
    FencedInstanceId,
    IllegalGeneration,
    OdradekError,
    UnknownMemberId,
    UnsupportedVersion,
)
from odradek.foundation.ids import TopicPartition
from odradek.foundation.security_errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
)
from odradek.foundation.tasks import TaskOwner
from odradek.foundation.transaction_errors import (
    InvalidProducerIdMapping,
    InvalidTxnState,
    OperationNotAttempted,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    UnknownProducerId,
)

logger = logging.getLogger(__name__)

TRANSACTION_VERSION: Final = "transaction.version"
_IMPLICIT_FROM: Final = 2

# What a coordinator may answer and an abort mends; anything else ends the producer.
_MENDED_BY_ABORT: Final[tuple[type[OdradekError], ...]] = (
    TransactionAbortable,
    OperationNotAttempted,
    UnknownProducerId,
    UnknownMemberId,
    IllegalGeneration,
    FencedInstanceId,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
    *RETRIABLE_OR_LATE,
)
# What a partition's leader may answer and no abort mends.
_NOT_MENDED_AT_LEADERS: Final = (
    ProducerFenced,
    InvalidProducerIdMapping,
    TransactionalIdAuthorizationFailed,
    ClusterAuthorizationFailed,
    UnsupportedVersion,
    UnsupportedByBroker,
)


class Phase(Enum):
    """Where the transaction stands; the values are for messages."""

    IDLE = "no transaction is open: begin one with begin_transaction()"
    OPEN = "a transaction is open"
    FAILED = "the transaction has failed: abort it with abort_transaction()"
    COMMITTING = "the transaction is being committed"
    ABORTING = "the transaction is being aborted"
    HANDED_OVER = "the transaction was left for another process to end, which ends this producer"
    ENDED_FOR_GOOD = "the producer cannot continue"


class Transactions:
    """One transactional id of one producer. `on_change` is called when batches may go, or have to be given up."""

    def __init__(
        self,
        client: Client,
        transactional_id: str,
        *,
        timeout_ms: int,
        on_change: Callable[[], None],
        identity: ProducerIdAndEpoch = NO_IDENTITY,
    ) -> None:
        self._client = client
        self.transactional_id = transactional_id
        """The name that outlives the producer."""
        self._requests = TransactionRequests(client, transactional_id, timeout_ms=timeout_ms)
        self._on_change = on_change
        self._tasks = TaskOwner("transactions")
        self.is_implicit = False
        """Whether partitions join the transaction by the records that are written to them (TV2)."""
        self._must_initialize = False
        self._has_begun = False
        self._is_unsure = False
        self._added: set[TopicPartition] = set()
        self._wanted: set[TopicPartition] = set()
        self._is_adding = False
        self._one_at_a_time = asyncio.Lock()  # nothing may be added to a transaction that ends
        self.identity = identity
        self.phase = Phase.IDLE
        self.failure: OdradekError | None = None
        """Why batches of the transaction must not be sent any more; None while they may."""

    async def start(self) -> None:
        """Get an epoch, which ends what an earlier producer of this id has open; not with an epoch that was given."""
        if self.identity == NO_IDENTITY:
            self.identity = await self._requests.initialize()
        else:
            await self._client.transaction_coordinator(
                self.transactional_id
            )  # a connection has the cluster's features
        self.is_implicit = self._may_be_implicit()

    async def close(self) -> None:
        """Stop what is under way."""
        await self._tasks.close()

    # --- what the sender asks ----------------------------------------------------------------------------------------

    def takes(self, partition: TopicPartition) -> bool:
        """Whether a batch for the partition may go now; if not, `on_change` follows when it may."""
        if self.is_implicit:
            self._has_begun = True
            return True
        if partition in self._added:
            return True
        self._wanted.add(partition)
        if not self._is_adding:
            self._is_adding = True
            self._tasks.start(self._add_partitions(), name="add partitions")
        return False

    async def _add_partitions(self) -> None:
        try:
            async with self._one_at_a_time:
                while self._wanted and self.failure is None:
                    wanted, self._wanted = self._wanted, set()
                    await self._requests.add_partitions(self.identity, wanted)
                    self._added |= wanted
                    self._has_begun = True
                    self._on_change()
        except OdradekError as failure:
            self._has_begun = self._is_unsure = isinstance(failure, RETRIABLE_OR_LATE) or self._has_begun
            self._fail(failure, is_mended=isinstance(failure, _MENDED_BY_ABORT))
        finally:
            self._is_adding = False

    def note_lost_batch(self, failure: OdradekError, *, was_sent: bool) -> None:
        """A batch could not be written. After one that was sent its sequence numbers are of no use any more."""
        self._must_initialize |= was_sent and not self.is_implicit
        if not isinstance(failure, TransactionAborted):
            self._fail(failure, is_mended=not isinstance(failure, _NOT_MENDED_AT_LEADERS))

    def _fail(self, failure: OdradekError, *, is_mended: bool) -> None:
        if self.phase is Phase.ENDED_FOR_GOOD:
            return
        if not is_mended:
            self.phase = Phase.ENDED_FOR_GOOD
            self.failure = failure
        elif self.phase in (Phase.OPEN, Phase.COMMITTING):
            self.phase = Phase.FAILED
            self.failure = failure
        self._on_change()

    # --- what the user asks ------------------------------------------------------------------------------------------

    def require(self, *allowed: Phase) -> None:
        """Raise NoTransaction unless the phase is one of these, and what ended the producer for good."""
        if self.phase in allowed:
            return
        if self.phase is Phase.ENDED_FOR_GOOD:
            self._raise_failure(
                f"the producer with transactional id {self.transactional_id!r} cannot continue"
            )
        if self.phase is Phase.FAILED:
            self._raise_failure("the transaction has failed and has to be aborted")
        raise NoTransaction(f"transactional id {self.transactional_id!r}: {self.phase.value}")

    def _raise_failure(self, what: str) -> NoReturn:
        assert self.failure is not None
        raise type(self.failure)(f"{what}: {self.failure}") from self.failure

    async def begin(self) -> None:
        """Open a transaction."""
        self.require(Phase.IDLE)
        if self._must_initialize:
            try:
                self.identity = await self._requests.initialize(self.identity)
            except OdradekError as failure:
                self._fail(failure, is_mended=isinstance(failure, _MENDED_BY_ABORT))
                raise
            self._must_initialize = False
        self.phase = Phase.OPEN

    async def add_offsets(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata) -> None:
        """Make the commit of these offsets a part of the transaction."""
        self.require(Phase.OPEN)
        try:
            async with self._one_at_a_time:
                self.require(Phase.OPEN)
                if not self.is_implicit:
                    await self._requests.add_offsets(self.identity, group.group_id)
                self._has_begun = True
                await self._requests.commit_offsets(
                    self.identity, offsets, group, is_implicit=self.is_implicit
                )
        except OdradekError as failure:
            if not self._has_begun and isinstance(failure, RETRIABLE_OR_LATE):
                self._has_begun = self._is_unsure = True
            self._fail(failure, is_mended=isinstance(failure, _MENDED_BY_ABORT))
            raise

    def begin_commit(self) -> None:
        """Take no more records; `commit` may follow once all are written."""
        self.require(Phase.OPEN, Phase.COMMITTING)
        self.phase = Phase.COMMITTING

    async def commit(self) -> None:
        """End the transaction; its records are there for readers of committed records."""
        self.require(Phase.COMMITTING)
        await self._end(is_commit=True)

    def hand_over(self) -> PreparedTransaction:
        """Leave the transaction open, with all that another process needs to end it."""
        self.require(Phase.COMMITTING)
        if not self._has_begun:
            self.phase = Phase.OPEN
            raise NoTransaction(
                f"transactional id {self.transactional_id!r}: nothing was sent, so there is no transaction to end"
            )
        self.phase = Phase.HANDED_OVER
        return PreparedTransaction(self.transactional_id, self.identity, self.is_implicit)

    def begin_abort(self) -> None:
        """Give up what is not sent; `abort` may follow once nothing is under way."""
        self.require(Phase.OPEN, Phase.FAILED, Phase.ABORTING)
        self.phase = Phase.ABORTING
        if self.failure is None:
            self.failure = TransactionAborted("the transaction was aborted")
        self._on_change()

    async def abort(self) -> None:
        """End the transaction; readers of committed records see none of it."""
        self.require(Phase.ABORTING)
        await self._end(is_commit=False)

    async def _end(self, *, is_commit: bool) -> None:
        try:
            async with self._one_at_a_time:
                if self._has_begun:
                    self.identity = await self._requests.end(
                        self.identity, is_commit=is_commit, is_implicit=self.is_implicit
                    )
        except RETRIABLE_OR_LATE:
            raise  # It may be asked for once more: what became of it is not known.
        except InvalidTxnState as failure:
            if not self._is_unsure or is_commit:
                self._fail(failure, is_mended=False)
                raise
            # The request that would have begun it never arrived, or will: another epoch keeps it out then.
            self._must_initialize = True
        except OdradekError as failure:
            self._fail(failure, is_mended=is_commit and isinstance(failure, TransactionAbortable))
            raise
        self._must_initialize |= self._is_unsure
        self._added.clear()
        self._wanted.clear()
        self._has_begun = self._is_unsure = False
        self.failure = None
        self.phase = Phase.IDLE
        was_implicit, self.is_implicit = self.is_implicit, self._may_be_implicit()
        # The first transaction of TV2 needs an epoch that no request of TV1 has.
        self._must_initialize |= self.is_implicit and not was_implicit

    def _may_be_implicit(self) -> bool:
        return self._client.finalized_level(TRANSACTION_VERSION) >= _IMPLICIT_FROM
