"""OffsetFetch: read the offsets of groups. From version 8 on of many groups, from version 10 on by topic id.

With `require_stable` an offset that an open transaction is about to change is UNSTABLE_OFFSET_COMMIT: its reader tries
again. Otherwise it is the committed one.

A group that shares partitions through ZooKeeper and has no offsets here shows those of ZooKeeper, to a request for all
its topics. Consumers name their partitions, and so do not go on from there by chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from odradek.foundation.errors import OdradekError, UnknownTopicId
from odradek.foundation.transaction_errors import UnstableOffsetCommit
from odradek.groups.offset_requests import UNSTABLE
from odradek.groups.schema import OffsetAndMetadata
from odradek.handlers.context import RequestContext
from odradek.protocol.errors import error_code
from odradek.protocol.messages import Message
from odradek.protocol.requests.groups import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from odradek.transport.pending import Pending

VERSION_WITH_GROUPS: Final = 8
VERSION_WITH_TOPIC_IDS: Final = 10
VERSION_WITH_ERROR_OF_ALL: Final = 2

_NONE: Final = OffsetAndMetadata(-1)
_UNSTABLE: Final = error_code(UnstableOffsetCommit())

# A topic as the request names it.
Name = str | UUID | None
Topics = Sequence[OffsetFetchRequestTopic] | Sequence[OffsetFetchRequestTopics]
# The offsets that groups have in ZooKeeper.
Others = Mapping[str, Mapping[tuple[str, int], OffsetAndMetadata]]
Asked = list[
    tuple[str | None, Name, Sequence[int]]
]  # name if known, topic as the request names it, partitions


def handle(request: OffsetFetchRequest, context: RequestContext) -> Message | Pending[Message]:
    others = context.broker.zookeeper_groups
    asked_all = (
        [group.group_id for group in request.groups if group.topics is None]
        if context.header.api_version >= VERSION_WITH_GROUPS
        else [request.group_id][: request.topics is None]
    )
    if others is None or not asked_all:
        return _answer(request, context, {})
    unknown = [group_id for group_id in asked_all if not context.broker.groups.offsets.is_known(group_id)]
    if not unknown:
        return _answer(request, context, {})

    async def answered() -> Message:
        return _answer(request, context, {group_id: await others.offsets(group_id) for group_id in unknown})

    return Pending(answered())


def _answer(request: OffsetFetchRequest, context: RequestContext, others: Others) -> Message:
    version = context.header.api_version
    if version >= VERSION_WITH_GROUPS:
        return context.response(
            groups=[
                _group(group, context, others, require_stable=request.require_stable)
                for group in request.groups
            ]
        )
    code, topics = _fetch(
        context, others, request.group_id, None, -1, request.topics, require_stable=request.require_stable
    )
    return context.response(topics=topics, error_code=code if version >= VERSION_WITH_ERROR_OF_ALL else 0)


def _group(
    group: OffsetFetchRequestGroup, context: RequestContext, others: Others, *, require_stable: bool
) -> Mapping[str, object]:
    member_id = group.member_id
    member_epoch = group.member_epoch
    code, topics = _fetch(
        context, others, group.group_id, member_id, member_epoch, group.topics, require_stable=require_stable
    )
    return {"group_id": group.group_id, "topics": topics, "error_code": code}


def _fetch(
    context: RequestContext,
    others: Others,
    group_id: str,
    member_id: str | None,
    member_epoch: int,
    topics: Topics | None,
    *,
    require_stable: bool,
) -> tuple[int, list[Mapping[str, object]]]:
    """The error of the whole group, and its topics."""
    version = context.header.api_version
    asked = None if topics is None else _asked(topics, context)
    wanted = None
    if asked is not None:
        wanted = [(name, index) for name, _, indexes in asked if name is not None for index in indexes]
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
        if version >= VERSION_WITH_ERROR_OF_ALL:
            return code, []
        return code, [
            _topic(version, name, [(i, _NONE, code) for i in indexes]) for _, name, indexes in asked or ()
        ]
    if asked is None:
        return 0, list(_all(committed or others.get(group_id, {}), context))
    return 0, [_asked_topic(version, row, committed) for row in asked]


def _asked(topics: Topics, context: RequestContext) -> Asked:
    if context.header.api_version < VERSION_WITH_TOPIC_IDS:
        return [(topic.name, topic.name, topic.partition_indexes) for topic in topics]
    by_id = context.broker.images.current.topics_by_id
    asked: Asked = []
    for topic in topics:
        topic_id = topic.topic_id if isinstance(topic, OffsetFetchRequestTopics) else None
        found = None if topic_id is None else by_id.get(topic_id)
        asked.append((None if found is None else found.name, topic_id, topic.partition_indexes))
    return asked


def _asked_topic(
    version: int,
    row: tuple[str | None, Name, Sequence[int]],
    committed: Mapping[tuple[str, int], OffsetAndMetadata],
) -> Mapping[str, object]:
    name, asked_as, indexes = row
    if name is None:
        code = error_code(UnknownTopicId())
        return _topic(version, asked_as, [(index, _NONE, code) for index in indexes])
    return _topic(
        version, asked_as, [_stable(index, committed.get((name, index), _NONE)) for index in indexes]
    )


def _stable(index: int, value: OffsetAndMetadata) -> tuple[int, OffsetAndMetadata, int]:
    """Partition, offset and error."""
    return (index, _NONE, _UNSTABLE) if value is UNSTABLE else (index, value, 0)


def _all(
    committed: Mapping[tuple[str, int], OffsetAndMetadata], context: RequestContext
) -> Iterable[Mapping[str, object]]:
    version = context.header.api_version
    by_topic: dict[str, list[tuple[int, OffsetAndMetadata, int]]] = {}
    for (topic, partition), value in committed.items():
        by_topic.setdefault(topic, []).append(_stable(partition, value))
    topics = context.broker.images.current.topics
    for name, partitions in by_topic.items():
        if version < VERSION_WITH_TOPIC_IDS:
            yield _topic(version, name, partitions)
        elif name in topics:
            yield _topic(version, topics[name].id, partitions)


def _topic(
    version: int, name: Name, partitions: Iterable[tuple[int, OffsetAndMetadata, int]]
) -> Mapping[str, object]:
    return {
        "topic_id" if version >= VERSION_WITH_TOPIC_IDS else "name": name,
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
