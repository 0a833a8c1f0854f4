"""What Kubernetes' own controllers and the node do, as an operator sees it: pods of sets are made, become ready, go.

`turn()` does one step of everything that is due. So a test decides what happens between two runs of the operator.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from odradek_operator.gateways.kubernetes import (
    DEPLOYMENTS,
    PODS,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
    Json,
    metadata,
)
from tests.operator.support.objects import Objects
from tests.operator.support.world import manifest


class Nodes:
    """The controllers of sets and the kubelet. `broken` names pods that never become ready.

    `node_addresses` are those of pods that are made on another node than the first.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._pods = 0
        self.broken: set[str] = set()
        self.node_addresses: dict[str, str] = {}
        self.frozen = False

    def turn(self) -> None:
        """Starting pods become ready, missing ones are made, those beyond the wanted number go, counts are reported."""
        if self.frozen:
            return
        for claim in self._objects.list(VOLUME_CLAIMS, None):
            self._release_claim(claim)
        for pod in self._objects.list(PODS, None):
            if metadata(pod)["name"] not in self.broken and not _ready(pod):
                self._put_status(pod, ready=True)
        for body in self._objects.list(STATEFUL_SETS, None):
            self._stateful_set(body)
        for body in self._objects.list(DEPLOYMENTS, None):
            self._deployment(body)

    def _stateful_set(self, body: Json) -> None:
        name, namespace = metadata(body)["name"], metadata(body)["namespace"]
        wanted, revision = int(body["spec"]["replicas"]), _revision(body)
        on_delete = body["spec"]["updateStrategy"]["type"] == "OnDelete"
        first = int((body["spec"].get("ordinals") or {}).get("start") or 0)
        names = [f"{name}-{number}" for number in range(first, first + wanted)]
        for pod in self._pods_of(body):
            outdated = not on_delete and metadata(pod)["labels"]["controller-revision-hash"] != revision
            if metadata(pod)["name"] not in names or outdated:
                self._objects.delete(PODS, namespace, metadata(pod)["name"], uid=None, orphan=False)
        for number, pod_name in enumerate(names, start=first):
            there = self._objects.get(PODS, namespace, pod_name)
            # Kubernetes makes missing claims of pods that have not started, too.
            if there is None or not _ready(there):
                for template in body["spec"].get("volumeClaimTemplates", ()):
                    self._claim(body, template, pod_name)
            if there is None:
                self._pod(body, pod_name, revision, {"apps.kubernetes.io/pod-index": str(number)})
        self._tell(body, STATEFUL_SETS, revision)

    def _deployment(self, body: Json) -> None:
        revision, namespace = _revision(body), metadata(body)["namespace"]
        for pod in self._pods_of(body):
            if metadata(pod)["labels"]["controller-revision-hash"] != revision:
                self._objects.delete(PODS, namespace, metadata(pod)["name"], uid=None, orphan=False)
        wanted = int(body["spec"]["replicas"])
        for pod in self._pods_of(body)[wanted:]:
            self._objects.delete(PODS, namespace, metadata(pod)["name"], uid=None, orphan=False)
        for _ in range(wanted - len(self._pods_of(body))):
            self._pods += 1
            self._pod(body, f"{metadata(body)['name']}-x{self._pods}", revision, {})
        self._tell(body, DEPLOYMENTS, revision)

    def _tell(self, body: Json, api: Any, revision: str) -> None:
        pods = self._pods_of(body)
        status = {
            "observedGeneration": metadata(body)["generation"],
            "replicas": len(pods),
            "readyReplicas": sum(_ready(pod) for pod in pods),
            "updatedReplicas": sum(
                metadata(pod)["labels"]["controller-revision-hash"] == revision for pod in pods
            ),
            "updateRevision": revision,
        }
        if body.get("status") != status:
            self._objects.set_status(
                api, metadata(body)["namespace"], metadata(body)["name"], status, uid=None
            )

    def _pods_of(self, body: Json) -> list[Json]:
        labels = body["spec"]["selector"]["matchLabels"]
        pods = self._objects.list(PODS, metadata(body)["namespace"], labels)
        # A set leaves pods of other sets alone, whatever their labels.
        name = metadata(body)["name"]
        return [pod for pod in pods if metadata(pod)["name"].rpartition("-")[0] == name]

    def _pod(self, body: Json, name: str, revision: str, labels: dict[str, str]) -> None:
        template = body["spec"]["template"]
        made = self._objects.create(
            manifest(
                PODS,
                name,
                {**template["spec"], "nodeName": "node-1"},
                namespace=metadata(body)["namespace"],
                labels={**template["metadata"]["labels"], "controller-revision-hash": revision, **labels},
                annotations=dict(template["metadata"].get("annotations", {})),
            )
        )
        self._put_status(made, ready=False)

    def _claim(self, body: Json, template: Json, pod: str) -> None:
        name, namespace = f"{metadata(template)['name']}-{pod}", metadata(body)["namespace"]
        if self._objects.get(VOLUME_CLAIMS, namespace, name) is None:
            about = {
                "namespace": namespace,
                "labels": metadata(template)["labels"],
                "finalizers": ["kubernetes.io/pvc-protection"],
            }
            self._objects.create(manifest(VOLUME_CLAIMS, name, template["spec"], **about))

    def _release_claim(self, claim: Json) -> None:
        """A claim that was deleted goes once no pod uses it, and its volume with it. No pod runs without a volume."""
        about = metadata(claim)
        pod = self._objects.get(PODS, about["namespace"], str(about["name"]).partition("-")[2])
        is_used = pod is not None and (claim.get("status") or {}).get("phase") != "Pending"
        if about.get("deletionTimestamp") and not is_used:
            freed: Json = {"metadata": {"finalizers": []}}
            self._objects.merge(VOLUME_CLAIMS, about["namespace"], about["name"], freed)

    def _put_status(self, pod: Json, *, ready: bool) -> None:
        number = int(hashlib.sha256(metadata(pod)["name"].encode()).hexdigest()[:2], 16)
        status = {
            "podIP": f"10.0.0.{number}",
            "hostIP": self.node_addresses.get(metadata(pod)["name"], "192.168.0.1"),
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        }
        self._objects.set_status(PODS, metadata(pod)["namespace"], metadata(pod)["name"], status, uid=None)


def _ready(pod: Json) -> bool:
    return any(
        one["type"] == "Ready" and one["status"] == "True"
        for one in (pod.get("status") or {}).get("conditions", ())
    )


def _revision(body: Json) -> str:
    return hashlib.sha256(json.dumps(body["spec"]["template"], sort_keys=True).encode()).hexdigest()[:10]
