"""The topic that a verb writes to. An invalid name is refused, and the creation of a topic is printed. Brokers create a
topic at its first use, so a misspelt name would go unnoticed.
"""

from __future__ import annotations

from odradek.cli.shared.output import count, print_error
from odradek.client.client import Client
from odradek.client.metadata import TopicInfo
from odradek.foundation.errors import InvalidTopic, UnknownTopicOrPartition
from odradek.foundation.words import nearest_name
from odradek.metadata.image.topic_names import validate_topic_name


def check_name(topic: str) -> None:
    """Raises InvalidTopic for a name that no topic may have, with the message of `odradek topics create`."""
    try:
        validate_topic_name(topic)
    except InvalidTopic as failure:
        raise InvalidTopic(f"topic {topic!r}: {failure}") from None


async def ensure_topic(client: Client, topic: str, *, may_create: bool) -> None:
    """Let the broker create a missing topic, and print that on stderr with the nearest existing name. Raises
    UnknownTopicOrPartition for a missing topic that this command or the broker may not create.
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

    async def make_topic() -> TopicInfo:
        return (await client.topics((topic,), allow_creation=True)).topic(topic)

    try:
        info = await client.with_retries(make_topic)
    except UnknownTopicOrPartition as failure:
        raise UnknownTopicOrPartition(
            f"there is no topic {topic!r}{nearest}, and the broker creates none by itself "
            f"(auto.create.topics.enable); make it with `odradek topics create {topic}`"
        ) from failure
    print_error(
        f"there was no topic {topic!r}{nearest}; the broker has created it, with "
        f"{count(len(info.partitions), 'partition')}"
    )


async def _nearest(client: Client, topic: str) -> str:
    names = [name for name, info in (await client.refresh(None)).topics.items() if not info.error_code]
    nearest = nearest_name(topic, names)
    return "" if nearest is None else f" (did you mean {nearest!r}?)"
