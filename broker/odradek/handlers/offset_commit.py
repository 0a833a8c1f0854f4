"""OffsetCommit: store offsets of a group. From version 10 on topics are named by id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from odradek.foundation.errors import OdradekError, UnknownTopicId, UnknownTopicOrPartition
from odradek.groups.schema import OffsetAndMetadata
from odradek.handlers.context import RequestContext
from odradek.protocol.errors import error_code
from odradek.protocol.messages import Message, milliseconds
from odradek.protocol.requests.groups import OffsetCommitRequest, OffsetCommitRequestTopic
from odradek.transport.pending import Pending, when_ready

VERSION_WITH_TOPIC_IDS: Final = 10

# A topic as the request names it.
Name = str | UUID | None
Commits = list[tuple[str, int, OffsetAndMetadata]]


def handle(request: OffsetCommitRequest, context: RequestContext) -> Message | Pending[Message]:
    codes, commits = _commits(request, context)
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
    return when_ready(outcome, lambda errors: _response(request, context, codes, errors))


def _commits(
    request: OffsetCommitRequest, context: RequestContext
) -> tuple[dict[tuple[Name, int], int], Commits]:
    """What can be committed, and the errors of what cannot by (topic as the request names it, partition)."""
    version = context.header.api_version
    image = context.broker.images.current
    now_ms = context.broker.clock.wall_ms()
    retention = milliseconds(request.retention_time) if 2 <= version <= 4 else -1
    expire_timestamp_ms = now_ms + retention if retention >= 0 else -1
    unknown_partition = error_code(UnknownTopicOrPartition())
    codes: dict[tuple[Name, int], int] = {}
    commits: Commits = []
    for topic in request.topics:
        if version >= VERSION_WITH_TOPIC_IDS:
            found = None if topic.topic_id is None else image.topics_by_id.get(topic.topic_id)
            missing = error_code(UnknownTopicId())
        else:
            found = image.topics.get(topic.name)
            missing = error_code(UnknownTopicOrPartition())
        for partition in topic.partitions:
            if found is None:
                codes[_name(topic, version), partition.partition_index] = missing
                continue
            if not 0 <= partition.partition_index < len(found.partitions):
                codes[_name(topic, version), partition.partition_index] = unknown_partition
                continue
            commits.append(
                (
                    found.name,
                    partition.partition_index,
                    OffsetAndMetadata(
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata or "",
                        now_ms,
                        expire_timestamp_ms,
                        found.id,
                    ),
                )
            )
    return codes, commits


def _name(topic: OffsetCommitRequestTopic, version: int) -> Name:
    return topic.topic_id if version >= VERSION_WITH_TOPIC_IDS else topic.name


def _response(
    request: OffsetCommitRequest,
    context: RequestContext,
    codes: Mapping[tuple[Name, int], int],
    outcome: list[OdradekError | None],
) -> Message:
    """The topics and partitions as the request has them; those not in `codes` are in `commits`, in that order."""
    version = context.header.api_version
    outcomes = iter(outcome)
    topics = []
    for topic in request.topics:
        name = _name(topic, version)
        partitions = []
        for partition in topic.partitions:
            code = codes.get((name, partition.partition_index))
            if code is None:
                code = error_code(next(outcomes))
            partitions.append({"partition_index": partition.partition_index, "error_code": code})
        topics.append(
            {"name" if version < VERSION_WITH_TOPIC_IDS else "topic_id": name, "partitions": partitions}
        )
    return context.response(topics=topics)
