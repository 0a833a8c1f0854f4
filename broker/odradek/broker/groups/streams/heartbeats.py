"""A heartbeat of a Streams group's member and its answer, and what a heartbeat may say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.broker.groups.context import GroupContext
from odradek.broker.groups.streams.endpoints import EndpointPartitions
from odradek.broker.groups.streams.group import LEFT_FOR_NOW_EPOCH
from odradek.broker.groups.streams.schema import ClientTag, UserEndpoint
from odradek.broker.groups.streams.tasks import HeldTasks, TargetTasks, TaskId
from odradek.broker.groups.streams.topology import InternalTopic, StreamsStatus, StreamsTopology
from odradek.foundation.errors import InvalidRequest, OdradekError, StreamsInvalidTopology
from odradek.foundation.limits import STREAMS_SUBTOPOLOGIES_MAX
from odradek.foundation.named_tuple import NamedTuple

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1


class StreamsGroupHeartbeat(NamedTuple):
    """A heartbeat; None (and -1 for the timeout) means as before. `owned` is None unless all three kinds are given."""

    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: StreamsTopology | None = None
    owned: TargetTasks | None = None
    owned_kinds: int = 0  # of the three kinds of tasks, those given
    process_id: str | None = None
    user_endpoint: UserEndpoint | None = None
    client_tags: tuple[ClientTag, ...] | None = None
    offsets: Mapping[TaskId, int] | None = None
    end_offsets: Mapping[TaskId, int] | None = None
    shutdown_application: bool = False
    endpoint_epoch: int = -1
    client_id: str = ""
    client_host: str = ""


class StreamsHeartbeatResult(NamedTuple):
    """The answer: the member's epoch, and its tasks if they changed or it joins.

    `endpoints` are there when the member knows those of another epoch. `missing` are the topics to make.
    """

    member_id: str
    member_epoch: int
    statuses: tuple[StreamsStatus, ...] = ()
    assigned: HeldTasks | None = None
    endpoint_epoch: int = 0
    endpoints: list[EndpointPartitions] | None = None
    missing: tuple[InternalTopic, ...] = ()


StreamsOutcome = StreamsHeartbeatResult | OdradekError


def check_streams_heartbeat(context: GroupContext, group_id: str, request: StreamsGroupHeartbeat) -> None:
    """Raises InvalidRequest for fields that contradict each other, StreamsInvalidTopology, UnsupportedVersion."""
    context.check_streams_protocol()
    epoch, topology = request.member_epoch, request.topology
    if topology is not None:
        is_plain = not any(one.source_topic_regex for one in topology.subtopologies)
        _require(is_plain, "Regular expressions for source topics are not supported yet.")
    _require(request.member_id != "", "MemberId can't be empty.")
    _require(group_id != "", "GroupId can't be empty.")
    _require(request.instance_id != "", "InstanceId can't be empty.")
    _require(request.rack_id != "", "RackId can't be empty.")
    if epoch == JOIN_EPOCH:
        _require(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        owned = request.owned or TargetTasks()
        for kind, tasks in zip(("ActiveTasks", "StandbyTasks", "WarmupTasks"), owned, strict=True):
            _require(not tasks, f"{kind} must be empty when (re-)joining.")
        _require(topology is not None, "Topology must be non-null when (re-)joining.")
        if topology is not None:
            _check_topology(topology)
    elif epoch == LEFT_FOR_NOW_EPOCH:
        _require(request.instance_id is not None, "InstanceId can't be null.")
    _require(epoch >= LEFT_FOR_NOW_EPOCH, f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    _require(request.owned_kinds in (0, 3), "If one task-type is non-null, all must be non-null.")
    if epoch != JOIN_EPOCH:
        _require(topology is None, "Topology can only be provided when (re-)joining.")


def _check_topology(topology: StreamsTopology) -> None:
    for one in topology.subtopologies:
        for topic in one.state_changelog_topics:
            if topic.partitions != 0:
                raise StreamsInvalidTopology(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}."
                )
    if topology.epoch < 0:
        raise StreamsInvalidTopology(f"the topology's epoch {topology.epoch} is negative")
    ids = {one.subtopology_id for one in topology.subtopologies}
    if len(ids) < len(topology.subtopologies):
        raise StreamsInvalidTopology("two subtopologies of the topology have one id")
    if len(ids) > STREAMS_SUBTOPOLOGIES_MAX:
        raise StreamsInvalidTopology(
            f"the topology has {len(ids)} subtopologies, more than {STREAMS_SUBTOPOLOGIES_MAX}; split the application"
        )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidRequest(message)
