"""Server-side apply of all that a resource is made of: only what differs from what was applied last, and what is no
longer wanted goes.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from odradek_operator.desired.names import MANAGED_BY, MANAGED_BY_LABEL
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.kubernetes import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    INGRESSES,
    NETWORK_POLICIES,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    TLS_ROUTES,
    VOLUME_CLAIMS,
    Api,
    Json,
    Kubernetes,
    api_of,
    metadata,
)
from odradek_operator.reconcilers.ownership import (
    CLUSTER_OWNER,
    Belonging,
    ForeignObject,
    ObjectsOfOthers,
    OwnerKind,
    belonging,
    foreign_object,
)

logger = logging.getLogger(__name__)

OWNED: Final[tuple[Api, ...]] = (
    SERVICES, CONFIG_MAPS, SERVICE_ACCOUNTS, STATEFUL_SETS, DEPLOYMENTS, DISRUPTION_BUDGETS, NETWORK_POLICIES,
)  # fmt: skip
# Those that are read only where they are wanted, or were.
READ_ON_DEMAND: Final = (INGRESSES, TLS_ROUTES)
# Kubernetes counts changes of what is wanted in these; their version changes with each status.
_COUNTED: Final = frozenset({"StatefulSet", "Deployment", "PodDisruptionBudget", "Ingress", "TLSRoute"})


_WORKLOADS: Final = frozenset({"StatefulSet", "Deployment"})
_WANTED_METADATA: Final = ("annotations", "labels", "ownerReferences")


class Applier:
    """Applies manifests, and remembers by which version of an object its last form was taken up.

    `owner` is the kind of the resources that objects are made for, `owned` are the kinds of these objects.
    """

    def __init__(
        self, kubernetes: Kubernetes, owner: OwnerKind = CLUSTER_OWNER, owned: Sequence[Api] = OWNED
    ) -> None:
        self._kubernetes = kubernetes
        self._owner = owner
        self._owned = owned
        self._applied: dict[Key, dict[tuple[str, str], tuple[str, str]]] = {}

    def forget(self, key: Key) -> None:
        """A resource is gone."""
        self._applied.pop(key, None)

    async def read(self, key: Key, uid: str) -> dict[tuple[str, str], Json]:
        """All objects of the resource with this uid by kind and name, pods and volume claims among them."""
        labels = {self._owner.label: key.name, MANAGED_BY_LABEL: MANAGED_BY}
        found: dict[tuple[str, str], Json] = {}
        for api in self._owned:
            for body in await self._kubernetes.list(api, key.namespace, labels=labels):
                if belonging(body, name=key.name, uid=uid, owner=self._owner) is Belonging.OWN:
                    found[api.kind, metadata(body)["name"]] = body
        # Their sets own pods. Claims have no owner. One that was made by hand for a restored volume has fewer labels.
        more = [(PODS, labels)]
        if STATEFUL_SETS in self._owned:
            more.append((VOLUME_CLAIMS, {self._owner.label: key.name}))
        for api, wanted in more:
            for body in await self._kubernetes.list(api, key.namespace, labels=wanted):
                found[api.kind, metadata(body)["name"]] = body
        return found

    async def apply_all(
        self, key: Key, manifests: Sequence[Json], objects: dict[tuple[str, str], Json]
    ) -> None:
        """Apply all of them; those that are not the resource's are left out, and named together at the end."""
        foreign: list[ForeignObject] = []
        for manifest in manifests:
            try:
                await self.apply(key, manifest, objects)
            except ObjectsOfOthers as found:
                foreign += found.foreign
        if foreign:
            raise ObjectsOfOthers(foreign, kind=self._owner.api.kind)

    async def check_all(
        self, key: Key, manifests: Sequence[Json], objects: Mapping[tuple[str, str], Json]
    ) -> None:
        """Try manifests of what is not there, and of workloads that change, and keep nothing of it.

        Raises ObjectsOfOthers, KubernetesError.
        """
        foreign: list[ForeignObject] = []
        for manifest in manifests:
            place = _place_of(manifest)
            there = objects.get(place)
            if there is None:
                try:
                    await self._refuse_to_take_over(key, manifest)
                except ObjectsOfOthers as found:
                    foreign += found.foreign
                    continue
            elif (
                place[0] not in _WORKLOADS
                or metadata(there).get("deletionTimestamp")
                or self.is_applied(key, manifest, there)
            ):
                continue
            await self._kubernetes.apply(manifest, dry_run=True)
        if foreign:
            raise ObjectsOfOthers(foreign, kind=self._owner.api.kind)

    def is_applied(self, key: Key, manifest: Json, there: Json) -> bool:
        """Whether an object is there as this manifest was applied last."""
        return self._applied.get(key, {}).get(_place_of(manifest)) == (_digest(manifest), _version(there))

    async def apply(self, key: Key, manifest: Json, objects: dict[tuple[str, str], Json]) -> bool:
        """Apply one, if it is not there in this form already; `objects` then has it. Returns whether it was applied.

        Raises ObjectsOfOthers when an object of this name is there and is not the resource's.
        """
        place = _place_of(manifest)
        known = self._applied.setdefault(key, {})
        there = objects.get(place)
        if there is not None and self.is_applied(key, manifest, there):
            return False
        if there is None:
            await self._refuse_to_take_over(key, manifest)
        applied = {
            "apiVersion": manifest["apiVersion"],
            "kind": manifest["kind"],
        } | await self._kubernetes.apply(manifest)
        if there is None:
            logger.info("%s: made %s %s", key, *place)
        elif (changed := _list_changes(there, applied)) and _version(there) != _version(applied):
            logger.info("%s: altered %s %s: %s", key, *place, ", ".join(changed))
        objects[place] = applied
        known[place] = (_digest(manifest), _version(applied))
        return True

    async def _refuse_to_take_over(self, key: Key, manifest: Json) -> None:
        """Server-side apply would change what is there, whosever it is."""
        name = str(metadata(manifest)["name"])
        there = await self._kubernetes.get(api_of(manifest), key.namespace, name)
        if there is None:
            return
        (reference,) = metadata(manifest)["ownerReferences"]
        named = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"]} | there
        found = foreign_object(named, name=key.name, uid=reference["uid"], owner=self._owner)
        if found is not None:
            raise ObjectsOfOthers([found], kind=self._owner.api.kind)

    async def prune(
        self, key: Key, wanted: Sequence[Json], objects: Mapping[tuple[str, str], Json], *, owner: str
    ) -> list[Json]:
        """Delete what the resource owns and no longer wants; answers what was deleted."""
        kept = {(str(one["kind"]), str(metadata(one)["name"])) for one in wanted}
        kinds = {api.kind for api in (*self._owned, *READ_ON_DEMAND)}
        gone: list[Json] = []
        for place, body in objects.items():
            if place in kept or place[0] not in kinds or metadata(body).get("deletionTimestamp"):
                continue
            if not any(one.get("uid") == owner for one in metadata(body).get("ownerReferences") or ()):
                continue
            api = api_of(body)
            if await self._kubernetes.delete(api, key.namespace, place[1], uid=metadata(body).get("uid")):
                logger.info("%s: deleted %s %s, which is no longer wanted", key, *place)
                gone.append(body)
                self._applied.get(key, {}).pop(place, None)
        return gone


def _place_of(manifest: Json) -> tuple[str, str]:
    return str(manifest["kind"]), str(metadata(manifest)["name"])


def _digest(manifest: Json) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _list_changes(before: Json, after: Json) -> list[str]:
    """The differences in what is wanted, by path, two names deep: `spec.replicas`, `data.broker.properties`."""
    paths: list[str] = []
    for part in ("metadata", "spec", "data"):
        old, new = before.get(part) or {}, after.get(part) or {}
        keys = _WANTED_METADATA if part == "metadata" else sorted({*old, *new})
        paths += [f"{part}.{key}" for key in keys if old.get(key) != new.get(key)]
    return paths


def _version(body: Json) -> str:
    meta = metadata(body)
    if body["kind"] not in _COUNTED:
        return str(meta.get("resourceVersion"))
    # No change of these is counted. Kubernetes' controllers write annotations themselves.
    named = json.dumps([meta.get("labels"), meta.get("ownerReferences")], sort_keys=True)
    return f"{meta.get('generation')} {hashlib.sha256(named.encode()).hexdigest()}"
