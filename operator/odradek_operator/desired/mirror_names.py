"""Names and labels of what a Mirror is made of, and what its manifests follow from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from odradek_operator.desired.cluster_logins import ClusterLogin
from odradek_operator.desired.names import (
    MANAGED_BY,
    MANAGED_BY_LABEL,
    MIRROR,
    MIRROR_LABEL,
    NODE_LABEL,
    ZONE_LABEL,
    Json,
)
from odradek_operator.resources.mirror import MirrorSpec
from odradek_operator.resources.pods import RunAs

MIRROR_NAME_LENGTH_MAX: Final = 100
_DIGEST_LENGTH: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionFiles:
    """The login at the cluster of an alias."""

    alias: str
    login: ClusterLogin


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorContext:
    """A Mirror, and what else its manifests follow from.

    `files` are where workers find client.properties, `bootstraps` addresses that are known without them, by alias.
    `restart` is the value of the restart annotation.
    """

    name: str
    namespace: str
    spec: MirrorSpec
    owner: Json
    image: str
    files: tuple[ConnectionFiles, ...] = ()
    bootstraps: Mapping[str, str] = field(default_factory=dict)
    restart: str = ""

    @property
    def mirror_name(self) -> str:
        """The name under which the target keeps positions. Mirrors of two namespaces must not share it."""
        wanted = self.spec.name or f"{self.namespace}.{self.name}"
        if len(wanted) <= MIRROR_NAME_LENGTH_MAX:
            return wanted
        digest = hashlib.sha256(wanted.encode()).hexdigest()[:_DIGEST_LENGTH]
        return f"{wanted[: MIRROR_NAME_LENGTH_MAX - _DIGEST_LENGTH - 1]}-{digest}"

    @property
    def workers(self) -> int:
        """The number of pods that are wanted."""
        return 0 if self.spec.paused else self.spec.replicas

    @property
    def pull_policy(self) -> str:
        """The policy for pulling images, by Kubernetes' words."""
        return str(self.spec.image_pull_policy)

    @property
    def run_as(self) -> RunAs:
        """The users and groups of pods."""
        return self.spec.run_as

    @property
    def given_labels(self) -> dict[str, str]:
        """The labels and annotations that the Mirror sets on every object."""
        return dict(self.spec.object_metadata.labels or {})

    @property
    def given_annotations(self) -> dict[str, str]:
        """The labels and annotations that the Mirror sets on every object."""
        return dict(self.spec.object_metadata.annotations or {})

    def object_name(self, suffix: str) -> str:
        """NAME-suffix."""
        return f"{self.name}-{suffix}"

    def selector(self, component: str = MIRROR) -> dict[str, str]:
        """The labels by which pods are found. They cannot change after a release: a Deployment's selector is fixed."""
        return {
            "app.kubernetes.io/name": "odradek",
            "app.kubernetes.io/instance": self.name,
            "app.kubernetes.io/component": component,
            MIRROR_LABEL: self.name,
        }

    def labels(self, component: str = MIRROR) -> dict[str, str]:
        """The labels that everything carries."""
        return {**self.selector(component), MANAGED_BY_LABEL: MANAGED_BY}

    def spread_over(self, component: str) -> tuple[tuple[str, bool], ...]:
        """Workers are spread over nodes and zones where that can be: they keep nothing, and a full node is no reason
        to have fewer.
        """
        return (NODE_LABEL, False), (ZONE_LABEL, False)

    def manifest(self, api_version: str, kind: str, name: str, **content: object) -> Json:
        """An object of this Mirror: it goes when the Mirror goes."""
        metadata: Json = {
            "name": name,
            "namespace": self.namespace,
            "labels": {**self.given_labels, **self.labels()},
            "ownerReferences": [self.owner],
        }
        if self.given_annotations:
            metadata["annotations"] = self.given_annotations
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
