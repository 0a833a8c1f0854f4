"""The log lines of connections that the broker ends: wrong frames, lost peers, failed handlers."""

from __future__ import annotations

import logging

from odradek.foundation import words
from odradek.foundation.errors import OdradekError
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.transport.connection import Connection

logger = logging.getLogger(__name__)


def log_failure(connection: Connection, failure: BaseException, lines: RateLimitedLog) -> None:
    """Say why `connection` is closed: bounded where a peer is the reason, with the trace where a handler is."""
    if isinstance(failure, ConnectionError):
        logger.debug("%r was left in the middle of an answer: %s", connection, failure)
    elif isinstance(failure, OdradekError | OSError):
        client = f" (client {connection.client_id!r})" if connection.client_id else ""
        requests = words.count(connection.requests, "request")
        lines.warning("%r%s is closed after %s: %s", connection, client, requests, failure)
    else:
        logger.error("%r is closed: a handler failed", connection, exc_info=failure)
