"""The values of decisions that are alike for Topics, Users and ConsumerGroups: desired, actual, and the decision.

`Work` has all three of one resource on its way through the rounds of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.kubernetes import Json, metadata
from odradek_operator.reconcilers.broker_failures import Failure
from odradek_operator.reconcilers.reconciler import (
    CLEANUP_FINALIZER,
    is_deleted,
    is_paused,
    key_of,
    status_of,
)
from odradek_operator.resources.conditions import Condition, ready_condition
from odradek_operator.resources.deletion import DeletionPolicy
from odradek_operator.resources.structure import parse

UNREACHABLE_AGAIN_SECONDS: Final = 10.0
NO_CLUSTER_AGAIN_SECONDS: Final = 30.0
REFUSED_AGAIN_SECONDS: Final = 60.0
# What cannot be deleted yet is tried again, as long as its Cluster is there.
OWED_AGAIN_SECONDS: Final = 30.0


class Governing(Protocol):
    """A spec with a deletion policy."""

    @property
    def deletion_policy(self) -> DeletionPolicy: ...


class Owning(Protocol):
    """A status with the uid of the owner."""

    @property
    def owner_uid(self) -> str | None: ...


Spec = TypeVar("Spec", bound=Governing)
Status = TypeVar("Status", bound=Owning)
Action = TypeVar("Action")


class Reachability(Enum):
    """Whether the cluster can be reached."""

    REACHED = "reached"
    UNREACHABLE = "unreachable"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove the finalizer that an earlier version of the operator has put on the resource."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event for the resource."""

    reason: str
    message: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredOf(Generic[Spec, Status]):
    """A resource as it was read."""

    name: str
    uid: str
    generation: int
    spec: Spec
    status: Status
    is_paused: bool = False
    is_deleted: bool = False
    has_finalizer: bool = False

    @classmethod
    def read(cls, body: Json, *, spec: type[Spec], status: type[Status]) -> Self:
        """The resource as a value. Raises InvalidResource."""
        meta = metadata(body)
        return cls(
            name=str(meta["name"]),
            uid=str(meta["uid"]),
            generation=int(meta.get("generation") or 0),
            spec=parse(spec, body.get("spec") or {}),
            status=status_of(body, status),
            is_paused=is_paused(body),
            is_deleted=is_deleted(body),
            has_finalizer=CLEANUP_FINALIZER in (meta.get("finalizers") or ()),
        )

    def release_steps(self) -> tuple[RemoveFinalizer, ...]:
        """The step that removes a finalizer of earlier versions: what goes with a resource is recorded instead."""
        return (RemoveFinalizer(),) if self.has_finalizer else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualOf:
    """The part of the actual state that is alike for all kinds of resources.

    `problem` is why the cluster cannot be reached. `older` is the resource that owns the thing, and why, where that is
    not this one. `failure` is the last refusal in this run.
    """

    reachability: Reachability = Reachability.REACHED
    problem: str = ""
    older: str | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOf(Generic[Action, Status]):
    """Steps in order, and what to report. `again_seconds`: when to reconcile again without an event."""

    actions: tuple[Action, ...] = ()
    status: Status | None = None
    conditions: tuple[Condition, ...] = ()
    events: tuple[Event, ...] = ()
    again_seconds: float | None = None

    @classmethod
    def with_condition(
        cls,
        desired: DesiredOf[Any, Any],
        first: Condition,
        *more: Action | Condition,
        again_seconds: float | None = None,
    ) -> Self:
        """A decision that changes only the conditions of the status. A new reason for a False is an event too."""
        known = next((one.reason for one in desired.status.conditions if one.type == first.type), None)
        is_new = str(first.status) == "False" and known != first.reason
        return cls(
            actions=tuple(one for one in more if not isinstance(one, Condition)),
            status=desired.status,
            conditions=(first, *(one for one in more if isinstance(one, Condition))),
            events=(Event(first.reason, first.message, is_warning=True),) if is_new else (),
            again_seconds=again_seconds,
        )

    @classmethod
    def without_cluster(
        cls, desired: DesiredOf[Any, Any], reachability: Reachability, problem: str
    ) -> Self | None:
        """The decision for a cluster that cannot be reached; None for one that can."""
        if reachability is Reachability.GONE:
            gone = ready_condition(False, "ClusterNotFound", problem)
            release: Any = desired.release_steps()  # All kinds have this step among theirs.
            return cls.with_condition(desired, gone, *release, again_seconds=NO_CLUSTER_AGAIN_SECONDS)
        if reachability is Reachability.UNREACHABLE:
            unreachable = ready_condition(None, "ClusterUnreachable", problem)
            return cls.with_condition(desired, unreachable, again_seconds=UNREACHABLE_AGAIN_SECONDS)
        return None


# --- on their way through the rounds ----------------------------------------------------------------------------------

DesiredT = TypeVar("DesiredT", bound=DesiredOf[Any, Any])
ActualT = TypeVar("ActualT", bound=ActualOf)
DecisionT = TypeVar("DecisionT", bound=DecisionOf[Any, Any])


@dataclass(slots=True)
class Work(Generic[DesiredT, ActualT, DecisionT]):
    """A resource on its way through the rounds; closed once it needs no further round."""

    body: Json
    desired: DesiredT
    actual: ActualT
    decision: DecisionT
    is_open: bool = True

    @property
    def key(self) -> Key:
        return key_of(self.body)


AnyWork = Work[Any, Any, Any]
WorkT = TypeVar("WorkT", bound=AnyWork)
