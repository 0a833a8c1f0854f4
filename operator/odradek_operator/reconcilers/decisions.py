"""The values of decisions that are alike for Topics and ConsumerGroups: desired, actual, and the decision."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from odradek_operator.gateways.kubernetes import Json, metadata
from odradek_operator.reconcilers.broker_failures import Failure
from odradek_operator.reconcilers.reconciler import CLEANUP_FINALIZER, is_deleted, is_paused, status_of
from odradek_operator.resources.conditions import Condition, ready_condition
from odradek_operator.resources.deletion import DeletionPolicy
from odradek_operator.resources.structure import parse

UNREACHABLE_AGAIN_SECONDS: Final = 10.0
NO_CLUSTER_AGAIN_SECONDS: Final = 30.0
REFUSED_AGAIN_SECONDS: Final = 60.0
# How long a deletion waits for a cluster that does not answer. Then the resource goes, and what it made may stay.
DELETION_SECONDS_MAX: Final = 600.0


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
class AddFinalizer:
    """Add the finalizer, so that a deletion waits for the operator."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove the finalizer."""


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
    deleted_seconds: float = 0.0
    has_finalizer: bool = False

    @classmethod
    def read(cls, body: Json, *, spec: type[Spec], status: type[Status], now: datetime) -> Self:
        """The resource as a value. Raises InvalidResource."""
        meta = metadata(body)
        deleted_at = meta.get("deletionTimestamp")
        return cls(
            name=str(meta["name"]),
            uid=str(meta["uid"]),
            generation=int(meta.get("generation") or 0),
            spec=parse(spec, body.get("spec") or {}),
            status=status_of(body, status),
            is_paused=is_paused(body),
            is_deleted=is_deleted(body),
            deleted_seconds=(now - datetime.fromisoformat(deleted_at)).total_seconds() if deleted_at else 0.0,
            has_finalizer=CLEANUP_FINALIZER in (meta.get("finalizers") or ()),
        )

    def finalizer_steps(self) -> tuple[AddFinalizer | RemoveFinalizer, ...]:
        """The steps after which the resource has a finalizer if, and only if, its deletion deletes something else."""
        wants = self.spec.deletion_policy is DeletionPolicy.DELETE
        if wants and not self.has_finalizer:
            return (AddFinalizer(),)
        return () if wants else self.release_steps()

    def release_steps(self) -> tuple[RemoveFinalizer, ...]:
        """The step that removes a finalizer which is not needed: nothing is owned, or it stays."""
        is_owner = self.status.owner_uid == self.uid
        retains = self.spec.deletion_policy is DeletionPolicy.RETAIN
        return (RemoveFinalizer(),) if self.has_finalizer and (retains or not is_owner) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualOf:
    """The part of the actual state that is alike for all kinds of resources.

    `problem` is why the cluster cannot be reached. `older` is the resource that owns the thing, and why, where that is
    not this one; `sharers` counts others that name it. `failure` is the last refusal in this run.
    """

    reachability: Reachability = Reachability.REACHED
    problem: str = ""
    older: str | None = None
    sharers: int = 0
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


def deletion_waits(what: str, why: str) -> Condition:
    """The condition of a deleted resource that waits, because what it owns cannot be deleted yet."""
    message = (
        f"{what} is to be deleted with this resource, and cannot be yet: {why}. It is tried for "
        f"{DELETION_SECONDS_MAX:g} s, and then it stays; set deletionPolicy to Retain to leave it there at once"
    )
    return ready_condition(False, "DeletionWaits", message)
