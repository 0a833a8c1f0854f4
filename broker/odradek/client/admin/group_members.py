"""How many members groups have: few requests for many groups, each to the broker that coordinates them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from odradek.client.admin.groups import (
    CONSUMER_PROTOCOL,
    DEAD,
    DESCRIBE_CONSUMER_VERSIONS,
    DESCRIBE_STREAMS_VERSIONS,
    DESCRIBE_VERSIONS,
    SHARE,
    SHARE_GROUP_DESCRIBE_VERSIONS,
    STREAMS_PROTOCOL,
)
from odradek.client.client import Client
from odradek.client.results import GroupListing
from odradek.foundation.errors import OdradekError
from odradek.foundation.top_limits import MEMBERS_GROUPS_PER_REQUEST_MAX
from odradek.wire.protocol.api import ApiKey

_WITHOUT_MEMBERS: Final = ("Empty", DEAD)
# By the type of a group. All others, those in ZooKeeper too, are described as classic ones.
_REQUESTS: Final[Mapping[str, tuple[ApiKey, tuple[int, int]]]] = {
    CONSUMER_PROTOCOL: (ApiKey.CONSUMER_GROUP_DESCRIBE, DESCRIBE_CONSUMER_VERSIONS),
    STREAMS_PROTOCOL: (ApiKey.STREAMS_GROUP_DESCRIBE, DESCRIBE_STREAMS_VERSIONS),
    SHARE: (ApiKey.SHARE_GROUP_DESCRIBE, SHARE_GROUP_DESCRIBE_VERSIONS),
}
_CLASSIC: Final = "classic"


async def count_members(
    client: Client, listed: Iterable[GroupListing], coordinators: Mapping[str, int]
) -> dict[str, int]:
    """The members of each group. A group whose coordinator is not known, or does not describe it, is missing.

    `coordinators` has the broker that listed each group.
    """
    members: dict[str, int] = {}
    asked: dict[tuple[int, str], list[str]] = {}
    for group in listed:
        if group.state in _WITHOUT_MEMBERS:
            members[group.group_id] = 0
        elif group.group_id in coordinators:
            kind = group.type if group.type in _REQUESTS else _CLASSIC
            asked.setdefault((coordinators[group.group_id], kind), []).append(group.group_id)
    answers = await asyncio.gather(*(_count_of(client, *key, names) for key, names in asked.items()))
    for answer in answers:
        members |= answer
    return members


async def _count_of(client: Client, broker: int, kind: str, names: Sequence[str]) -> dict[str, int]:
    """Those of one coordinator and one type, by one request after the other."""
    found: dict[str, int] = {}
    size = MEMBERS_GROUPS_PER_REQUEST_MAX
    for first in range(0, len(names), size):
        try:
            found |= await _ask(client, broker, kind, names[first : first + size])
        except OdradekError:
            # A broker that is away, or that has no such API: the groups are shown without a number.
            break
    return found


async def _ask(client: Client, broker: int, kind: str, names: Sequence[str]) -> dict[str, int]:
    connection = await client.broker(broker)
    if kind == _CLASSIC:
        answer = await connection.request(
            ApiKey.DESCRIBE_GROUPS,
            versions=DESCRIBE_VERSIONS,
            groups=names,
            include_authorized_operations=False,
        )
    else:
        api, versions = _REQUESTS[kind]
        topology = {"include_topology_description": False} if kind == STREAMS_PROTOCOL else {}
        answer = await connection.request(
            api, versions=versions, group_ids=names, include_authorized_operations=False, **topology
        )
    return {group.group_id: len(group.members) for group in answer.groups if not group.error_code}
