"""The values of a decision about a ConsumerGroup: desired, actual, and the steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from odradek.foundation.ids import TopicPartition
from odradek_operator.gateways.group_values import ActualGroup, GroupsSeen, GroupStep
from odradek_operator.reconcilers.decisions import (
    ActualOf,
    DecisionOf,
    DesiredOf,
    RemoveFinalizer,
)
from odradek_operator.resources.consumer_group import ConsumerGroupSpec, ConsumerGroupStatus
from odradek_operator.resources.share_group import GroupType

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredGroup(DesiredOf[ConsumerGroupSpec, ConsumerGroupStatus]):
    """A ConsumerGroup resource as it was read."""

    @property
    def group_id(self) -> str:
        return self.spec.group_id or self.name

    @property
    def is_queue(self) -> bool:
        """Whether the group is to be a share group."""
        return self.spec.type is GroupType.SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSeen:
    """The workload of the consumers. `replicas` is the number that it is set to. All are None where it does not exist.

    `refusal` is why Kubernetes does not let the operator read or scale it, `not_allowed` why the Cluster does not.
    """

    replicas: int | None = None
    selector: str | None = None
    refusal: str = ""
    not_allowed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualGroupState(ActualOf):
    """The facts at the time `now`. `resolved` are the offsets that the last `Resolve` asked for."""

    now: datetime
    group: ActualGroup | None = None
    seen: GroupsSeen | None = None
    workload: WorkloadSeen | None = None
    resolved: Offsets | None = None


@dataclass(frozen=True, slots=True)
class Resolve:
    """Look up the offsets at these times, or at the special values of ListOffsets."""

    timestamps_ms: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Note:
    """Write the status now: an operator that takes over must know what comes next."""

    status: ConsumerGroupStatus


@dataclass(frozen=True, slots=True)
class ScaleWorkload:
    """Set the number of consumers."""

    kind: str
    name: str
    replicas: int


Action = GroupStep | Resolve | Note | ScaleWorkload | RemoveFinalizer


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDecision(DecisionOf[Action, ConsumerGroupStatus]):
    """A decision about a ConsumerGroup. After any step another decision follows; the last has no steps."""
