"""The errors of a client, and the exception for a code on the wire.

Codes become the exceptions of `foundation.errors` by the table in `wire.protocol.errors`. Two tuples list the retriable
ones, and those that mean old metadata. A code without an exception becomes `UnexpectedErrorCode` with its number, so no
error looks like a success.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from odradek.client.denials import describe_denial
from odradek.foundation import errors
from odradek.foundation.errors import MissingByName, OdradekError, RequestError, UnknownServerError
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.errors import BY_CODE, Retry, kinds_to_retry


class ClientError(OdradekError):
    """The root of the errors on this side of the connection."""


class ConnectionFailed(ClientError):
    """No connection, or a broken one: refused, unresolved, not a Kafka broker, closed early."""


class ClientTimeout(ClientError):
    """No answer within the time limit. The broker may have acted on the request."""


class ClientClosed(ClientError):
    """The client, producer or consumer was closed while this was under way."""


class NoSuchBroker(ClientError):
    """The cluster has no live broker with that id."""


class UnsupportedByBroker(ClientError):
    """The broker does not offer the API, or none of the versions that this client supports."""


class BufferFull(ClientError):
    """The producer's buffer stayed full for the whole time that a send may wait."""


class TransactionAborted(ClientError):
    """The record was not written for good: its transaction was aborted."""


class NoTransaction(ClientError):
    """The call does not fit the producer's transaction: there is none, or one that has failed or is ending."""


class SchemaUnavailable(ClientError):
    """The schema of a record cannot be had: its registry does not answer, or has no such schema, or an unusable one."""


class SchemaRegistryUnavailable(SchemaUnavailable):
    """The registry as a whole: it does not answer, refuses the login, or is none."""


class UndecodableRecord(ClientError):
    """A key or a value has no header of a schema registry, or bytes that do not follow their schema."""


class LogTruncated(errors.OffsetOutOfRange):
    """The log no longer has records that were read: a replica without them was elected as leader (KIP-320)."""


class UnexpectedErrorCode(RequestError):
    """The broker answered with an error code for which this client has no name."""


# The client's metadata is old: the client reads it again before it retries.
METADATA_STALE: Final = kinds_to_retry(Retry.REFRESH)
# A retry may succeed without any change.
RETRIABLE: Final[tuple[type[OdradekError], ...]] = (
    *kinds_to_retry(Retry.REFRESH, Retry.AGAIN),
    ConnectionFailed,
)
# As above, for a caller that cannot know whether the broker acted.
RETRIABLE_OR_LATE: Final[tuple[type[OdradekError], ...]] = (*RETRIABLE, ClientTimeout)
# A broker did not answer, or failed on the request.
UNANSWERED: Final[tuple[type[OdradekError], ...]] = (ConnectionFailed, ClientTimeout, UnknownServerError)
# Kafka's consumers also fetch again what a broker failed on: that reads nothing twice.
FETCHED_AGAIN: Final[tuple[type[OdradekError], ...]] = (*RETRIABLE, *UNANSWERED)


def error_for(code: int, message: str | None = None, *, about: str = "", **names: str) -> OdradekError | None:
    """The exception for a code on the wire, not raised; None for success.

    `message` is the broker's, if it sent one; `about` describes the subject of the answer. `names` may have `topic`,
    `group` and `transactional_id`, for a denial and for a name that is missing.
    """
    return _error_for(code, message, about, names, None)


def error_for_api(api: ApiKey, code: int, *, about: str = "", **names: str) -> OdradekError | None:
    """As `error_for`, where a denial is one of this API and not of the last that was answered."""
    return _error_for(code, None, about, names, api)


def _error_for(
    code: int, message: str | None, about: str, names: Mapping[str, str], api: ApiKey | None
) -> OdradekError | None:
    if code == 0:
        return None
    row = BY_CODE.get(code)
    if row is None or row.kind is None:
        kind: type[OdradekError] = UnexpectedErrorCode
        words = f"{message} (error code {code})" if message else f"the broker answered with error code {code}"
    else:
        kind = row.kind
        denial = describe_denial(kind, names, api=api)
        if denial is not None:
            return kind(denial)
        words = message or row.text
    failure = kind(words if _has_subject(words, about) else f"{about}: {words}")
    if isinstance(failure, MissingByName):
        failure.missing_name = names.get("group" if isinstance(failure, errors.GroupIdNotFound) else "topic")
    return failure


def _has_subject(words: str, about: str) -> bool:
    """Whether a broker's message names its subject itself: "Topic 'orders' already exists." for topic 'orders'."""
    if not about:
        return True
    noun, _, name = about.rpartition(" ")
    bare = re.escape(name.strip("'"))
    return re.search(rf"(?i)(?:{re.escape(noun)} |'|^){bare}(?![\w-]|\.\w)", words) is not None


def raise_first(failures: Iterable[OdradekError | None]) -> None:
    """Raise the first error, if there is any."""
    for failure in failures:
        if failure is not None:
            raise failure


def raise_for(code: int, message: str | None = None, *, about: str = "", **names: str) -> None:
    """Raise the exception for a code on the wire; do nothing for success. See `error_for`."""
    raise_first([error_for(code, message, about=about, **names)])
