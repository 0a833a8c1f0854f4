"""Carries out what `storage` decides: a StatefulSet is applied, or made again where its claims cannot be changed."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from odradek_operator.desired.names import VOLUME
from odradek_operator.gateways.kubernetes import (
    PODS,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
    Conflict,
    Forbidden,
    Json,
    Refused,
    metadata,
)
from odradek_operator.reconcilers.cluster import facts
from odradek_operator.reconcilers.cluster.run import ReconcileRun
from odradek_operator.reconcilers.cluster.storage import volume_claims

logger = logging.getLogger(__name__)


async def apply_stateful_set(run: ReconcileRun, manifest: Json, size: str) -> str | None:
    """Apply a StatefulSet whose volumes have this size; the answer is what is wrong with its volumes.

    One whose claim template changes is deleted, and its pods stay. The next run makes it again.
    """
    name = metadata(manifest)["name"]
    there = run.objects.get(("StatefulSet", name))
    if there is not None and metadata(there).get("deletionTimestamp"):
        return None  # It is being deleted, without its pods; the next run makes it again.
    problem = await _grow_volumes(run, name, size)
    wanted_class = volume_claims.storage_class(volume_claims.claim_template(manifest))
    old_class = (
        wanted_class if there is None else volume_claims.storage_class(volume_claims.claim_template(there))
    )
    claims = run.claims(name)
    if old_class != wanted_class and any(volume_claims.is_bound(claim) for claim in claims):
        problem = (
            f"the storage class of {name} stays {old_class or 'the default'}: its volumes were made with it. Set it "
            "back, or move to a new Cluster"
        )
        manifest, unbound = volume_claims.with_class(manifest, old_class), []
    else:
        unbound = (
            [] if there is None else volume_claims.claims_to_replace(claims, old=old_class, new=wanted_class)
        )
    if volume_claims.must_be_made_again(there, manifest):
        logger.info(
            "%s: %s is made again, its pods stay: its volumes have another size, class or labels now",
            run.key,
            name,
        )
        await run.delete(STATEFUL_SETS, name, uid=metadata(there or {}).get("uid"), orphan=True)
        del run.objects["StatefulSet", name]
    else:
        await run.apply(manifest)
    # After their set, which would make them again as they were.
    await _remove_claims(run, unbound)
    return problem


async def _remove_claims(run: ReconcileRun, claims: Iterable[Json]) -> None:
    """Delete claims of a wrong storage class that have no volume, and the pods that wait for them."""
    for claim in claims:
        about = metadata(claim)
        logger.info("%s: %s has no volume and is made again with another class", run.key, about["name"])
        await run.delete(VOLUME_CLAIMS, about["name"], uid=about["uid"])
        pod = run.objects.get(("Pod", str(about["name"]).removeprefix(f"{VOLUME}-")))
        if pod is not None and not facts.pod_is_ready(pod):
            await run.delete(PODS, metadata(pod)["name"], uid=metadata(pod)["uid"])


async def _grow_volumes(run: ReconcileRun, stateful_set: str, size: str) -> str | None:
    """Have claims ask for this size; the answer is why one cannot."""
    problem = None
    for growth in volume_claims.claims_to_grow(run.claims(stateful_set), size=size):
        manifest = {
            "apiVersion": VOLUME_CLAIMS.group_version,
            "kind": VOLUME_CLAIMS.kind,
            # With its uid: a claim that is gone is not made here.
            "metadata": {"name": growth.claim, "namespace": run.key.namespace, "uid": growth.uid},
            "spec": {"resources": {"requests": {"storage": growth.size}}},
        }
        try:
            await run.environment.kubernetes.apply(manifest)
            await run.report_event("VolumeGrows", f"{growth.claim} asks for {growth.size} now")
        except Conflict:
            logger.info("%s: %s went before it could grow", run.key, growth.claim)
        except (Refused, Forbidden) as refusal:
            why = f"{refusal}. Its storage class must allow expansion"
            problem = f"{growth.claim} cannot grow to {growth.size}: {why}"
    return problem
