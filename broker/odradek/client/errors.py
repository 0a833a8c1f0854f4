"""What can go wrong between a client and its brokers, and the exception for a code on the wire.

Codes become the exceptions of `foundation.errors` by the table in `protocol.errors`. Two tuples say which of them are
worth another try, and which mean that the client's metadata are old. A code without an exception becomes
`UnexpectedErrorCode` with its number, so no error is taken for success.
"""

from __future__ import annotations

from typing import Final

from odradek.foundation import errors
from odradek.foundation.errors import OdradekError, RequestError
from odradek.protocol.errors import BY_CODE, Retry, kinds_to_retry


class ClientError(OdradekError):
    """The root of what fails on this side of the connection."""


class ConnectionFailed(ClientError):
    """No connection, or one that broke: refused, unresolved, no Kafka broker, closed mid-way."""


class ClientTimeout(ClientError):
    """No answer in the time allowed. Whether the broker acted is not known."""


class ClientClosed(ClientError):
    """The client, producer or consumer was closed while this was under way."""


class NoSuchBroker(ClientError):
    """The cluster has no live broker with that id."""


class UnsupportedByBroker(ClientError):
    """The broker does not offer the API, or no version that this client knows."""


class BufferFull(ClientError):
    """The producer's buffer stayed full for as long as a send may wait."""


class LogTruncated(errors.OffsetOutOfRange):
    """Records that were read are gone from the log: a replica without them was elected to lead (KIP-320)."""


class UnexpectedErrorCode(RequestError):
    """The broker answered with an error code for which this client has no name."""


# The client's metadata is old: it reads them again, then it tries again.
METADATA_STALE: Final = kinds_to_retry(Retry.REFRESH)
# Another try may succeed without a change by anybody.
RETRIABLE: Final[tuple[type[OdradekError], ...]] = (
    *kinds_to_retry(Retry.REFRESH, Retry.AGAIN),
    ConnectionFailed,
)
# The same for a caller that cannot know whether the broker acted.
RETRIABLE_OR_LATE: Final[tuple[type[OdradekError], ...]] = (*RETRIABLE, ClientTimeout)


def error_for(code: int, message: str | None = None, *, about: str = "") -> OdradekError | None:
    """The exception for a code on the wire, not raised; None for success.

    `message` is the broker's, when it sent one; `about` names what the answer speaks of.
    """
    if code == 0:
        return None
    row = BY_CODE.get(code)
    if row is None or row.kind is None:
        kind: type[OdradekError] = UnexpectedErrorCode
        words = f"{message} (error code {code})" if message else f"the broker answered with error code {code}"
    else:
        kind = row.kind
        words = message or row.text
    return kind(f"{about}: {words}" if about and about not in words else words)


def raise_for(code: int, message: str | None = None, *, about: str = "") -> None:
    """Raise the exception for a code on the wire; do nothing for success."""
    failure = error_for(code, message, about=about)
    if failure is not None:
        raise failure
