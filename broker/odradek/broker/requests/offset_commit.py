"""OffsetCommit: store offsets of a group. From version 10 on topics have ids instead of names (KIP-848).

A commit by id is stored with the id. So an offset of a topic that is gone is never taken for one of a topic that was
made later under the same name.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import ConsumerGroupParts
from odradek.broker.requests.topic_ids import CODE_OF_UNKNOWN_ID, code_of_missing, find_topic
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicId
from odradek.network.pending import Pending, when_ready
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message, milliseconds
from odradek.wire.protocol.requests.groups import OffsetCommitRequest

FIRST_WITH_TOPIC_IDS: Final = 10

Commits = list[tuple[str, int, OffsetAndMetadata]]
# Codes of errors by name, id and partition, as the request has them.
Missing = dict[tuple[str, TopicId | None, int], int]


def handle(
    request: OffsetCommitRequest, context: RequestContext[ConsumerGroupParts]
) -> Message | Pending[Message]:
    missing, commits = _commits(request, context)
    try:
        outcome = context.broker.groups.offsets.commit(
            request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id_or_member_epoch,
            version=context.header.api_version,
            commits=commits,
        )
    except OdradekError as error:
        outcome = [error] * len(commits)
    return when_ready(outcome, lambda errors: _response(request, context, missing, errors))


def _commits(
    request: OffsetCommitRequest, context: RequestContext[ConsumerGroupParts]
) -> tuple[Missing, Commits]:
    """The errors of partitions that do not exist, and what can be committed for the others."""
    image = context.broker.images.current
    by_id = context.header.api_version >= FIRST_WITH_TOPIC_IDS
    now_ms = context.broker.clock.wall_ms()
    retention = milliseconds(request.retention_time) if 2 <= context.header.api_version <= 4 else -1
    expire_timestamp_ms = now_ms + retention if retention >= 0 else -1
    missing: Missing = {}
    commits: Commits = []
    for topic in request.topics:
        found = find_topic(image, topic, by_id=by_id)
        for partition in topic.partitions:
            index = partition.partition_index
            if found is None or not 0 <= index < len(found.partitions):
                code = code_of_missing(is_topic_known=found is not None, by_id=by_id)
                missing[topic.name, topic.topic_id, index] = code
                continue
            committed = OffsetAndMetadata(
                partition.committed_offset,
                partition.committed_leader_epoch,
                partition.committed_metadata or "",
                now_ms,
                expire_timestamp_ms,
                found.id if by_id else None,
            )
            commits.append((found.name, index, committed))
    return missing, commits


def _response(
    request: OffsetCommitRequest,
    context: RequestContext[ConsumerGroupParts],
    missing: Missing,
    outcome: list[OdradekError | None],
) -> Message:
    """The topics and partitions as the request has them. Those that are not `missing` have one outcome each.

    As in Kafka's answers, topics with an unknown id come first.
    """
    outcomes = iter(outcome)
    topics: list[dict[str, object]] = []
    unknown: list[dict[str, object]] = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            index = partition.partition_index
            code = missing.get((topic.name, topic.topic_id, index))
            code = error_code(next(outcomes)) if code is None else code
            partitions.append({"partition_index": index, "error_code": code})
        # As it was when the offsets were looked at: the topic may be there by now.
        is_unknown = any(one["error_code"] == CODE_OF_UNKNOWN_ID for one in partitions)
        answer: dict[str, object] = {
            "name": topic.name,
            "topic_id": topic.topic_id,
            "partitions": partitions,
        }
        (unknown if is_unknown else topics).append(answer)
    return context.response(topics=unknown + topics)
