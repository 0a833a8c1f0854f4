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
    connection.state[_STATE] = [*list_waiting(connection), fetch]


def list_waiting(connection: Connection) -> list[Pending[Frame]]:
    """Those that came before and have no answer yet."""
    return [one for one in connection.state.get(_STATE, ()) if not one.done()]
