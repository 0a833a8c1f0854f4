"""What goes with its resource: a record of all Topics, ConsumerGroups and Users whose deletion policy is Delete.

No finalizer holds these resources, so nothing hangs where no operator is. The record outlives them instead, and says
what is still to be deleted on the brokers. It is a ConfigMap of each Cluster and kind, with an entry for each resource.
The Cluster and its volume claims own it together: it goes when the data has gone.

A resource whose entry is there and that is not has been deleted, as long as the Cluster is the same one. In a Cluster
that was made again, on volumes of an earlier one, it may also have not been applied yet. A user is removed even then:
its User makes it again. A topic has records, so it is deleted only when its Topic was seen being deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from odradek_operator.desired.names import (
    BROKER,
    CLUSTER_LABEL,
    DECLARED_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
)
from odradek_operator.gateways.kubernetes import (
    CONFIG_MAPS,
    CONSUMER_GROUPS,
    TOPICS,
    USERS,
    Api,
    Conflict,
    Json,
    Kubernetes,
    KubernetesError,
    NotFound,
    metadata,
    owner_reference,
)
from odradek_operator.reconcilers.reconciler import is_deleted

# Kubernetes takes objects of a mebibyte. An entry has some 120 bytes: this is room for thousands.
RECORD_BYTES_MAX: Final = 900_000
DECLARED_KINDS: Final = (TOPICS, CONSUMER_GROUPS, USERS)
# The field of the spec that names the thing on the brokers, where that is not called as its resource.
THING_FIELDS: Final = {TOPICS.kind: "name", CONSUMER_GROUPS.kind: "groupId", USERS.kind: "name"}
_NAMED_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredThing:
    """An entry: a resource, and the thing on the brokers that goes with it.

    `cluster_uid` is of the Cluster that the resource was last reconciled with. `id` distinguishes the thing from
    another one of its name: a topic's id, a user's principal. `was_deleted`: the resource was seen being deleted, with
    no Cluster to carry that out.
    """

    uid: str
    resource: str
    thing: str
    cluster_uid: str
    id: str = ""
    was_deleted: bool = False

    def render(self) -> str:
        """The text in the ConfigMap."""
        text: dict[str, object] = {"resource": self.resource, "cluster": self.cluster_uid}
        if self.thing != self.resource:
            text["thing"] = self.thing
        if self.id:
            text["id"] = self.id
        if self.was_deleted:
            text["deleted"] = True
        return json.dumps(text, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredRecord:
    """The entries of one Cluster and kind, by uid of the resource. `is_there`: its ConfigMap has been made."""

    namespace: str
    cluster: str
    api: Api
    entries: Mapping[str, DeclaredThing] = field(default_factory=dict)
    is_there: bool = False

    @property
    def name(self) -> str:
        return record_name(self.cluster, self.api)

    def has_room_for(self, changes: Mapping[str, DeclaredThing | None]) -> bool:
        """Whether the ConfigMap can take these entries besides."""
        after = {**self.entries, **changes}
        return sum(len(one.render()) + len(one.uid) for one in after.values() if one) <= RECORD_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """The entries of a record whose resources are not there.

    `owed` are to be deleted on the brokers. `superseded` have another resource now. `missing` may come again.
    """

    owed: tuple[DeclaredThing, ...] = ()
    superseded: tuple[DeclaredThing, ...] = ()
    missing: tuple[DeclaredThing, ...] = ()


def record_name(cluster: str, api: Api) -> str:
    return f"{cluster}-declared-{api.plural}"


def parse_record(body: Json) -> DeclaredRecord | None:
    """The record in a ConfigMap; None of one that holds none. Entries that cannot be read are left out."""
    labels = metadata(body).get("labels") or {}
    api = next((one for one in DECLARED_KINDS if labels.get(DECLARED_LABEL) == one.plural), None)
    if api is None or labels.get(MANAGED_BY_LABEL) != MANAGED_BY or CLUSTER_LABEL not in labels:
        return None
    entries = {}
    for uid, text in (body.get("data") or {}).items():
        entry = _parse_entry(uid, text)
        if entry is not None:
            entries[uid] = entry
    return DeclaredRecord(
        namespace=str(metadata(body)["namespace"]),
        cluster=str(labels[CLUSTER_LABEL]),
        api=api,
        entries=entries,
        is_there=True,
    )


def _parse_entry(uid: str, text: str) -> DeclaredThing | None:
    try:
        found = json.loads(text)
        resource = str(found["resource"])
        return DeclaredThing(
            uid=uid,
            resource=resource,
            thing=str(found.get("thing", resource)),
            cluster_uid=str(found["cluster"]),
            id=str(found.get("id", "")),
            was_deleted=found.get("deleted") is True,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


async def read_record(kubernetes: Kubernetes, namespace: str, cluster: str, api: Api) -> DeclaredRecord:
    """The record of a Cluster and kind; an empty one where there is none. Raises KubernetesError."""
    name = record_name(cluster, api)
    body = await kubernetes.get(CONFIG_MAPS, namespace, name)
    if body is None:
        return DeclaredRecord(namespace=namespace, cluster=cluster, api=api)
    found = parse_record(body)
    if found is None or (found.cluster, found.api) != (cluster, api):
        raise Conflict(
            f"there is a ConfigMap {name} that is not the operator's: rename or delete it, the operator keeps there "
            "what goes with its resource"
        )
    return found


async def find_records(
    kubernetes: Kubernetes, namespace: str, api: Api, resource: str
) -> list[DeclaredRecord]:
    """The records of a namespace with an entry for a resource of this name. Raises KubernetesError."""
    labels = {MANAGED_BY_LABEL: MANAGED_BY, DECLARED_LABEL: api.plural}
    bodies = await kubernetes.list(CONFIG_MAPS, namespace, labels=labels)
    records = [record for body in bodies if (record := parse_record(body)) is not None]
    return [one for one in records if any(entry.resource == resource for entry in one.entries.values())]


async def change_record(
    kubernetes: Kubernetes,
    record: DeclaredRecord,
    changes: Mapping[str, DeclaredThing | None],
    *,
    cluster: Json | None,
) -> DeclaredRecord:
    """Put entries, and take away those with None. The ConfigMap is made where it is not there and `cluster` is.

    Raises KubernetesError.
    """
    changes = {uid: one for uid, one in changes.items() if record.entries.get(uid) != one}
    if not changes:
        return record
    patch = {"data": {uid: None if one is None else one.render() for uid, one in changes.items()}}
    entries = {uid: one for uid, one in {**record.entries, **changes}.items() if one is not None}
    try:
        await kubernetes.merge(CONFIG_MAPS, record.namespace, record.name, patch)
    except NotFound:
        if cluster is None or not entries:
            return record
        await kubernetes.create(_manifest(record, entries, cluster))
    return replace(record, entries=entries, is_there=True)


def _manifest(record: DeclaredRecord, entries: Mapping[str, DeclaredThing], cluster: Json) -> Json:
    labels = {
        "app.kubernetes.io/name": "odradek",
        "app.kubernetes.io/instance": record.cluster,
        "app.kubernetes.io/component": BROKER,
        MANAGED_BY_LABEL: MANAGED_BY,
        CLUSTER_LABEL: record.cluster,
        DECLARED_LABEL: record.api.plural,
    }
    return {
        "apiVersion": CONFIG_MAPS.group_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {
            "name": record.name,
            "namespace": record.namespace,
            "labels": labels,
            # The Cluster's reconciler adds its volume claims.
            "ownerReferences": list_owners(cluster, ()),
        },
        "data": {uid: one.render() for uid, one in entries.items()},
    }


def list_owners(cluster: Json, claims: Iterable[Json]) -> list[Json]:
    """The owners of a record. Kubernetes deletes it when none of them is left; no one of them controls it."""
    shared = {"controller": False, "blockOwnerDeletion": False}
    owners = [owner_reference(cluster) | shared]
    for claim in sorted(claims, key=lambda one: str(metadata(one)["name"])):
        about = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        owners.append(owner_reference({**about, "metadata": metadata(claim)}) | shared)
    return owners


def find_absent(record: DeclaredRecord, bodies: Sequence[Json], *, cluster_uid: str) -> Absent:
    """The entries without their resource. `bodies` are all resources of the kind in the namespace."""
    bodies = [body for body in bodies if not is_deleted(body)]
    there = {str(metadata(body)["uid"]) for body in bodies}
    claims: dict[str, list[Json]] = {}
    for body in bodies:
        if (thing := _thing_of(record, body)) is not None:
            claims.setdefault(thing, []).append(body)
    owed, superseded, missing = [], [], []
    for entry in record.entries.values():
        if entry.uid in there:
            continue
        rivals = claims.get(entry.thing, ())
        is_of_earlier_cluster = entry.cluster_uid != cluster_uid
        # One without a status was applied after the deletion, and is to get a thing of its own.
        if rivals and (is_of_earlier_cluster or any(one.get("status") for one in rivals)):
            superseded.append(entry)
        elif is_of_earlier_cluster and not entry.was_deleted and record.api != USERS:
            missing.append(entry)
        else:
            owed.append(entry)
    return Absent(owed=tuple(owed), superseded=tuple(superseded), missing=tuple(missing))


def find_claimants(record: DeclaredRecord, bodies: Sequence[Json], entry: DeclaredThing) -> list[Json]:
    """The resources that name the thing of an entry."""
    return [body for body in bodies if _thing_of(record, body) == entry.thing]


def _thing_of(record: DeclaredRecord, body: Json) -> str | None:
    """The thing that a resource names; None for one of another Cluster."""
    spec = body.get("spec") or {}
    if spec.get("cluster") != record.cluster:
        return None
    return str(spec.get(THING_FIELDS[record.api.kind]) or metadata(body)["name"])


def format_entries(api: Api, entries: Sequence[DeclaredThing]) -> str:
    """Name the things of some entries, at most a few of them: `user alice`, `topics a, b and 3 more`."""
    noun = {TOPICS.kind: "topic", CONSUMER_GROUPS.kind: "group", USERS.kind: "user"}[api.kind]
    names = sorted(one.thing for one in entries)
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return f"{noun}{'s' if len(names) > 1 else ''} {', '.join(names[:_NAMED_MAX])}{more}"


class RecordFull(KubernetesError):
    """The record of a Cluster and kind has no room for another resource."""

    def __init__(self, record: DeclaredRecord) -> None:
        super().__init__(
            f"the ConfigMap {record.name} has no room for another {record.api.kind} that goes with its resource: set "
            "deletionPolicy to Retain on some, or spread them over Clusters"
        )
