"""The Secrets that belong to a Cluster: read, and written where they are not as wanted."""

from __future__ import annotations

from odradek_operator.gateways.kubernetes import Json, metadata
from odradek_operator.gateways.secrets import Secrets, SecretTaken
from odradek_operator.reconcilers.cluster.run import ReconcileRun
from odradek_operator.reconcilers.ownership import (
    Belonging,
    ForeignObject,
    ObjectsOfOthers,
    foreign_object,
)


async def read_own_secret(run: ReconcileRun, suffix: str) -> Json | None:
    """A Secret of the Cluster; None where there is none. Raises ObjectsOfOthers, KubernetesError."""
    name = run.context.object_name(suffix)
    try:
        found = await Secrets(run.environment.kubernetes).read(run.key.namespace, name)
    except SecretTaken:
        taken = ForeignObject(kind="Secret", name=name, belonging=Belonging.OTHER)
        raise ObjectsOfOthers([taken]) from None
    if found is not None:
        foreign = foreign_object(found, name=run.key.name, uid=str(metadata(run.body)["uid"]))
        if foreign is not None:
            raise ObjectsOfOthers([foreign])
    return found


async def write_own_secret(run: ReconcileRun, manifest: Json, before: Json | None) -> None:
    """Write a Secret that was read as `before`, unless it is as wanted. Raises Conflict, KubernetesError."""
    if before is None or before.get("data") != manifest["data"] or not _has_metadata(before, manifest):
        await Secrets(run.environment.kubernetes).write(manifest, before)


def _has_metadata(there: Json, wanted: Json) -> bool:
    """Whether the labels and the owner of an object are those that are wanted."""
    found, given = metadata(there), metadata(wanted)
    labels, owners = found.get("labels") or {}, found.get("ownerReferences") or []
    return bool(given["labels"].items() <= labels.items() and given["ownerReferences"] == owners)
