"""Carries out what `storage` decides: a StatefulSet is applied, or made again where its claims cannot be changed."""

from __future__ import annotations

import logging

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
from odradek_operator.reconcilers.cluster import facts, storage
from odradek_operator.reconcilers.cluster.look import Look

logger = logging.getLogger(__name__)


async def apply_stateful_set(look: Look, manifest: Json, size: str) -> None:
    """Apply a StatefulSet whose volumes have this size; one whose claims change is made again, its pods stay."""
    name = metadata(manifest)["name"]
    there = look.objects.get(("StatefulSet", name))
    if there is not None and metadata(there).get("deletionTimestamp"):
        return  # It is being deleted, without its pods; the next look makes it again.
    await _grow_volumes(look, name, size)
    manifest = await _settle_class(look, there, manifest)
    if storage.must_be_made_anew(there, manifest):
        logger.info(
            "%s: %s is made again, its pods stay: its volumes have another size, class or labels now",
            look.key,
            name,
        )
        uid = metadata(there or {}).get("uid")
        await look.environment.kubernetes.delete(
            STATEFUL_SETS, look.key.namespace, name, uid=uid, orphan=True
        )
        del look.objects["StatefulSet", name]
        # After their set, which would make them again as they were.
        await _remove_unbound_claims(look)
        return
    await look.applier.apply(look.key, manifest, look.objects)
    await _remove_unbound_claims(look)


async def _settle_class(look: Look, there: Json | None, manifest: Json) -> Json:
    """The manifest with the storage class that volumes were made with; claims without one are made again."""
    if there is None:
        return manifest
    name = str(metadata(manifest)["name"])
    old = storage.storage_class(storage.claim_template(there))
    new = storage.storage_class(storage.claim_template(manifest))
    claims = look.claims(name)
    if old != new and any(storage.is_bound(claim) for claim in claims):
        look.volume_problem = (
            f"the storage class of {name} stays {old or 'the default'}: its volumes were made with it. Set it "
            "back, or move to a new Cluster"
        )
        return storage.with_class(manifest, old)
    for claim in claims:
        # Also those of an earlier look that was cut off.
        is_wrong = old != new or (new is not None and storage.storage_class(claim) != new)
        if is_wrong and not storage.is_bound(claim) and not metadata(claim).get("deletionTimestamp"):
            look.unbound_claims.append(claim)
    return manifest


async def _remove_unbound_claims(look: Look) -> None:
    """Delete claims of a wrong storage class that have no volume, and the pods that wait for them."""
    unbound, look.unbound_claims = look.unbound_claims, []
    for claim in unbound:
        about = metadata(claim)
        logger.info("%s: %s has no volume and is made again with another class", look.key, about["name"])
        await look.environment.kubernetes.delete(
            VOLUME_CLAIMS, look.key.namespace, about["name"], uid=about["uid"]
        )
        pod = look.objects.get(("Pod", str(about["name"]).removeprefix(f"{VOLUME}-")))
        if pod is not None and not facts.pod_is_ready(pod):
            uid = metadata(pod)["uid"]
            await look.environment.kubernetes.delete(PODS, look.key.namespace, metadata(pod)["name"], uid=uid)


async def _grow_volumes(look: Look, stateful_set: str, size: str) -> None:
    claims = [body for (kind, _), body in look.objects.items() if kind == "PersistentVolumeClaim"]
    for growth in storage.claims_to_grow(claims, stateful_set=stateful_set, size=size):
        manifest = {
            "apiVersion": VOLUME_CLAIMS.group_version,
            "kind": VOLUME_CLAIMS.kind,
            # With its uid: a claim that is gone is not made here.
            "metadata": {"name": growth.claim, "namespace": look.key.namespace, "uid": growth.uid},
            "spec": {"resources": {"requests": {"storage": growth.size}}},
        }
        try:
            await look.environment.kubernetes.apply(manifest)
            await look.environment.report_event(
                look.body, "VolumeGrows", f"{growth.claim} asks for {growth.size} now"
            )
        except Conflict:
            logger.info("%s: %s went before it could grow", look.key, growth.claim)
        except (Refused, Forbidden) as refusal:
            why = f"{refusal}. Its storage class must allow expansion"
            look.volume_problem = f"{growth.claim} cannot grow to {growth.size}: {why}"
