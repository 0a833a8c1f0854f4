"""Kubernetes as reconcilers see it: read, apply, patch, delete, record an event. Watching is kopf's part.

Objects are JSON as the API has them. `api_server` speaks to a real API server; tests put one in memory in its
place. Every call may raise KubernetesError; a call that was interrupted may or may not have been carried out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from odradek_operator.foundation.manifests import Json as Json

FIELD_MANAGER: Final = "odradek-operator"


class Api(NamedTuple):
    """One kind of object: where it lives in the API."""

    group_version: str
    plural: str
    kind: str
    namespaced: bool = True

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """The path of an object, of a list, or of a list over all namespaces (`namespace` None)."""
        root = "/api/v1" if self.group_version == "v1" else f"/apis/{self.group_version}"
        within = f"/namespaces/{namespace}" if self.namespaced and namespace is not None else ""
        parts = [root + within, self.plural, name, subresource]
        return "/".join(part for part in parts if part)


STATEFUL_SETS: Final = Api("apps/v1", "statefulsets", "StatefulSet")
DEPLOYMENTS: Final = Api("apps/v1", "deployments", "Deployment")
PODS: Final = Api("v1", "pods", "Pod")
SERVICES: Final = Api("v1", "services", "Service")
CONFIG_MAPS: Final = Api("v1", "configmaps", "ConfigMap")
SECRETS: Final = Api("v1", "secrets", "Secret")
SERVICE_ACCOUNTS: Final = Api("v1", "serviceaccounts", "ServiceAccount")
VOLUME_CLAIMS: Final = Api("v1", "persistentvolumeclaims", "PersistentVolumeClaim")
NODES: Final = Api("v1", "nodes", "Node", namespaced=False)
EVENTS: Final = Api("v1", "events", "Event")
DISRUPTION_BUDGETS: Final = Api("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget")
NETWORK_POLICIES: Final = Api("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy")
INGRESSES: Final = Api("networking.k8s.io/v1", "ingresses", "Ingress")
# In the newest version. Kubernetes need not have it, or has it in an earlier one.
TLS_ROUTES: Final = Api("gateway.networking.k8s.io/v1", "tlsroutes", "TLSRoute")
LEASES: Final = Api("coordination.k8s.io/v1", "leases", "Lease")
CLUSTERS: Final = Api("odradek.io/v1", "clusters", "Cluster")
TOPICS: Final = Api("odradek.io/v1", "topics", "Topic")
CONSUMER_GROUPS: Final = Api("odradek.io/v1", "consumergroups", "ConsumerGroup")
USERS: Final = Api("odradek.io/v1", "users", "User")
MIRRORS: Final = Api("odradek.io/v1", "mirrors", "Mirror")

APIS: Final[Mapping[str, Api]] = {
    api.kind: api
    for api in (
        STATEFUL_SETS, DEPLOYMENTS, PODS, SERVICES, CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, VOLUME_CLAIMS, NODES,
        EVENTS, DISRUPTION_BUDGETS, NETWORK_POLICIES, INGRESSES, TLS_ROUTES, LEASES, CLUSTERS, TOPICS,
        CONSUMER_GROUPS, USERS, MIRRORS,
    ) }  # fmt: skip


class KubernetesError(Exception):
    """The API server refused, or was not there.

    `status` is the HTTP status, 0 without an answer; `reason` is that of the API's Status, or empty.
    """

    # The message says all; a trace adds nothing.
    is_expected = True

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class NotFound(KubernetesError):
    """The object, or the whole kind, is not there."""


class Conflict(KubernetesError):
    """Another writer was first: the object exists already, or is newer than what was read."""


class Refused(KubernetesError):
    """The object is not allowed as it is: a schema, a rule, an immutable field, a webhook."""


class Forbidden(KubernetesError):
    """The operator's role does not allow it."""


class NoAccess(Exception):
    """Neither a service account nor a kubeconfig is there, or it cannot be used."""


class EventType(StrEnum):
    """Whether an event reports something that needs attention."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Kubernetes(Protocol):
    """The calls. Namespaces are given by name; None is all of them."""

    async def get(self, api: Api, namespace: str | None, name: str) -> Json | None:
        """The object, or None when there is none."""

    async def list(
        self,
        api: Api,
        namespace: str | None,
        *,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> Sequence[Json]:
        """All objects with these labels, and these values of fields that the API can select by."""

    async def create(self, manifest: Json) -> Json:
        """Make an object that is not there. Raises Conflict when it is."""

    async def apply(self, manifest: Json, *, force: bool = True, dry_run: bool = False) -> Json:
        """Server-side apply: what is named in the manifest is ours, and what we named before and now do not is gone.

        With `dry_run` it is only tried.
        """

    async def replace(self, manifest: Json) -> Json:
        """Put an object that was read and changed. Raises Conflict when it has become newer."""

    async def set_status(self, api: Api, body: Json, status: Json) -> Json:
        """Replace the whole status of the object that was read as `body`. Raises NotFound, Refused for another uid."""

    async def set_finalizers(self, api: Api, body: Json, finalizers: Sequence[str]) -> Json:
        """Replace the finalizers of the object that was read as `body`. Raises Conflict when it has become newer."""

    async def set_annotations(
        self, api: Api, namespace: str | None, name: str, annotations: Mapping[str, str | None]
    ) -> Json:
        """Set some annotations, and take away those with None."""

    async def merge(
        self, api: Api, namespace: str | None, name: str, patch: Json, *, only_metadata: bool = False
    ) -> Json:
        """A merge patch of what is there. One without content reads the object by the right to patch it.

        With `only_metadata` the answer has nothing else.
        """

    async def set_labels(
        self, api: Api, namespace: str | None, name: str, labels: Mapping[str, str | None]
    ) -> Json:
        """Set some labels, and take away those with None."""

    async def delete(
        self,
        api: Api,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        orphan: bool = False,
        force: bool = False,
    ) -> bool:
        """Delete in the background; with `orphan` what it owns stays, with `force` a pod is not waited for.

        False when it was not there or is another.
        """

    async def record_event(self, about: Json, type: EventType, reason: str, message: str) -> None:
        """Put an event on an object, for `kubectl describe`. The same one again counts up; a failure is only logged."""


def api_of(manifest: Mapping[str, object]) -> Api:
    """The API of a manifest's kind, in its version. Raises KeyError for a kind that the operator does not deal with."""
    api = APIS[str(manifest["kind"])]
    return api._replace(group_version=str(manifest.get("apiVersion") or api.group_version))


def metadata(body: Mapping[str, object]) -> Json:
    found = body.get("metadata")
    return found if isinstance(found, dict) else {}


def owner_reference(body: Json) -> Json:
    """The owner reference: another object belongs to this one, and is deleted with it."""
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "name": metadata(body)["name"],
        "uid": metadata(body)["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }
