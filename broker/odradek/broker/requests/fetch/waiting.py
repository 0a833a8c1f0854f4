"""The fetches of a connection that wait, for requests whose answers may not be older than theirs.

Responses go in the order of requests, so an answer behind a fetch that waits is held back with it. A consumer takes
each answer for the newest. An end offset from before the wait hides what the fetch brought. Kafka Streams then waits
for ever for the partition.
"""

from __future__ import annotations

from typing import Final

from odradek.network.connection import Connection
from odradek.network.pending import Pending
from odradek.wire.protocol.frames import Frame

_STATE: Final = "waiting fetches"


def note_waiting(connection: Connection, fetch: Pending[Frame]) -> None:
    """Keep it for `list_waiting` until it has an answer, which may be large."""
    waiting: list[Pending[Frame]] = connection.state.setdefault(_STATE, [])
    waiting.append(fetch)
    fetch.when_settled(waiting.remove)


def list_waiting(connection: Connection) -> list[Pending[Frame]]:
    """Those that came before and have no answer yet."""
    return list(connection.state.get(_STATE, ()))
