"""Topics that a request names by their ids, or in older versions by their names."""

from __future__ import annotations

from typing import Final, Protocol

from odradek.foundation.errors import UnknownTopicId, UnknownTopicOrPartition
from odradek.foundation.ids import TopicId
from odradek.metadata.image.image import ClusterImage, TopicImage
from odradek.wire.protocol.errors import error_code

CODE_OF_UNKNOWN_ID: Final = error_code(UnknownTopicId())
_UNKNOWN: Final = error_code(UnknownTopicOrPartition())


class AskedTopic(Protocol):
    """A topic as a request names it; its version has the name or the id."""

    name: str
    topic_id: TopicId | None


def find_topic(image: ClusterImage, topic: AskedTopic, *, by_id: bool) -> TopicImage | None:
    if by_id:
        return None if topic.topic_id is None else image.topics_by_id.get(topic.topic_id)
    return image.topics.get(topic.name)


def code_of_missing(*, is_topic_known: bool, by_id: bool) -> int:
    """The error of a partition that does not exist."""
    return CODE_OF_UNKNOWN_ID if by_id and not is_topic_known else _UNKNOWN
