"""How a pass leaves a resource: what its owner is told, and what the next pass has to know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from odradek_operator.gateways.kubernetes import Api, Json, metadata
from odradek_operator.reconcilers.decisions import DecisionOf, DesiredOf, News
from odradek_operator.reconcilers.passes import Outcome
from odradek_operator.reconcilers.reconciler import Outside, is_deleted, key_of, remove_finalizer, status_of
from odradek_operator.resources.conditions import ready
from odradek_operator.resources.structure import InvalidResource

INVALID_AGAIN_SECONDS: Final = 300.0


async def tell(outside: Outside, body: Json, news: Iterable[News]) -> None:
    """Put events on a resource."""
    for one in news:
        await outside.tell(body, one.reason, one.message, warning=one.is_warning)


async def leave(
    outside: Outside, body: Json, desired: DesiredOf[Any, Any], decision: DecisionOf[Any, Any]
) -> Outcome:
    """Say what a decision without actions has to say. Raises KubernetesError."""
    if decision.status is not None:
        body = await outside.report(body, decision.status, decision.conditions) or body
        await tell(outside, body, decision.news)
    # What was written over is a newer spec than the one that was followed: its event must not be passed by.
    is_newer = int(metadata(body).get("generation") or 0) != desired.generation
    version = "" if is_newer else str(metadata(body)["resourceVersion"])
    return Outcome(key_of(body), version, decision.again_seconds)


async def leave_invalid(
    outside: Outside, api: Api, body: Json, problem: InvalidResource, *, status: type[Any]
) -> Outcome | None:
    """Say what is wrong with a resource that cannot be read; None when it goes. Raises KubernetesError."""
    if is_deleted(body):
        # Nobody can say what it meant: what it had stays.
        await remove_finalizer(outside.kubernetes, api, body)
        return None
    stated = [ready(False, "InvalidSpec", f"{problem}; correct the resource")]
    written = await outside.report(body, status_of(body, status), stated)
    if written is not None:
        await outside.tell(body, "InvalidSpec", str(problem), warning=True)
    return Outcome(key_of(body), str(metadata(written or body)["resourceVersion"]), INVALID_AGAIN_SECONDS)
