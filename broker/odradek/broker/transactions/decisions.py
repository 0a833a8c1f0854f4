"""The effect of each request on a transactional id: pure decisions, from what is stored and what is asked.

A decision gives the next `TransactionMetadata` to write, or the stored one itself when nothing changes. It raises the
error that the client gets. `ProducerIdNeeded` asks for the same decision again with a new producer id.

`is_pending` says that a change of the id is being written, or that its markers are being sent. It is looked at before
everything else: under TV2 the caller may already use a producer id that is only pending (KAFKA-18660).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from odradek.broker.transactions.metadata import (
    COMPLETE_STATES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PREPARE_STATES,
    PRODUCER_EPOCH_EXHAUSTED,
    TV0,
    TV2,
    TransactionMetadata,
    TransactionState,
)
from odradek.foundation.ids import TopicPartition
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.transaction_errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
    TransactionAbortable,
)


class ProducerIdNeeded(Exception):
    """The decision needs a producer id that was never used."""


class ProducerIdentity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    producer_epoch: int


PENDING: Final = "the transactional id has a change in progress; try again"


# --- InitProducerId ---------------------------------------------------------------------------------------------


def initialize(
    stored: TransactionMetadata,
    *,
    is_pending: bool,
    given: ProducerIdentity | None,
    timeout_ms: int,
    now_ms: int,
    version_level: int,
    new_producer_id: int | None = None,
) -> TransactionMetadata:
    """InitProducerId of a known id; `given` is what the producer says it has (KIP-360).

    An open transaction ends first: the result is then in PrepareAbort. `version_level` is the finalized
    transaction.version, by which the server ends it. Raises ConcurrentTransactions, ProducerFenced, ProducerIdNeeded.
    """
    if is_pending or stored.state in PREPARE_STATES:
        raise ConcurrentTransactions(PENDING)
    if given is not None and not _may_continue(stored, given):
        raise _build_fenced_error(stored, given)
    if stored.state is TransactionState.ONGOING:
        if given is not None and given.producer_epoch != stored.producer_epoch:
            # A zombie cannot end the transaction of the instance that replaced it. Apache Kafka lets it.
            raise _build_fenced_error(stored, given)
        return abort_by_server(
            stored, now_ms=now_ms, version_level=version_level, new_producer_id=new_producer_id
        )
    if stored.is_epoch_exhausted and (given is None or given.producer_epoch == stored.producer_epoch):
        if new_producer_id is None:
            raise ProducerIdNeeded
        last_epoch = NO_PRODUCER_EPOCH if given is None else stored.producer_epoch
        return stored.with_new_producer_id(
            new_producer_id, last_epoch=last_epoch, timeout_ms=timeout_ms, now_ms=now_ms
        )
    return _next_epoch(stored, given=given, timeout_ms=timeout_ms, now_ms=now_ms)


def _may_continue(stored: TransactionMetadata, given: ProducerIdentity) -> bool:
    if stored.producer_epoch == NO_PRODUCER_EPOCH or given.producer_id == stored.producer_id:
        return True
    return (
        given.producer_id == stored.previous_producer_id and given.producer_epoch >= PRODUCER_EPOCH_EXHAUSTED
    )


def _next_epoch(
    stored: TransactionMetadata, *, given: ProducerIdentity | None, timeout_ms: int, now_ms: int
) -> TransactionMetadata:
    current = stored.producer_epoch
    if given is None:
        # No last epoch: retries of an older instance are fenced from now on.
        epoch, last_epoch = current + 1, NO_PRODUCER_EPOCH
    elif current == NO_PRODUCER_EPOCH or given.producer_epoch == current:
        epoch, last_epoch = current + 1, current
    elif given.producer_epoch == stored.last_producer_epoch:
        # A retry, whose first answer was lost.
        if timeout_ms == stored.timeout_ms and stored.state is TransactionState.EMPTY:
            return stored
        epoch, last_epoch = current, stored.last_producer_epoch
    else:
        raise _build_fenced_error(stored, given)
    return stored.initialize(epoch=epoch, last_epoch=last_epoch, timeout_ms=timeout_ms, now_ms=now_ms)


# --- partitions -------------------------------------------------------------------------------------------------


def add_partitions(
    stored: TransactionMetadata,
    *,
    is_pending: bool,
    producer: ProducerIdentity,
    partitions: Collection[TopicPartition],
    now_ms: int,
    client_version: int,
) -> TransactionMetadata:
    """AddPartitionsToTxn. Raises ConcurrentTransactions, InvalidProducerIdMapping, ProducerFenced."""
    if is_pending:
        raise ConcurrentTransactions(PENDING)
    _check_producer(stored, producer)
    if stored.state in PREPARE_STATES:
        raise ConcurrentTransactions("the producer's last transaction is still being ended; try again")
    if stored.state is TransactionState.ONGOING and stored.partitions.issuperset(partitions):
        return stored
    return stored.with_partitions(partitions, now_ms=now_ms, client_version=client_version)


def check_partition(
    stored: TransactionMetadata, *, producer: ProducerIdentity, partition: TopicPartition
) -> None:
    """Whether the partition is in the transaction, for a leader that asks before it appends (KIP-890).

    Raises InvalidProducerIdMapping, ProducerFenced, ConcurrentTransactions, TransactionAbortable.
    """
    _check_producer(stored, producer)
    if stored.state in PREPARE_STATES:
        raise ConcurrentTransactions("the producer's last transaction is still being ended; try again")
    if partition not in stored.partitions:
        raise TransactionAbortable(
            f"{partition} is not in the transaction of producer {producer.producer_id}; abort it and begin again"
        )


# --- EndTxn -----------------------------------------------------------------------------------------------------


def end_without_epoch(
    stored: TransactionMetadata, *, is_pending: bool, producer: ProducerIdentity, is_commit: bool, now_ms: int
) -> TransactionMetadata:
    """EndTxn of TV1, versions 0 to 4: the epoch stays.

    Raises InvalidProducerIdMapping, ProducerFenced, ConcurrentTransactions, InvalidTxnState.
    """
    _check_producer(stored, producer)
    if is_pending:
        raise ConcurrentTransactions(PENDING)
    if stored.state is TransactionState.ONGOING:
        return stored.prepare(is_commit=is_commit, client_version=TV0, now_ms=now_ms, raises_epoch=False)
    if _outcome(stored) is not is_commit:
        raise _invalid_end(stored, is_commit)
    if stored.state in PREPARE_STATES:
        raise ConcurrentTransactions("the transaction is still being ended; try again")
    return stored


def end_with_epoch(
    stored: TransactionMetadata,
    *,
    is_pending: bool,
    producer: ProducerIdentity,
    is_commit: bool,
    now_ms: int,
    new_producer_id: int | None = None,
) -> TransactionMetadata:
    """EndTxn of TV2, version 5 and newer: the epoch rises by one (KIP-890).

    A request with the stored epoch less one is a retry of the last end: the state alone does not show it. Raises what
    `end_without_epoch` raises, and ProducerIdNeeded when no epoch is left.
    """
    if is_pending:
        raise ConcurrentTransactions(PENDING)
    is_retry = _is_retry(stored, producer)
    is_current = producer == (stored.producer_id, stored.producer_epoch)
    if producer.producer_id != stored.producer_id and not is_retry:
        raise _unknown_producer(stored, producer)
    if stored.state in PREPARE_STATES:
        if not is_retry:
            raise _build_fenced_error(stored, producer)
        if _outcome(stored) is not is_commit:
            raise _invalid_end(stored, is_commit)
        raise ConcurrentTransactions("the transaction is still being ended; try again")
    if stored.state in COMPLETE_STATES and is_retry:
        if _outcome(stored) is is_commit:
            return stored
        if is_commit:
            # The server has ended it: PRODUCER_FENCED is what clients know how to take (KAFKA-20785).
            raise _build_fenced_error(stored, producer)
        raise _invalid_end(stored, is_commit)
    if not is_current:
        raise _build_fenced_error(stored, producer)
    if stored.state is not TransactionState.ONGOING and is_commit:
        raise _invalid_end(stored, is_commit)
    return _prepare_with_epoch(
        stored, is_commit=is_commit, now_ms=now_ms, new_producer_id=new_producer_id, forgets_last_epoch=False
    )


def _is_retry(stored: TransactionMetadata, producer: ProducerIdentity) -> bool:
    if stored.client_version < TV2 or stored.state in (TransactionState.EMPTY, TransactionState.ONGOING):
        # An end of TV1 has not raised the epoch: the older one is a zombie's.
        return False
    if producer.producer_id == stored.producer_id and producer.producer_epoch == stored.producer_epoch - 1:
        return True
    # The last epoch was used up, and the answer with the next producer id was lost.
    return (
        producer == (stored.previous_producer_id, PRODUCER_EPOCH_EXHAUSTED)
        and stored.producer_id != stored.previous_producer_id
        and stored.producer_epoch == 0
    )


def abort_by_server(
    stored: TransactionMetadata, *, now_ms: int, version_level: int, new_producer_id: int | None = None
) -> TransactionMetadata:
    """The abort of an open transaction by a timeout or by a new instance of the producer, which is fenced.

    The epoch rises once (KAFKA-19367). Under TV2 an exhausted epoch leads to a new producer id, as it does at the end
    of any other transaction. Kafka 4.1 gets stuck there (KAFKA-20090). Raises ProducerIdNeeded.
    """
    if max(version_level, stored.client_version) >= TV2:
        return _prepare_with_epoch(
            stored, is_commit=False, now_ms=now_ms, new_producer_id=new_producer_id, forgets_last_epoch=True
        )
    return stored.prepare(
        is_commit=False,
        client_version=version_level,
        now_ms=now_ms,
        raises_epoch=True,
        forgets_last_epoch=True,
    )


def _prepare_with_epoch(
    stored: TransactionMetadata,
    *,
    is_commit: bool,
    now_ms: int,
    new_producer_id: int | None,
    forgets_last_epoch: bool,
) -> TransactionMetadata:
    next_producer_id = NO_PRODUCER_ID
    if stored.is_epoch_exhausted:
        if new_producer_id is None:
            raise ProducerIdNeeded
        next_producer_id = new_producer_id
    return stored.prepare(
        is_commit=is_commit,
        client_version=TV2,
        now_ms=now_ms,
        raises_epoch=True,
        next_producer_id=next_producer_id,
        forgets_last_epoch=forgets_last_epoch,
    )


# --- checks -----------------------------------------------------------------------------------------------------


def _check_producer(stored: TransactionMetadata, producer: ProducerIdentity) -> None:
    if producer.producer_id != stored.producer_id:
        raise _unknown_producer(stored, producer)
    if producer.producer_epoch != stored.producer_epoch:
        raise _build_fenced_error(stored, producer)


def _outcome(stored: TransactionMetadata) -> bool | None:
    """Whether it commits or has committed; None where nothing is ended."""
    if stored.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT):
        return True
    if stored.state in (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT):
        return False
    return None


def _unknown_producer(stored: TransactionMetadata, producer: ProducerIdentity) -> InvalidProducerIdMapping:
    return InvalidProducerIdMapping(
        f"the transactional id has the producer id {stored.producer_id}, not {producer.producer_id}; "
        "initialize the producer again"
    )


def _build_fenced_error(stored: TransactionMetadata, producer: ProducerIdentity) -> ProducerFenced:
    return ProducerFenced(
        f"producer {producer.producer_id} has the epoch {producer.producer_epoch}, and the transactional id is at "
        f"{stored.producer_epoch} of producer {stored.producer_id}. Another instance has replaced it, or its "
        "transaction has timed out. Close this producer."
    )


def _invalid_end(stored: TransactionMetadata, is_commit: bool) -> InvalidTxnState:
    asked = "committed" if is_commit else "aborted"
    return InvalidTxnState(f"the transaction is {stored.state.title} and cannot be {asked}")
