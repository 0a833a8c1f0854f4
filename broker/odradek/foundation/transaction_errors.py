"""Errors of producers and of transactions."""

from __future__ import annotations

from odradek.foundation.errors import RequestError


class OutOfOrderSequence(RequestError):
    """A sequence number after a gap: a batch before it is missing."""


class DuplicateSequence(RequestError):
    """A sequence number older than the last five batches kept."""


class UnknownProducerId(RequestError):
    """The broker no longer has the producer's state."""


class InvalidProducerEpoch(RequestError):
    """The producer's epoch is older than the newest seen."""


class ProducerFenced(RequestError):
    """A newer instance with the same transactional id has replaced this one."""


class TransactionCoordinatorFenced(RequestError):
    """A marker from a transaction coordinator that another one has replaced."""


class InvalidTxnState(RequestError):
    """The transaction is not in a state that allows this."""


class InvalidProducerIdMapping(RequestError):
    """The producer id does not belong to this transactional id."""


class TransactionalIdAuthorizationFailed(RequestError):
    """The principal may not use this transactional id."""


class TransactionalIdNotFound(RequestError):
    """The coordinator knows no such transactional id."""


class InvalidTransactionTimeout(RequestError):
    """The transaction timeout is not positive, or above transaction.max.timeout.ms."""


class ConcurrentTransactions(RequestError):
    """The transactional id has a change in progress; the same request succeeds a little later."""


class TransactionAbortable(RequestError):
    """The transaction can only be aborted; the producer may continue after that."""


class UnstableOffsetCommit(RequestError):
    """A transaction that is open is about to change the offset; the same request succeeds once it has ended."""


class OperationNotAttempted(RequestError):
    """Another part of the request was refused, and so this one was not carried out."""
