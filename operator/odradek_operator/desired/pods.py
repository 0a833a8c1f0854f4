"""What all pods have in common: no root, no privileges, no token, a read-only root; and what users add to them."""

from __future__ import annotations

from typing import Final

from odradek_operator.desired.names import Context, Json
from odradek_operator.resources.pods import Pod, Resources, Storage
from odradek_operator.resources.structure import render

USER: Final = 10_001
_CONTAINER_SECURITY: Final[Json] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_POD_SECURITY: Final[Json] = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    # A volume with millions of files would be walked at each start otherwise.
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}


def container(name: str, *, image: str, pull: str, resources: Resources, pod: Pod, **content: object) -> Json:
    """A container of ours. Users' environment and mounts come after ours."""
    made: Json = {
        "name": name,
        "image": image,
        "imagePullPolicy": pull,
        "securityContext": _CONTAINER_SECURITY,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **content,
    }
    if wanted := render(resources):
        made["resources"] = wanted
    made["env"] = [*made.get("env", ()), *(pod.env or ())]
    made["volumeMounts"] = [*made.get("volumeMounts", ()), *(pod.volume_mounts or ())]
    return made


def pod_template(
    context: Context,
    component: str,
    *,
    pod: Pod,
    containers: list[Json],
    volumes: list[Json],
    grace_seconds: int,
    annotations: dict[str, str],
    spread_over_zones: bool = False,
) -> Json:
    """A pod template: ours, and over it what the user chose."""
    spec: Json = {
        "serviceAccountName": context.called(component),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": _POD_SECURITY,
        "terminationGracePeriodSeconds": pod.termination_grace_period_seconds or grace_seconds,
        "topologySpreadConstraints": list(
            pod.topology_spread_constraints or _spread(context, component, zones=spread_over_zones)
        ),
        "containers": [*containers, *(pod.sidecars or ())],
        "volumes": [*volumes, *(pod.volumes or ())],
    }
    chosen: Json = {
        "nodeSelector": pod.node_selector,
        "affinity": pod.affinity,
        "tolerations": None if pod.tolerations is None else list(pod.tolerations),
        "priorityClassName": pod.priority_class_name,
        "schedulerName": pod.scheduler_name,
        "imagePullSecrets": None if pod.image_pull_secrets is None else list(pod.image_pull_secrets),
    }
    spec |= {key: value for key, value in chosen.items() if value}
    return {
        "metadata": {
            "labels": {**(pod.labels or {}), **context.labels(component)},
            "annotations": {**(pod.annotations or {}), **annotations},
        },
        "spec": spec,
    }


def claim_template(context: Context, component: str, storage: Storage) -> Json:
    """The claim that each pod of a StatefulSet gets its volume by."""
    spec: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage.size}}}
    if storage.class_ is not None:
        spec["storageClassName"] = storage.class_
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "labels": {**(storage.labels or {}), **context.labels(component)}},
        "spec": spec,
    }


def field(path: str) -> Json:
    """An environment variable's value from the pod itself."""
    return {"fieldRef": {"fieldPath": path}}


def _http_probe(path: str, port: int, **times: int) -> Json:
    """A probe by GET."""
    return {"httpGet": {"path": path, "port": port}, **times}


def http_probes(port: int, *, start_seconds_max: int) -> dict[str, Json]:
    """The three probes of a broker or a controller. It answers /healthz before it is ready: a long start is alive."""
    return {
        "startupProbe": _http_probe(
            "/healthz", port, periodSeconds=1, timeoutSeconds=2, failureThreshold=start_seconds_max
        ),
        "livenessProbe": _http_probe(
            "/healthz", port, periodSeconds=10, timeoutSeconds=10, failureThreshold=6
        ),
        "readinessProbe": _http_probe("/readyz", port, periodSeconds=1, timeoutSeconds=5, failureThreshold=5),
    }


def _spread(context: Context, component: str, *, zones: bool) -> list[Json]:
    keys = ["kubernetes.io/hostname", *(["topology.kubernetes.io/zone"] if zones else [])]
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": context.selector(component)},
        }
        for key in keys
    ]
