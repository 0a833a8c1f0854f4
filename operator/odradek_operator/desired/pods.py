"""The parts that all pods share: no root, no privileges, no token, a read-only root; and what users add to them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from odradek_operator.desired.names import CAUGHT_UP_LABEL, RESTART_ANNOTATION, Json
from odradek_operator.resources.pods import Pod, Resources, RunAs
from odradek_operator.resources.structure import render

_USER: Final = 10_001
SETTINGS: Final = "settings"
SCRATCH: Final = "scratch"
_CONTAINER_SECURITY: Final[Json] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_POD_SECURITY: Final[Json] = {
    "runAsNonRoot": True,
    # A volume with millions of files would be walked at each start otherwise.
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}


class PodOwner(Protocol):
    """The owner of pods: a Cluster or a Mirror, as a context of its manifests."""

    @property
    def restart(self) -> str: ...
    @property
    def pull_policy(self) -> str: ...
    @property
    def run_as(self) -> RunAs: ...
    @property
    def given_labels(self) -> dict[str, str]: ...
    @property
    def given_annotations(self) -> dict[str, str]: ...
    def object_name(self, suffix: str) -> str: ...
    def selector(self, component: str) -> dict[str, str]: ...
    def labels(self, component: str) -> dict[str, str]: ...
    def spread_over(self, component: str) -> tuple[tuple[str, bool], ...]: ...


def container(
    context: PodOwner,
    name: str,
    *,
    image: str,
    resources: Resources,
    pod: Pod,
    ports: Mapping[str, int],
    env: Mapping[str, str | Json],
    mounts: Mapping[str, str],
    fixed_mounts: Mapping[str, str] | None = None,
    **content: object,
) -> Json:
    """A container of ours. Users' environment and mounts come after ours.

    `env` are texts and what `field_reference` makes, `mounts` folders by volume: the volume of the settings is never
    written to, nor are those of `fixed_mounts`.
    """
    made: Json = {
        "name": name,
        "image": image,
        "imagePullPolicy": context.pull_policy,
        "securityContext": _CONTAINER_SECURITY,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "ports": [{"name": port, "containerPort": number} for port, number in ports.items()],
        "env": [
            *(
                {"name": key, "value" if isinstance(value, str) else "valueFrom": value}
                for key, value in env.items()
            ),
            *(pod.env or ()),
        ],
        "volumeMounts": [
            *(
                {"name": volume, "mountPath": folder} | ({"readOnly": True} if volume == SETTINGS else {})
                for volume, folder in mounts.items()
            ),
            *(
                {"name": volume, "mountPath": folder, "readOnly": True}
                for volume, folder in (fixed_mounts or {}).items()
            ),
            *(pod.volume_mounts or ()),
        ],
        **content,
    }
    if wanted := render(resources):
        made["resources"] = wanted
    return made


def pod_template(
    context: PodOwner,
    component: str,
    *,
    pod: Pod,
    containers: list[Json],
    scratch: Mapping[str, str],
    grace_seconds: int,
    annotations: dict[str, str],
    secrets: Sequence[Json] = (),
    own_labels: Mapping[str, str] | None = None,
    has_settings: bool = True,
) -> Json:
    """A pod template: ours, and over it what the user chose.

    The component's ConfigMap is a volume of a pod that `has_settings`; `scratch` are others by name, with how large
    they may become. `secrets` are volumes too, and `own_labels` are labels beside those of the component.
    """
    settings: Json = {"name": SETTINGS, "configMap": {"name": context.object_name(component)}}
    restart = {RESTART_ANNOTATION: context.restart} if context.restart else {}
    spec: Json = {
        "serviceAccountName": context.object_name(component),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": _POD_SECURITY | _users_and_groups(context.run_as),
        "terminationGracePeriodSeconds": pod.termination_grace_period_seconds or grace_seconds,
        "topologySpreadConstraints": list(
            pod.topology_spread_constraints or _topology_spread_constraints(context, component)
        ),
        **({"initContainers": list(pod.init_containers)} if pod.init_containers else {}),
        "containers": [*containers, *(pod.sidecars or ())],
        "volumes": [
            *([settings] if has_settings else ()),
            *secrets,
            *({"name": name, "emptyDir": {"sizeLimit": size}} for name, size in scratch.items()),
            *(pod.volumes or ()),
        ],
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
    labels = {**context.given_labels, **(pod.labels or {}), **context.labels(component), **(own_labels or {})}
    # A pod that were born with it would count in disruption budgets before it has anything in sync.
    labels.pop(CAUGHT_UP_LABEL, None)
    return {
        "metadata": {
            "labels": labels,
            "annotations": {
                **context.given_annotations,
                **(pod.annotations or {}),
                **annotations,
                **restart,
            },
        },
        "spec": spec,
    }


def _users_and_groups(run_as: RunAs) -> Json:
    if run_as.assigned:
        return {}
    return {
        "runAsUser": _USER if run_as.user is None else run_as.user,
        "runAsGroup": _USER if run_as.group is None else run_as.group,
        "fsGroup": _USER if run_as.fs_group is None else run_as.fs_group,
    }


def field_reference(path: str) -> Json:
    """An environment variable's value from the pod itself."""
    return {"fieldRef": {"fieldPath": path}}


def digest(text: str) -> str:
    """The value of a pod's annotation that changes with `text`, so that the pod is replaced then."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _topology_spread_constraints(context: PodOwner, component: str) -> list[Json]:
    """Evenly over nodes and zones. Nodes that take no pods now do not count: the others may have one more each then."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule" if is_hard else "ScheduleAnyway",
            "nodeTaintsPolicy": "Honor",
            "labelSelector": {"matchLabels": context.selector(component)},
        }
        for key, is_hard in context.spread_over(component)
    ]
