"""Members that join a group of another kind: the error says which kind it is, and what reads from it.

A queue and a group of consumers share the names of groups. A broker refuses the wrong kind of member by an error that
names neither.
"""

from __future__ import annotations

from typing import Final

from odradek.client.admin.groups import GroupAdmin
from odradek.client.client import Client
from odradek.foundation.errors import OdradekError

_CONSUMED: Final = (
    "is a group of consumers and no queue: `odradek consume TOPIC --group {0}` or a Consumer reads with it"
)
_READERS: Final = {
    "share": "is a queue (a share group): `odradek consume TOPIC --share-group {0}` or a ShareConsumer reads from it",
    "streams": "is a group of Kafka Streams: only its application reads with it. Choose another name",
    "classic": _CONSUMED,
    "consumer": _CONSUMED,
}


async def explain_refusal(
    client: Client, group_id: str, failure: OdradekError, *, is_queue: bool
) -> OdradekError:
    """The same failure of a join, in words where the group is of another kind. `is_queue` says what was expected."""
    try:
        words = _READERS.get((await GroupAdmin(client).describe(group_id)).type)
    except OdradekError:
        return failure  # what the group is may not be seen
    expected = _READERS["share"] if is_queue else _CONSUMED
    if words is None or words == expected:
        return failure
    return type(failure)(f"group {group_id!r} {words.format(group_id)}")
