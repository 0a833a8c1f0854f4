"""The partitions that each member of a Streams group can be asked about, for interactive queries.

An application finds by them which of its processes has a key. There is one entry for each member with an endpoint.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.groups.streams.group import StreamsGroup
from odradek.broker.groups.streams.schema import UserEndpoint
from odradek.broker.groups.streams.tasks import TaskEpochs, Tasks
from odradek.broker.groups.streams.topology import ConfiguredSubtopology
from odradek.foundation.named_tuple import NamedTuple
from odradek.metadata.image.image import TopicImage


class EndpointTopic(NamedTuple):
    topic: str
    partitions: list[int]


class EndpointPartitions(NamedTuple):
    """The source partitions of a member's active tasks, and of its copies."""

    user_endpoint: UserEndpoint
    active_partitions: list[EndpointTopic]
    standby_partitions: list[EndpointTopic]


def list_endpoints(group: StreamsGroup, topics: Mapping[str, TopicImage]) -> list[EndpointPartitions]:
    """One entry for each member with an endpoint; none while the group's topics are missing."""
    configured = group.configured
    if configured is None or configured.subtopologies is None:
        return []
    listed = []
    for member_id, member in group.members.items():
        if member.user_endpoint is None:
            continue
        held = group.current(member_id).assigned
        copies = {
            subtopology_id: held.standby.get(subtopology_id, frozenset())
            | held.warmup.get(subtopology_id, frozenset())
            for subtopology_id in held.standby.keys() | held.warmup.keys()
        }
        listed.append(
            EndpointPartitions(
                member.user_endpoint,
                _list_topics(held.active, configured.subtopologies, topics),
                _list_topics(copies, configured.subtopologies, topics),
            )
        )
    return listed


def _list_topics(
    tasks: Tasks | TaskEpochs,
    subtopologies: Mapping[str, ConfiguredSubtopology],
    topics: Mapping[str, TopicImage],
) -> list[EndpointTopic]:
    listed = []
    for subtopology_id, numbers in sorted(tasks.items()):
        subtopology = subtopologies.get(subtopology_id)
        if subtopology is None:
            continue
        sources = {
            *subtopology.source_topics,
            *(topic.name for topic in subtopology.repartition_source_topics),
        }
        for topic in sorted(sources & topics.keys()):
            partitions = sorted(number for number in numbers if number < len(topics[topic].partitions))
            if partitions:
                listed.append(EndpointTopic(topic, partitions))
    return listed
