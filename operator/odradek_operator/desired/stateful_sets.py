"""StatefulSets: pods with numbers and a volume each, which brokers and ZooKeeper's servers are."""

from __future__ import annotations

from odradek_operator.desired.names import VOLUME, Context, Json
from odradek_operator.resources.deletion import DeletionPolicy
from odradek_operator.resources.pods import Storage


def stateful_set(
    context: Context,
    component: str,
    *,
    service: str,
    replicas: int,
    update: str,
    template: Json,
    storage: Storage,
    shrinks: bool,
    suffix: str | None = None,
    labels: dict[str, str] | None = None,
    first: int = 0,
) -> Json:
    """A StatefulSet whose pods are made at once. `update` is what replaces them: Kubernetes (RollingUpdate) or the
    operator (OnDelete).

    Volumes stay or go with the Cluster as its deletion policy says; where pods go for good because it `shrinks`, so do
    theirs. Its name ends with `suffix`, or else the component. Its pods have `labels` besides, and numbers from `first`
    on.
    """
    policy = "Delete" if context.spec.deletion_policy is DeletionPolicy.DELETE else "Retain"
    return context.manifest(
        "apps/v1",
        "StatefulSet",
        context.object_name(suffix or component),
        component,
        labels=labels,
        spec={
            "serviceName": context.object_name(service),
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": update},
            "revisionHistoryLimit": 3,
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": policy,
                "whenScaled": policy if shrinks else "Retain",
            },
            **({"ordinals": {"start": first}} if first else {}),
            "selector": {"matchLabels": context.selector(component) | (labels or {})},
            "template": template,
            "volumeClaimTemplates": [_claim_template(context, component, storage)],
        },
    )


def _claim_template(context: Context, component: str, storage: Storage) -> Json:
    """The claim that each pod gets its volume by."""
    spec: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage.size}}}
    if storage.class_ is not None:
        spec["storageClassName"] = storage.class_
    labels = {**context.given_labels, **(storage.labels or {}), **context.labels(component)}
    about: Json = {"name": VOLUME, "labels": labels}
    if context.given_annotations:
        about["annotations"] = context.given_annotations
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": about,
        "spec": spec,
    }
