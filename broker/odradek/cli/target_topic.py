"""The topic that a verb is about to write to: a name that cannot be is refused, a topic that is made is made known.

Brokers make a topic when it is first asked for, so a misspelt name would go unnoticed.
"""

from __future__ import annotations

from odradek.cli.output import count, print_error
from odradek.client.client import Client
from odradek.client.metadata import TopicInfo
from odradek.cluster.topic_names import validate_topic_name
from odradek.foundation.errors import InvalidTopic, UnknownTopicOrPartition
from odradek.foundation.words import nearest_name


def check_name(topic: str) -> None:
    """Raises InvalidTopic, in the words of `odradek topics create`, for a name that no topic may have."""
    try:
        validate_topic_name(topic)
    except InvalidTopic as failure:
        raise InvalidTopic(f"topic {topic!r}: {failure}") from None


async def ensure_topic(client: Client, topic: str, *, may_create: bool) -> None:
    """Let the broker make the topic where it is missing, and say so on stderr with the nearest name there is.

    Raises UnknownTopicOrPartition where it is missing and may not be made, by this command or by the broker.
    """
    found = (await client.refresh((topic,))).topics.get(topic)
    if found is not None and not isinstance(found.error(), UnknownTopicOrPartition):
        return
    nearest = await _nearest(client, topic)
    if not may_create:
        raise UnknownTopicOrPartition(
            f"there is no topic {topic!r}{nearest}; make it with `odradek topics create {topic}`, "
            "or leave --no-create out"
        )

    async def made() -> TopicInfo:
        return (await client.topics((topic,), allow_creation=True)).topic(topic)

    try:
        info = await client.with_retries(made)
    except UnknownTopicOrPartition as failure:
        raise UnknownTopicOrPartition(
            f"there is no topic {topic!r}{nearest}, and the broker makes none by itself "
            f"(auto.create.topics.enable); make it with `odradek topics create {topic}`"
        ) from failure
    print_error(
        f"there was no topic {topic!r}{nearest}; the broker has made it, with "
        f"{count(len(info.partitions), 'partition')}"
    )


async def _nearest(client: Client, topic: str) -> str:
    names = [name for name, info in (await client.refresh(None)).topics.items() if not info.error_code]
    nearest = nearest_name(topic, names)
    return "" if nearest is None else f" (did you mean {nearest!r}?)"
