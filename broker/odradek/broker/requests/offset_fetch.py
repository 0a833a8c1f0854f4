"""OffsetFetch: read the offsets of groups. From version 8 on of many groups.

With `require_stable` an offset that an open transaction is about to change is UNSTABLE_OFFSET_COMMIT: its reader tries
again. Otherwise it is the committed one.

A group that shares partitions through ZooKeeper and has no offsets here shows those of ZooKeeper, to a request for all
its topics. Consumers name their partitions, and so do not continue from there by chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from odradek.broker.groups.offset_requests import UNSTABLE
from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import ConsumerGroupParts
from odradek.foundation.errors import OdradekError
from odradek.foundation.transaction_errors import UnstableOffsetCommit
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
    wanted = None
    if topics is not None:
        wanted = [(topic.name, index) for topic in topics for index in topic.partition_indexes]
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
        shown = () if is_of_all else topics or ()
        found = [topic_with_error(topic.name, topic.partition_indexes, code) for topic in shown]
    else:
        found = _all(committed or others.get(group_id, {})) if topics is None else _some(committed, topics)
    return {"group_id": group_id, "topics": found, "error_code": code}


def _some(
    committed: Mapping[tuple[str, int], OffsetAndMetadata], topics: Topics
) -> list[Mapping[str, object]]:
    return [
        _topic(
            topic.name,
            [_stable(index, committed.get((topic.name, index), _NONE)) for index in topic.partition_indexes],
        )
        for topic in topics
    ]


def _all(committed: Mapping[tuple[str, int], OffsetAndMetadata]) -> list[Mapping[str, object]]:
    by_topic: dict[str, list[tuple[int, OffsetAndMetadata, int]]] = {}
    for (topic, partition), value in committed.items():
        by_topic.setdefault(topic, []).append(_stable(partition, value))
    return [_topic(name, partitions) for name, partitions in by_topic.items()]


def _stable(index: int, value: OffsetAndMetadata) -> tuple[int, OffsetAndMetadata, int]:
    """Partition, offset and error."""
    return (index, _NONE, _UNSTABLE) if value is UNSTABLE else (index, value, 0)


def topic_with_error(name: str, indexes: Iterable[int], code: int) -> Mapping[str, object]:
    """The answer for a topic whose offsets cannot be had."""
    return _topic(name, [(index, _NONE, code) for index in indexes])


def _topic(name: str, partitions: Iterable[tuple[int, OffsetAndMetadata, int]]) -> Mapping[str, object]:
    return {
        "name": name,
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
