"""Errors of the transaction coordinator, beside those of producers in `errors`."""

from __future__ import annotations

from odradek.foundation.errors import RequestError


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
