"""The topic that a verb writes to. An invalid name is refused, and the creation of a topic is printed. Brokers create a
topic at its first use, so a misspelt name would go unnoticed: one that looks like it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.cli.shared.output import count, print_error
from odradek.client.client import Client
from odradek.client.errors import error_for_api
from odradek.client.metadata import ClusterInfo, TopicInfo
from odradek.client.suggestions import nearest_topic
from odradek.foundation.errors import InvalidTopic, UnknownTopicOrPartition
from odradek.foundation.security_errors import TopicAuthorizationFailed
from odradek.foundation.words import is_likely_typo
from odradek.metadata.image.topic_names import validate_topic_name
from odradek.wire.protocol.api import ApiKey


def check_name(topic: str) -> None:
    """Raises InvalidTopic for a name that no topic may have, with the message of `odradek topics create`."""
    try:
        validate_topic_name(topic)
    except InvalidTopic as failure:
        words = str(failure)
        raise InvalidTopic(words if repr(topic) in words else f"topic {topic!r}: {words}") from None


def check_rights(cluster: ClusterInfo, topics: Iterable[str], api: ApiKey) -> None:
    """Raises TopicAuthorizationFailed, with the right that `api` needs, for a topic that may not even be described. The
    right to describe alone would only lead to the next denial.
    """
    for topic in topics:
        found = cluster.topics.get(topic)
        failure = None if found is None else error_for_api(api, found.error_code, topic=topic)
        if isinstance(failure, TopicAuthorizationFailed):
            raise failure


async def ensure_topic(client: Client, topic: str, *, may_create: bool | None, create_hint: str) -> None:
    """Let the broker create a missing topic, and print that on stderr. `may_create` None is to create it unless its
    name looks like a misspelt one; `create_hint` says how to create it then. Raises UnknownTopicOrPartition for a
    missing topic that this command or the broker may not create.
    """
    cluster = await client.refresh((topic,))
    check_rights(cluster, [topic], ApiKey.PRODUCE)
    found = cluster.topics.get(topic)
    if found is not None and not isinstance(found.error(), UnknownTopicOrPartition):
        return
    near = await nearest_topic(client, topic)
    nearest = "" if near is None else f" (did you mean {near!r}?)"
    if may_create is False:
        raise UnknownTopicOrPartition(
            f"there is no topic {topic!r}{nearest}; make it with `odradek topics create {topic}`, "
            "or leave --no-create out"
        )
    if may_create is None and near is not None and is_likely_typo(topic, near):
        raise UnknownTopicOrPartition(
            f"there is no topic {topic!r}; did you mean {near!r}? To create {topic!r}, {create_hint}"
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
