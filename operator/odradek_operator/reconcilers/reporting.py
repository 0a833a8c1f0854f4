"""How a pass leaves a resource: what its owner is told, and what the next pass has to know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from odradek_operator.gateways.kubernetes import Api, Json, metadata
from odradek_operator.reconcilers.batches import Outcome
from odradek_operator.reconcilers.decisions import DecisionOf, DesiredOf, Event
from odradek_operator.reconcilers.reconciler import (
    Environment,
    is_deleted,
    key_of,
    remove_finalizer,
    status_of,
)
from odradek_operator.resources.conditions import ready
from odradek_operator.resources.structure import InvalidResource

INVALID_AGAIN_SECONDS: Final = 300.0


async def tell(environment: Environment, body: Json, events: Iterable[Event]) -> None:
    """Put events on a resource."""
    for one in events:
        await environment.report_event(body, one.reason, one.message, warning=one.is_warning)


async def leave(
    environment: Environment, body: Json, desired: DesiredOf[Any, Any], decision: DecisionOf[Any, Any]
) -> Outcome:
    """Say what a decision without actions has to say. Raises KubernetesError."""
    if decision.status is not None:
        body = await environment.write_status(body, decision.status, decision.conditions) or body
        await tell(environment, body, decision.events)
    # What was written over is a newer spec than the one that was followed: its event must not be passed by.
    is_newer = int(metadata(body).get("generation") or 0) != desired.generation
    version = "" if is_newer else str(metadata(body)["resourceVersion"])
    return Outcome(key_of(body), version, decision.again_seconds)


async def leave_invalid(
    environment: Environment, api: Api, body: Json, problem: InvalidResource, *, status: type[Any]
) -> Outcome | None:
    """Say what is wrong with a resource that cannot be read; None when it goes. Raises KubernetesError."""
    if is_deleted(body):
        # Nobody can say what it meant: what it had stays.
        await remove_finalizer(environment.kubernetes, api, body)
        return None
    stated = [ready(False, "InvalidSpec", f"{problem}; correct the resource")]
    written = await environment.write_status(body, status_of(body, status), stated)
    if written is not None:
        await environment.report_event(body, "InvalidSpec", str(problem), warning=True)
    return Outcome(key_of(body), str(metadata(written or body)["resourceVersion"]), INVALID_AGAIN_SECONDS)
