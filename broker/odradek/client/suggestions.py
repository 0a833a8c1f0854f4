"""The nearest name for one that no topic or group has, for the error's text."""

from __future__ import annotations

from collections.abc import Sequence

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
    (better,) = await with_suggestions(client, [failure])
    return better


async def with_suggestions(client: Client, failures: Sequence[OdradekError]) -> list[OdradekError]:
    """As `with_suggestion`, for many. The names of all topics, or of all groups, are asked for once."""
    known: dict[bool, list[str] | None] = {}
    better: list[OdradekError] = []
    for failure in failures:
        if (
            isinstance(failure, UnknownTopicOrPartition | GroupIdNotFound)
            and failure.missing_name is not None
        ):
            is_topic = isinstance(failure, UnknownTopicOrPartition)
            if is_topic not in known:
                known[is_topic] = await _list_names(client, is_topic=is_topic)
            failure = _suggest(failure, failure.missing_name, known[is_topic], is_topic=is_topic)
        better.append(failure)
    return better


async def _list_names(client: Client, *, is_topic: bool) -> list[str] | None:
    """None where the broker does not say."""
    try:
        return await (_topics(client) if is_topic else _groups(client))
    except OdradekError:
        return None


def _suggest(failure: OdradekError, name: str, known: list[str] | None, *, is_topic: bool) -> OdradekError:
    if known is None or name in known:
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
