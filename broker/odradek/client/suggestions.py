"""The nearest name for one that no topic or group has, for the error's text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.client.client import Client
from odradek.foundation.errors import GroupIdNotFound, OdradekError, UnknownTopicOrPartition
from odradek.foundation.words import nearest_name

_LISTS: Final = {
    "topic": "`odradek topics list` lists all topics",
    "group": "`odradek groups list` lists all groups",
    "queue": "`odradek queues list` lists all queues",
}


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
    """As `with_suggestion`, for many. The names of all topics, groups or queues are asked for once."""
    known: dict[str, list[str] | None] = {}
    better: list[OdradekError] = []
    for failure in failures:
        if (
            isinstance(failure, UnknownTopicOrPartition | GroupIdNotFound)
            and failure.missing_name is not None
        ):
            kind = _kind(failure)
            if kind not in known:
                known[kind] = await _list_names(client, kind)
            failure = _suggest(failure, failure.missing_name, known[kind], kind)
        better.append(failure)
    return better


def _kind(failure: UnknownTopicOrPartition | GroupIdNotFound) -> str:
    if isinstance(failure, UnknownTopicOrPartition):
        return "topic"
    return "queue" if failure.is_queue else "group"


async def _list_names(client: Client, kind: str) -> list[str] | None:
    """None where the broker does not say."""
    try:
        return await (_topics(client) if kind == "topic" else _groups(client, kind))
    except OdradekError:
        return None


def _suggest(failure: OdradekError, name: str, known: list[str] | None, kind: str) -> OdradekError:
    if known is None or name in known:
        return failure  # it is about a partition, or the name is new
    nearest = nearest_name(name, known)
    hint = _LISTS[kind] if nearest is None else f"did you mean {nearest!r}?"
    return type(failure)(f"there is no {kind} {name!r}; {hint}")


async def _groups(client: Client, kind: str) -> list[str]:
    from odradek.client.admin.groups import GroupAdmin
    from odradek.client.admin.queues import QueueAdmin

    found = await (QueueAdmin(client).list() if kind == "queue" else GroupAdmin(client).list())
    return [group.group_id for group in found]
