"""StreamsGroupHeartbeat: what a member of a Streams group sends, and what it receives (KIP-1071).

Missing internal topics are created where the client may create them. Later heartbeats say what became of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from odradek.broker.groups.streams.heartbeats import (
    StreamsGroupHeartbeat,
    StreamsHeartbeatResult,
    StreamsOutcome,
    check_streams_heartbeat,
)
from odradek.broker.groups.streams.schema import ClientTag, UserEndpoint
from odradek.broker.groups.streams.tasks import (
    OwnedTasks,
    TargetTasks,
    TaskId,
    Tasks,
    number_tasks,
    read_tasks,
)
from odradek.broker.groups.streams.topology import (
    CopartitionedTopics,
    InternalTopic,
    StatusCode,
    StreamsStatus,
    StreamsSubtopology,
    StreamsTopology,
    TopicSetting,
)
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.long_answers import make_in_turns
from odradek.broker.requests.parts import ConsumerGroupParts
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import InvalidTopic, OdradekError, RequestError, StreamsInvalidTopology
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.metadata.controller.requests import USE_DEFAULT, NewTopic
from odradek.metadata.image.topic_names import is_internal_topic, validate_topic_name
from odradek.network.pending import Pending
from odradek.wire.protocol.messages import Message, milliseconds
from odradek.wire.protocol.requests import streams as requests
from odradek.wire.protocol.requests.streams import StreamsGroupHeartbeatRequest

# From this version on the acceptable lag is a long, and clients know that tags are missing.
VERSION_WITH_TAGS: Final = 1
_MISSING_CLIENT_TAGS: Final = 6
# Of an answer that says nothing about tasks.
_NO_TASKS: Final[Mapping[str, None]] = dict.fromkeys(
    ("active_tasks", "standby_tasks", "warmup_tasks", "partitions_by_user_endpoint")
)

MayCreate = Callable[[str], bool]


def handle(
    request: StreamsGroupHeartbeatRequest,
    context: RequestContext[ConsumerGroupParts],
    may_create: MayCreate | None = None,
) -> Message | Pending[Message]:
    """`may_create` says which internal topics the client may create; None for a client that may do all."""
    elements = _count_elements(request)
    if elements > REQUEST_ELEMENTS_PER_TURN_MAX:
        return Pending(_answer_many(request, context, may_create, elements))
    return _answer_heartbeat(request, context, may_create, read_heartbeat(request, context))


async def _answer_many(
    request: StreamsGroupHeartbeatRequest,
    context: RequestContext[ConsumerGroupParts],
    may_create: MayCreate | None,
    elements: int,
) -> Message:
    """With a large topology, or many tasks: the thread reads them."""
    heartbeat = await make_in_turns(context, elements, lambda: read_heartbeat(request, context))
    answer = _answer_heartbeat(request, context, may_create, heartbeat)
    return await answer if isinstance(answer, Pending) else answer


def _count_elements(request: StreamsGroupHeartbeatRequest) -> int:
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    count = sum(1 + len(row.partitions) for rows in tasks for row in rows or ())
    count += len(request.task_offsets or ()) + len(request.task_end_offsets or ())
    if request.topology is not None:
        for one in request.topology.subtopologies:
            count += (
                1 + len(one.source_topics) + len(one.repartition_sink_topics) + len(one.copartition_groups)
            )
            count += len(one.repartition_source_topics) + len(one.state_changelog_topics)
    return count


def _answer_heartbeat(
    request: StreamsGroupHeartbeatRequest,
    context: RequestContext[ConsumerGroupParts],
    may_create: MayCreate | None,
    heartbeat: StreamsGroupHeartbeat,
) -> Message | Pending[Message]:
    group_id: str = request.group_id
    groups = context.broker.groups

    def respond(ready: StreamsOutcome) -> Message:
        if isinstance(ready, OdradekError):
            return context.response(**_NO_TASKS, **error_fields(ready))
        return _response(context, group_id, ready, may_create)

    try:
        groups.context.check_streams_protocol()
        if request.topology is not None:
            check_topic_names(list_topics(request.topology))
        check_streams_heartbeat(groups.context, group_id, heartbeat)
    except RequestError as error:
        return respond(without_trace(error))
    outcome = groups.streams_heartbeat(group_id, heartbeat)

    return Pending(outcome).then(respond) if isinstance(outcome, Awaitable) else respond(outcome)


def list_topics(topology: requests.Topology) -> list[str]:
    """Each topic that a topology names, once, in its order."""
    names: dict[str, None] = {}
    for one in topology.subtopologies:
        names |= dict.fromkeys((*one.source_topics, *one.repartition_sink_topics))
        names |= dict.fromkeys(topic.name for topic in one.repartition_source_topics)
        names |= dict.fromkeys(topic.name for topic in one.state_changelog_topics)
    return list(names)


def check_topic_names(names: Sequence[str]) -> None:
    """Raises StreamsInvalidTopology for topics that a topology may not have."""
    prohibited = [name for name in names if is_internal_topic(name)]
    if prohibited:
        raise StreamsInvalidTopology(
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
        )
    invalid = [name for name in names if not _is_valid(name)]
    if invalid:
        raise StreamsInvalidTopology(f"Topic names {','.join(invalid)} are not valid topic names.")


def _is_valid(name: str) -> bool:
    try:
        validate_topic_name(name)
    except InvalidTopic:
        return False
    return True


# --- the request --------------------------------------------------------------------------------------------


def read_heartbeat(
    request: StreamsGroupHeartbeatRequest, context: RequestContext[ConsumerGroupParts]
) -> StreamsGroupHeartbeat:
    """The request as the coordinator takes it."""
    kinds = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    endpoint = request.user_endpoint
    tags = request.client_tags
    return StreamsGroupHeartbeat(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        topology=_read_topology(request.topology),
        owned=_read_owned(kinds),
        owned_kinds=sum(rows is not None for rows in kinds),
        process_id=request.process_id,
        user_endpoint=None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
        client_tags=None if tags is None else tuple(sorted(ClientTag(tag.key, tag.value) for tag in tags)),
        offsets=_read_offsets(request.task_offsets),
        end_offsets=_read_offsets(request.task_end_offsets),
        shutdown_application=request.shutdown_application,
        endpoint_epoch=request.endpoint_information_epoch,
        client_id=context.header.client_id or "",
        client_host=f"/{context.client_host}",
    )


def _read_owned(kinds: Sequence[Sequence[OwnedTasks] | None]) -> TargetTasks | None:
    if all(rows is None for rows in kinds):
        return None
    return TargetTasks(*(read_tasks(rows or ()) for rows in kinds))


def _read_offsets(
    rows: Sequence[requests.TaskOffset] | Sequence[requests.StreamsGroupHeartbeatTaskOffset] | None,
) -> Mapping[TaskId, int] | None:
    if rows is None:
        return None
    return {(row.subtopology_id, row.partition): row.offset for row in rows}


def _read_topology(topology: requests.Topology | None) -> StreamsTopology | None:
    if topology is None:
        return None
    return StreamsTopology(
        topology.epoch,
        tuple(
            StreamsSubtopology(
                subtopology_id=one.subtopology_id,
                source_topics=tuple(one.source_topics),
                source_topic_regex=tuple(one.source_topic_regex),
                state_changelog_topics=_read_topics(one.state_changelog_topics),
                repartition_sink_topics=tuple(one.repartition_sink_topics),
                repartition_source_topics=_read_topics(one.repartition_source_topics),
                copartition_groups=tuple(
                    CopartitionedTopics(
                        tuple(group.source_topics),
                        tuple(group.source_topic_regex),
                        tuple(group.repartition_source_topics),
                    )
                    for group in one.copartition_groups
                ),
            )
            for one in topology.subtopologies
        ),
    )


def _read_topics(
    topics: Sequence[requests.StreamsGroupHeartbeatTopicInfo],
) -> tuple[InternalTopic, ...]:
    return tuple(
        InternalTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            tuple(TopicSetting(config.key, config.value) for config in topic.topic_configs),
        )
        for topic in topics
    )


# --- the answer ---------------------------------------------------------------------------------------------


def _response(
    context: RequestContext[ConsumerGroupParts],
    group_id: str,
    result: StreamsHeartbeatResult,
    may_create: MayCreate | None,
) -> Message:
    if result.member_epoch < 0:
        # A member that leaves sends no further heartbeat.
        return context.response(member_id=result.member_id, member_epoch=result.member_epoch, **_NO_TASKS)
    settings = context.broker.groups.context
    statuses = _create_missing(context, group_id, result, may_create)
    rows = [{"status_code": int(code), "status_detail": detail} for code, detail in statuses]
    rows += _say_missing_tags(context, group_id, result.member_id)
    held = result.assigned
    return context.response(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval=settings.streams_value("heartbeat.interval.ms", group_id),
        acceptable_recovery_lag=(
            settings.streams_value("acceptable.recovery.lag", group_id)
            if context.header.api_version >= VERSION_WITH_TAGS
            else 0
        ),
        task_offset_interval=settings.streams_value("task.offset.interval.ms", group_id),
        status=rows,
        active_tasks=None if held is None else write_rows(number_tasks(held.active)),
        standby_tasks=None if held is None else write_rows(held.standby),
        warmup_tasks=None if held is None else write_rows(held.warmup),
        endpoint_information_epoch=result.endpoint_epoch,
        partitions_by_user_endpoint=(
            None
            if result.endpoints is None
            else [
                {
                    "user_endpoint": one.user_endpoint._asdict(),
                    "active_partitions": [topic._asdict() for topic in one.active_partitions],
                    "standby_partitions": [topic._asdict() for topic in one.standby_partitions],
                }
                for one in result.endpoints
            ]
        ),
    )


def write_rows(tasks: Tasks) -> list[dict[str, object]]:
    """The tasks as in answers."""
    return [
        {"subtopology_id": subtopology_id, "partitions": sorted(numbers)}
        for subtopology_id, numbers in sorted(tasks.items())
    ]


def _create_missing(
    context: RequestContext[ConsumerGroupParts],
    group_id: str,
    result: StreamsHeartbeatResult,
    may_create: MayCreate | None,
) -> list[StreamsStatus]:
    """Begin to create what is missing; the statuses, with what hinders that."""
    if not result.missing:
        return list(result.statuses)
    groups = context.broker.groups
    denied = (
        [] if may_create is None else [topic.name for topic in result.missing if not may_create(topic.name)]
    )
    details = []
    failures: Mapping[str, str] = {}
    if denied:
        details.append(f"; Unauthorized to CREATE on topics {', '.join(denied)}.")
    else:
        # Two heartbeats on, a failure is tried again.
        interval_ms = groups.context.streams_value("heartbeat.interval.ms", group_id)
        failures = groups.internal_topics.list_failures(topic.name for topic in result.missing)
        wanted = [_new_topic(topic) for topic in result.missing]
        groups.internal_topics.create(wanted, failures_last_ms=2 * interval_ms)
    if failures:
        words = ", ".join(f"{name} ({reason})" for name, reason in failures.items())
        details.append(f"; Creation failed: {words}.")
    return [
        status._replace(status_detail=status.status_detail + "".join(details))
        if status.status_code is StatusCode.MISSING_INTERNAL_TOPICS
        else status
        for status in result.statuses
    ]


def _new_topic(topic: InternalTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.partitions,
        topic.replication_factor or USE_DEFAULT,
        config={config.key: config.value for config in topic.topic_configs},
    )


def _say_missing_tags(
    context: RequestContext[ConsumerGroupParts], group_id: str, member_id: str
) -> list[dict[str, object]]:
    """The status of a member without the tags of clients that the group's setting names."""
    groups = context.broker.groups
    wanted = groups.context.streams_rack_tags(group_id)
    if not wanted or context.header.api_version < VERSION_WITH_TAGS:
        return []
    group = groups.runtime.shard(group_id).machine.groups.streams(group_id)
    member = None if group is None else group.members.get(member_id)
    known = {tag.key for tag in member.client_tags} if member is not None else set(wanted)
    missing = [tag for tag in wanted if tag not in known]
    if not missing:
        return []
    detail = (
        f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. Configure them via "
        "'client.tag.<tagKey>' in your Streams config."
    )
    return [{"status_code": _MISSING_CLIENT_TAGS, "status_detail": detail}]
