"""The nearest name for one that no topic or group has, for the error's text."""

from __future__ import annotations

from odradek.client.client import Client
from odradek.foundation.errors import GroupIdNotFound, OdradekError, UnknownTopicOrPartition
from odradek.foundation.words import nearest_name


async def nearest_topic(client: Client, name: str) -> str | None:
    """The topic whose name looks most like `name`, of those that this client may see; None when none is near."""
    return nearest_name(name, await _topics(client))


async def _topics(client: Client) -> list[str]:
    return [topic.name for topic in (await client.refresh(None)).topics.values() if not topic.error_code]


async def with_suggestion(client: Client, failure: OdradekError) -> OdradekError:
    """The same failure. One about a missing topic or group, whose name it knows, says which name is near, or how to
    list the names.
    """
    name = getattr(failure, "missing_name", None)
    if name is None or not isinstance(failure, UnknownTopicOrPartition | GroupIdNotFound):
        return failure
    is_topic = isinstance(failure, UnknownTopicOrPartition)
    try:
        known = await (_topics(client) if is_topic else _groups(client))
    except OdradekError:
        return failure
    if name in known:
        return failure  # it is about a partition, or the name is new
    nearest = nearest_name(name, known)
    listed = (
        "`odradek topics list` lists all topics" if is_topic else "`odradek groups list` lists all groups"
    )
    hint = listed if nearest is None else f"did you mean {nearest!r}?"
    return type(failure)(f"there is no {'topic' if is_topic else 'group'} {name!r}; {hint}")


async def _groups(client: Client) -> list[str]:
    from odradek.client.admin.groups import GroupAdmin

    return [group.group_id for group in await GroupAdmin(client).list()]
