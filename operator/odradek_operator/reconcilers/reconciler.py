"""The parts that all reconcilers share: their protocol, their environment, and the write of a status.

A reconciler is called with a key, never with an event. It reads what there is, and so continues wherever the last run
was cut off. It writes the status last, and only when the status changes: a resync of settled resources writes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeVar

from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.metrics import ConditionBook
from odradek_operator.gateways.kubernetes import Api, EventType, Json, Kubernetes, NotFound, api_of, metadata
from odradek_operator.resources.conditions import PAUSED, Condition, condition, merge_conditions
from odradek_operator.resources.structure import InvalidResource, parse, render

PAUSED_ANNOTATION: Final = "odradek.io/paused"
# Earlier versions of the operator put it on what has the deletion policy Delete.
CLEANUP_FINALIZER: Final = "odradek.io/cleanup"
S = TypeVar("S")
logger = logging.getLogger(__name__)


class Reconciler(Protocol):
    """Makes the world as resources of one kind want it."""

    async def reconcile(self, key: Key) -> float | None:
        """Do what is needed now. The answer is after how many seconds to run again; None waits for an event.

        A resource that is gone is no error. Raises what Kubernetes and the brokers raise: the queue tries again.
        """


@dataclass(frozen=True, slots=True)
class Environment:
    """The parts that reconcilers work with. `wake` puts another resource into the queue, now or after some seconds.

    `stale` are resources for which something outside themselves has changed.
    """

    kubernetes: Kubernetes
    conditions: ConditionBook
    wake: Callable[..., None]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    stale: set[Key] = field(default_factory=set)

    def mark_stale(self, key: Key) -> None:
        """Have a resource reconciled, even where it has not changed itself."""
        self.stale.add(key)
        self.wake(key)

    async def write_status(self, body: Json, status: Any, stated: Sequence[Condition]) -> Json | None:
        """Write the status of the resource read as `body`: the structure `status` with the conditions `stated`.

        Conditions keep the time of their last change. The answer is the resource as it was written, or None where
        nothing changes or the resource is gone. A paused resource gets the condition Paused besides.
        """
        generation = int(metadata(body).get("generation") or 0)
        paused = is_paused(body)
        if paused and all(known.type != PAUSED for known in stated):
            stated = [*stated, _pause_condition()]
        before: Json = body.get("status") or {}
        conditions = merge_conditions(conditions_of(body), stated, generation=generation, now=self.now())
        after = render(replace(status, conditions=conditions, observed_generation=generation))
        self.conditions.note(key_of(body), {known.type: str(known.status) for known in conditions})
        if after == before:
            return None
        try:
            return await self.kubernetes.set_status(api_of(body), body, after)
        except NotFound:
            logger.debug("%s was deleted before its status was written", key_of(body))
            return None

    async def report_event(self, body: Json, reason: str, message: str, *, warning: bool = False) -> None:
        """Put an event on a resource, and a line into the log."""
        logger.log(logging.WARNING if warning else logging.INFO, "%s: %s: %s", key_of(body), reason, message)
        await self.kubernetes.record_event(
            body, EventType.WARNING if warning else EventType.NORMAL, reason, message
        )


def key_of(body: Json) -> Key:
    """The key of a resource that was read."""
    return Key(str(body["kind"]), str(metadata(body)["namespace"]), str(metadata(body)["name"]))


def is_paused(body: Json) -> bool:
    """Whether the operator must leave a resource alone."""
    return str((metadata(body).get("annotations") or {}).get(PAUSED_ANNOTATION, "")).lower() == "true"


def is_deleted(body: Json) -> bool:
    """Whether a resource is being deleted."""
    return bool(metadata(body).get("deletionTimestamp"))


def conditions_of(body: Json) -> tuple[Condition, ...]:
    """The conditions that a resource's status has; those that cannot be read count as absent."""
    found: list[Condition] = []
    for raw in (body.get("status") or {}).get("conditions") or ():
        try:
            found.append(parse(Condition, raw, path="status.conditions"))
        except InvalidResource:
            continue
    return tuple(found)


def status_of(body: Json, structure: type[S]) -> S:
    """The status that is there as a value; an empty one where it is absent or of another form."""
    try:
        return parse(structure, body.get("status") or {}, path="status")
    except InvalidResource:
        return structure()


async def remove_finalizer(kubernetes: Kubernetes, api: Api, body: Json) -> None:
    """Remove the operator's finalizer, if the resource has it. Raises Conflict when the resource has become newer."""
    finalizers = metadata(body).get("finalizers") or []
    if CLEANUP_FINALIZER in finalizers:
        left = [name for name in finalizers if name != CLEANUP_FINALIZER]
        try:
            await kubernetes.set_finalizers(api, body, left)
        except NotFound:
            logger.debug("%s went without its finalizer being taken off", key_of(body))


def _pause_condition() -> Condition:
    message = f"nothing is changed while the annotation {PAUSED_ANNOTATION} is true; remove it to continue"
    return condition(PAUSED, True, "Annotated", message)
