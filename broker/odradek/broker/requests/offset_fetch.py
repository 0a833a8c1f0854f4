"""OffsetFetch: read the offsets of groups. From version 8 on of many groups, from version 10 on by topic ids.

An offset that was committed by id belongs to the topic with that id alone. A topic that was made later under the name
has none: here also for a request by name, where Kafka gives it.

With `require_stable` an offset that an open transaction is about to change is UNSTABLE_OFFSET_COMMIT: its reader tries
again. Otherwise it is the committed one.

A group that shares partitions through ZooKeeper and has no offsets here shows those of ZooKeeper, to a request for all
its topics. Consumers name their partitions, and so do not continue from there by chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from odradek.broker.groups.offset_requests import UNSTABLE
from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import ConsumerGroupParts
from odradek.broker.requests.topic_ids import CODE_OF_UNKNOWN_ID, find_topic
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicId
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.transaction_errors import UnstableOffsetCommit
from odradek.metadata.image.image import TopicImage
from odradek.network.pending import Pending
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.groups import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

VERSION_WITH_GROUPS: Final = 8
VERSION_WITH_ERROR_OF_ALL: Final = 2
FIRST_WITH_TOPIC_IDS: Final = 10

_NONE: Final = OffsetAndMetadata(-1)
_UNSTABLE: Final = error_code(UnstableOffsetCommit())

Topics = Sequence[OffsetFetchRequestTopic] | Sequence[OffsetFetchRequestTopics]
# A group, the member that asks and its epoch, and the topics; None for all of them.
Asked = tuple[str, str | None, int, Topics | None]
# The offsets that groups have in ZooKeeper.
Others = Mapping[str, Mapping[tuple[str, int], OffsetAndMetadata]]


def handle(
    request: OffsetFetchRequest, context: RequestContext[ConsumerGroupParts]
) -> Message | Pending[Message]:
    asked: list[Asked] = [(request.group_id, None, -1, request.topics)]
    if context.header.api_version >= VERSION_WITH_GROUPS:
        asked = [(one.group_id, one.member_id, one.member_epoch, one.topics) for one in request.groups]
    others = context.broker.zookeeper_groups
    if others is None:
        return _answer(request, asked, context, {})
    asked_all = [group_id for group_id, _, _, topics in asked if topics is None]
    unknown = [group_id for group_id in asked_all if not context.broker.groups.offsets.is_known(group_id)]
    if not unknown:
        return _answer(request, asked, context, {})

    async def answer_with_zookeeper() -> Message:
        offsets = {group_id: await others.offsets(group_id) for group_id in unknown}
        return _answer(request, asked, context, offsets)

    return Pending(answer_with_zookeeper())


def _answer(
    request: OffsetFetchRequest,
    asked: Sequence[Asked],
    context: RequestContext[ConsumerGroupParts],
    others: Others,
) -> Message:
    groups = [_fetch(context, others, *one, require_stable=request.require_stable) for one in asked]
    if context.header.api_version >= VERSION_WITH_GROUPS:
        return context.response(groups=groups)
    return context.response(topics=groups[0]["topics"], error_code=groups[0]["error_code"])


def _fetch(
    context: RequestContext[ConsumerGroupParts],
    others: Others,
    group_id: str,
    member_id: str | None,
    member_epoch: int,
    topics: Topics | None,
    *,
    require_stable: bool,
) -> dict[str, object]:
    topics_by_name = context.broker.images.current.topics
    by_id = context.header.api_version >= FIRST_WITH_TOPIC_IDS
    unknown: list[OffsetFetchRequestTopics] = []
    asked: Sequence[NamedTopic] | None = None
    if by_id and topics is not None:
        asked, unknown = _name_topics(cast(Sequence[OffsetFetchRequestTopics], topics), context)
    elif topics is not None:
        asked = [NamedTopic(topic.name, None, topic.partition_indexes) for topic in topics]
    wanted = None
    if asked is not None:
        wanted = [(topic.name, index) for topic in asked for index in topic.partition_indexes]
    code = 0
    try:
        committed = context.broker.groups.offsets.fetch(
            group_id,
            member_id=member_id,
            member_epoch=member_epoch,
            partitions=wanted,
            require_stable=require_stable,
        )
    except OdradekError as error:
        code = error_code(error)
        is_of_all = context.header.api_version >= VERSION_WITH_ERROR_OF_ALL
        shown = () if is_of_all else asked or ()
        found = [topic_with_error(topic.name, topic.partition_indexes, code) for topic in shown]
    else:
        if asked is not None:
            found = [_some(topic, committed, topics_by_name.get(topic.name)) for topic in asked]
            # As in Kafka's answers, topics that do not exist come last.
            found += [
                topic_with_error("", topic.partition_indexes, CODE_OF_UNKNOWN_ID, topic_id=topic.topic_id)
                for topic in unknown
            ]
        else:
            found = _all(committed or others.get(group_id, {}), topics_by_name, by_id=by_id)
    return {"group_id": group_id, "topics": found, "error_code": code}


class NamedTopic(NamedTuple):
    """A topic of a request with its name, also where the request has its id."""

    name: str
    topic_id: TopicId | None
    partition_indexes: Sequence[int]


def _name_topics(
    topics: Sequence[OffsetFetchRequestTopics], context: RequestContext[ConsumerGroupParts]
) -> tuple[list[NamedTopic], list[OffsetFetchRequestTopics]]:
    """The topics that exist, and the others."""
    image = context.broker.images.current
    named: list[NamedTopic] = []
    unknown: list[OffsetFetchRequestTopics] = []
    for topic in topics:
        found = find_topic(image, topic, by_id=True)
        if found is None:
            unknown.append(topic)
        else:
            named.append(NamedTopic(found.name, found.id, topic.partition_indexes))
    return named, unknown


def _some(
    asked: NamedTopic, committed: Mapping[tuple[str, int], OffsetAndMetadata], topic: TopicImage | None
) -> Mapping[str, object]:
    rows = []
    for index in asked.partition_indexes:
        value = committed.get((asked.name, index), _NONE)
        rows.append(_stable(index, _NONE if _is_of_another(value, topic) else value))
    return _topic(asked.name, rows, topic_id=asked.topic_id)


def _all(
    committed: Mapping[tuple[str, int], OffsetAndMetadata],
    topics: Mapping[str, TopicImage],
    *,
    by_id: bool,
) -> list[Mapping[str, object]]:
    by_topic: dict[str, list[tuple[int, OffsetAndMetadata, int]]] = {}
    for (name, partition), value in committed.items():
        topic = topics.get(name)
        if _is_of_another(value, topic) or (by_id and topic is None):
            continue
        by_topic.setdefault(name, []).append(_stable(partition, value))
    return [
        _topic(name, partitions, topic_id=topics[name].id if by_id else None)
        for name, partitions in by_topic.items()
    ]


def _is_of_another(value: OffsetAndMetadata, topic: TopicImage | None) -> bool:
    """Whether the offset was committed for a topic that had the name before."""
    return value.topic_id is not None and topic is not None and value.topic_id != topic.id


def _stable(index: int, value: OffsetAndMetadata) -> tuple[int, OffsetAndMetadata, int]:
    """Partition, offset and error."""
    return (index, _NONE, _UNSTABLE) if value is UNSTABLE else (index, value, 0)


def topic_with_error(
    name: str, indexes: Iterable[int], code: int, *, topic_id: TopicId | None = None
) -> Mapping[str, object]:
    """The answer for a topic whose offsets cannot be had."""
    return _topic(name, [(index, _NONE, code) for index in indexes], topic_id=topic_id)


def _topic(
    name: str,
    partitions: Iterable[tuple[int, OffsetAndMetadata, int]],
    *,
    topic_id: TopicId | None = None,
) -> Mapping[str, object]:
    named: dict[str, object] = {"name": name} if topic_id is None else {"topic_id": topic_id}
    return {
        **named,
        "partitions": [
            {
                "partition_index": index,
                "committed_offset": value.offset,
                "committed_leader_epoch": value.leader_epoch,
                "metadata": value.metadata,
                "error_code": code,
            }
            for index, value, code in partitions
        ],
    }
