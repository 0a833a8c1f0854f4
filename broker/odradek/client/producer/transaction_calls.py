"""The calls of a user on a transactional producer: begin, commit, abort, and offsets of what it has read.

Beside `Producer.send`, which puts records into the transaction that is open. `transactions` keeps its state.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from odradek.client.checked_calls import checking_arguments
from odradek.client.errors import NoTransaction
from odradek.client.group_metadata import GroupMetadata
from odradek.client.last_requests import last_requests
from odradek.client.producer.audit import Audit
from odradek.client.producer.batches import ProducerIdAndEpoch
from odradek.client.producer.handover import PreparedTransaction
from odradek.client.producer.sender import Sender
from odradek.client.producer.transactions import Phase, Transactions
from odradek.foundation.errors import InvalidRequest, OdradekError
from odradek.foundation.ids import TopicPartition

logger = logging.getLogger(__name__)

_OPEN = (Phase.OPEN, Phase.FAILED, Phase.COMMITTING, Phase.ABORTING)


@checking_arguments("send_offsets_to_transaction")
class TransactionCalls(ABC):
    """The part of `Producer` that needs a transactional id; without one every call raises NoTransaction."""

    _sender: Sender
    _closing: bool
    _audit: Audit | None

    @abstractmethod
    def _check_running(self) -> None:
        """Raise ClientClosed before the start and after the end."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """`async with producer.transaction():` commits at its end, and aborts where an exception leaves it.

        Raises as `begin_transaction` and `commit_transaction`. A commit that fails is aborted, if that is possible.
        """
        transactions = self._transactional()
        await self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except Exception:
            if transactions.phase in (Phase.OPEN, Phase.FAILED):
                try:
                    await self.abort_transaction()
                except OdradekError as failure:
                    _note_open_transaction(str(failure))
            raise
        except BaseException:
            if transactions.phase in (Phase.OPEN, Phase.FAILED):
                await self._abort_at_end()
            raise

    async def begin_transaction(self) -> None:
        """Open a transaction, to which all belongs that is sent from now on. Raises NoTransaction in another one."""
        self._check_running()
        await self._transactional().begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int], group: GroupMetadata | str
    ) -> None:
        """Commit a group's offsets with the transaction: each is of the next record to be read.

        `group` is `consumer.group_metadata`, or the id of a group whose partitions are assigned by hand. Raises
        IllegalGeneration and UnknownMemberId where the consumer lost its partitions: the transaction is to be aborted.
        """
        self._check_running()
        metadata = GroupMetadata(group) if isinstance(group, str) else group
        transactions = self._transactional()
        if offsets:
            await transactions.add_offsets(offsets, metadata)
        else:
            transactions.require(Phase.OPEN)

    async def commit_transaction(self) -> None:
        """Wait until all records are written, and end the transaction.

        Raises why a record of it could not be written: it is to be aborted then. After ClientTimeout it is not known
        whether the transaction is committed; the same call asks again.
        """
        transactions = self._transactional()
        if self._audit is not None and transactions.phase is Phase.OPEN:
            await self._sender.settle()
            await self._audit.write_transaction()
        transactions.begin_commit()
        await self._sender.settle()
        await transactions.commit()
        self._sender.failure = None
        if self._audit is not None:
            self._audit.commit_counts()

    async def prepare_transaction(self) -> PreparedTransaction:
        """Wait until all records are written, and leave the transaction to another process, for `end_prepared`.

        The producer can only be closed then. Raises as `commit_transaction`, and NoTransaction where nothing was sent.
        """
        transactions = self._transactional()
        if self._audit is not None:
            raise InvalidRequest(
                "a producer with an audit ends its transactions itself: it counts what it commits"
            )
        transactions.begin_commit()
        await self._sender.settle()
        return transactions.hand_over()

    async def abort_transaction(self) -> None:
        """End the transaction without effect: what is not sent yet is not sent any more.

        Raises ProducerFenced where another producer took the transactional id.
        """
        transactions = self._transactional()
        transactions.begin_abort()
        await self._sender.settle()
        await transactions.abort()
        self._sender.failure = None
        if self._audit is not None:
            self._audit.discard_counts()

    @property
    def identity(self) -> ProducerIdAndEpoch:
        """The producer's id and its present epoch."""
        return self._transactional().identity

    @property
    def is_usable(self) -> bool:
        """False once only a new producer helps: this one is closed, or another one took its transactional id."""
        transactions = self._sender.transactions
        return not self._closing and (
            transactions is None or transactions.phase not in (Phase.ENDED_FOR_GOOD, Phase.HANDED_OVER)
        )

    @property
    def is_transactional(self) -> bool:
        """Whether its records belong to transactions."""
        return self._sender.transactions is not None

    @property
    def has_open_transaction(self) -> bool:
        """Whether a transaction was begun and not ended yet."""
        transactions = self._sender.transactions
        return transactions is not None and transactions.phase in _OPEN

    def _transactional(self) -> Transactions:
        transactions = self._sender.transactions
        if transactions is None:
            raise NoTransaction(
                "the producer has no transactional id: Producer(client, transactional_id='…')"
            )
        return transactions

    async def _abort_at_end(self) -> None:
        async with last_requests(_note_open_transaction):
            await self.abort_transaction()


def _note_open_transaction(why: str) -> None:
    logger.warning("the transaction stays open until the broker aborts it: %s", why)
