"""Server-side apply of all that a Cluster is made of: only what differs from what was applied last, and what is no
longer wanted goes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final

from odradek_operator.desired.binding import binding_name
from odradek_operator.desired.names import CLUSTER_LABEL
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.kubernetes import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
    Api,
    Json,
    Kubernetes,
    api_of,
    metadata,
)

OWNED: Final[tuple[Api, ...]] = (
    SERVICES, CONFIG_MAPS, SERVICE_ACCOUNTS, STATEFUL_SETS, DEPLOYMENTS, DISRUPTION_BUDGETS, NETWORK_POLICIES,
)  # fmt: skip
# Kubernetes counts changes of what is wanted in these; their version changes with each status.
_COUNTED: Final = frozenset({"StatefulSet", "Deployment", "PodDisruptionBudget"})


class Applier:
    """Applies manifests, and remembers by which version of an object its last form was taken up."""

    def __init__(self, kubernetes: Kubernetes) -> None:
        self._kubernetes = kubernetes
        self._applied: dict[Key, dict[tuple[str, str], tuple[str, str]]] = {}

    def forget(self, key: Key) -> None:
        """A Cluster is gone."""
        self._applied.pop(key, None)

    async def read(self, key: Key) -> dict[tuple[str, str], Json]:
        """All objects of a Cluster by kind and name, pods and volume claims among them."""
        found: dict[tuple[str, str], Json] = {}
        for api in (*OWNED, PODS, VOLUME_CLAIMS):
            for body in await self._kubernetes.list(api, key.namespace, labels={CLUSTER_LABEL: key.name}):
                found[api.kind, metadata(body)["name"]] = body
        # By its name: who may list Secrets may read those of all others too.
        binding = await self._kubernetes.get(SECRETS, key.namespace, binding_name(key.name))
        if binding is not None:
            found[SECRETS.kind, binding_name(key.name)] = binding
        return found

    async def apply(self, key: Key, manifest: Json, objects: dict[tuple[str, str], Json]) -> bool:
        """Apply one, if it is not there in this form already; `objects` then has it. Returns whether it was applied."""
        place = (str(manifest["kind"]), str(metadata(manifest)["name"]))
        digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
        known = self._applied.setdefault(key, {})
        there = objects.get(place)
        if there is not None and known.get(place) == (digest, _version(there)):
            return False
        applied = {
            "apiVersion": manifest["apiVersion"],
            "kind": manifest["kind"],
        } | await self._kubernetes.apply(manifest)
        objects[place] = applied
        known[place] = (digest, _version(applied))
        return True

    async def prune(
        self, key: Key, wanted: Sequence[Json], objects: Mapping[tuple[str, str], Json], *, owner: str
    ) -> list[Json]:
        """Delete what the Cluster owns and no longer wants; answers what was deleted."""
        kept = {(str(one["kind"]), str(metadata(one)["name"])) for one in wanted}
        kinds = {api.kind for api in OWNED}
        gone: list[Json] = []
        for place, body in objects.items():
            if place in kept or place[0] not in kinds or metadata(body).get("deletionTimestamp"):
                continue
            if not any(one.get("uid") == owner for one in metadata(body).get("ownerReferences") or ()):
                continue
            api = api_of(body)
            if await self._kubernetes.delete(api, key.namespace, place[1], uid=metadata(body).get("uid")):
                gone.append(body)
                self._applied.get(key, {}).pop(place, None)
        return gone


def _version(body: Json) -> str:
    meta = metadata(body)
    return str(meta.get("generation") if body["kind"] in _COUNTED else meta.get("resourceVersion"))
