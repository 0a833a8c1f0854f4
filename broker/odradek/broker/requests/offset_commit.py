"""OffsetCommit: store offsets of a group."""

from __future__ import annotations

from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import ConsumerGroupParts
from odradek.foundation.errors import OdradekError, UnknownTopicOrPartition
from odradek.network.pending import Pending, when_ready
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message, milliseconds
from odradek.wire.protocol.requests.groups import OffsetCommitRequest

Partition = tuple[str, int]
Commits = list[tuple[str, int, OffsetAndMetadata]]


def handle(
    request: OffsetCommitRequest, context: RequestContext[ConsumerGroupParts]
) -> Message | Pending[Message]:
    unknown, commits = _commits(request, context)
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
    return when_ready(outcome, lambda errors: _response(request, context, unknown, errors))


def _commits(
    request: OffsetCommitRequest, context: RequestContext[ConsumerGroupParts]
) -> tuple[set[Partition], Commits]:
    """The partitions that do not exist, and what can be committed for the others."""
    image = context.broker.images.current
    now_ms = context.broker.clock.wall_ms()
    retention = milliseconds(request.retention_time) if 2 <= context.header.api_version <= 4 else -1
    expire_timestamp_ms = now_ms + retention if retention >= 0 else -1
    unknown: set[Partition] = set()
    commits: Commits = []
    for topic in request.topics:
        found = image.topics.get(topic.name)
        for partition in topic.partitions:
            index = partition.partition_index
            if found is None or not 0 <= index < len(found.partitions):
                unknown.add((topic.name, index))
                continue
            committed = OffsetAndMetadata(
                partition.committed_offset,
                partition.committed_leader_epoch,
                partition.committed_metadata or "",
                now_ms,
                expire_timestamp_ms,
            )
            commits.append((found.name, index, committed))
    return unknown, commits


def _response(
    request: OffsetCommitRequest,
    context: RequestContext[ConsumerGroupParts],
    unknown: set[Partition],
    outcome: list[OdradekError | None],
) -> Message:
    """The topics and partitions as the request has them; those not `unknown` have their commits' outcomes in order."""
    outcomes = iter(outcome)
    missing = error_code(UnknownTopicOrPartition())
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            index = partition.partition_index
            code = missing if (topic.name, index) in unknown else error_code(next(outcomes))
            partitions.append({"partition_index": index, "error_code": code})
        topics.append({"name": topic.name, "partitions": partitions})
    return context.response(topics=topics)
