"""The operator's own Secrets. It may make and patch them, and nothing else: no get, no list, no watch.

A patch answers with the whole object, so one that changes nothing reads it. Where the chart's admission policy is in
force, the API server refuses that for a Secret without the operator's label, so another's cannot be read. Elsewhere the
reconcilers' look at the owner is the only guard: what is another's is never used.
"""

from __future__ import annotations

from odradek_operator.gateways.kubernetes import (
    SECRETS,
    Forbidden,
    Json,
    Kubernetes,
    NotFound,
    Refused,
    metadata,
)

POLICY_WORDS = "ValidatingAdmissionPolicy"


class SecretTaken(Exception):
    """A Secret of this name is another's. It was not changed."""

    is_expected = True

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is a Secret {name} that is not this resource's: rename or delete it, or have another name used"
        )


class Secrets:
    """Secrets that belong to a resource: they have it as their owner, and go with it."""

    def __init__(self, kubernetes: Kubernetes) -> None:
        self._kubernetes = kubernetes

    async def read(self, namespace: str, name: str) -> Json | None:
        """The Secret, also one of another owner where no policy forbids that. Raises SecretTaken, KubernetesError."""
        try:
            found = await self._kubernetes.merge(SECRETS, namespace, name, {})
        except NotFound:
            return None
        except (Forbidden, Refused) as refusal:
            if POLICY_WORDS in str(refusal):
                raise SecretTaken(name) from refusal
            raise
        return {"apiVersion": "v1", "kind": SECRETS.kind} | found

    async def exists(self, namespace: str, name: str) -> bool:
        """Whether there is such a Secret, of whatever owner: only its metadata is asked for. Raises KubernetesError."""
        return await self.find_version(namespace, name) is not None

    async def find_version(self, namespace: str, name: str) -> str | None:
        """The version of a Secret of whatever owner, by its metadata alone; None where there is none.

        It is empty where the policy keeps it from the operator: then no change of it is seen. Raises KubernetesError.
        """
        try:
            found = await self._kubernetes.merge(SECRETS, namespace, name, {}, only_metadata=True)
        except NotFound:
            return None
        except (Forbidden, Refused) as refusal:
            # The policy refuses what is there.
            if POLICY_WORDS not in str(refusal):
                raise
            return ""
        return str(metadata(found).get("resourceVersion") or "")

    async def write(self, manifest: Json, before: Json | None) -> Json:
        """Make it, or change the one that was read as `before`. Raises Conflict, KubernetesError."""
        if before is None:
            return await self._kubernetes.create(manifest)
        gone = {name: None for name in before.get("data") or {} if name not in manifest["data"]}
        about = metadata(manifest)
        patch = {
            "metadata": {
                "resourceVersion": metadata(before)["resourceVersion"],
                "labels": about["labels"],
                "annotations": about.get("annotations") or {},
                "ownerReferences": about["ownerReferences"],
            },
            "data": {**gone, **manifest["data"]},
        }
        namespace, name = str(about["namespace"]), str(about["name"])
        return await self._kubernetes.merge(SECRETS, namespace, name, patch)
