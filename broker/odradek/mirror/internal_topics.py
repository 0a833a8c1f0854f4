"""Makes the topics of checkpoints, heartbeats and offset syncs: one partition each, compacted."""

from __future__ import annotations

from typing import Final

from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.foundation.errors import InvalidReplicationFactor, TopicAlreadyExists, UnknownTopicOrPartition
from odradek.foundation.security_errors import TopicAuthorizationFailed

_CONFIGS: Final = {"cleanup.policy": "compact"}


async def ensure_topic(
    client: Client, topic: str, *, cluster: str, replication_factor: int, factor_key: str, otherwise: str
) -> None:
    """Make the topic unless it exists. `otherwise` says what to do where this client may not.

    Raises InvalidReplicationFactor, TopicAuthorizationFailed, each with the setting that helps.
    """
    topics = TopicAdmin(client)
    try:
        await topics.describe(topic)
        return
    except UnknownTopicOrPartition:
        pass
    except TopicAuthorizationFailed as failure:
        raise TopicAuthorizationFailed(
            f"topic {topic!r} of cluster {cluster!r} may not be read: allow READ, WRITE and DESCRIBE on it; {otherwise}"
        ) from failure
    try:
        await topics.create(topic, partitions=1, replication_factor=replication_factor, configs=_CONFIGS)
    except TopicAlreadyExists:
        return  # by another worker
    except InvalidReplicationFactor as failure:
        raise InvalidReplicationFactor(
            f"topic {topic!r} cannot have {replication_factor} replicas: cluster {cluster!r} has fewer brokers; "
            f"set {factor_key}"
        ) from failure
    except TopicAuthorizationFailed as failure:
        raise TopicAuthorizationFailed(
            f"topic {topic!r} may not be created at cluster {cluster!r}: create it with one partition and "
            f"cleanup.policy=compact, or allow CREATE; {otherwise}"
        ) from failure
