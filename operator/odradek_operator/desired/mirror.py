"""The parts of a Mirror: a Deployment of workers, which keep nothing, and what their pods need.

Workers share the partitions as members of a group at the target. So a new worker may start before an old one ends, and
a worker that is lost is fenced and replaced by the others.
"""

from __future__ import annotations

from typing import Final

from odradek_operator.desired.mirror_names import ConnectionFiles, MirrorContext
from odradek_operator.desired.mirror_settings import FILE, mirror_properties
from odradek_operator.desired.mirror_start import CLUSTERS_FOLDER, START
from odradek_operator.desired.names import HTTP_PORT, MIRROR, Json
from odradek_operator.desired.pods import SCRATCH, SETTINGS, container, digest, field, pod_template
from odradek_operator.desired.probes import http_probes
from odradek_operator.desired.scripts import SETTINGS_FOLDER
from odradek_operator.desired.security import secret_volume

# A worker ends its transaction and leaves its groups first; a transaction has 30 s at most.
_GRACE_SECONDS: Final = 45
_START_SECONDS_MAX: Final = 120
_START_FILE: Final = "start.py"


def mirror_manifests(context: MirrorContext) -> list[Json]:
    """All of it, in the order to apply: a pod without its account is not made."""
    return [
        _account(context),
        _config_map(context),
        _service(context),
        _network_policy(context),
        _budget(context),
        _deployment(context),
    ]


def _account(context: MirrorContext) -> Json:
    """An account without rights and without a token."""
    return context.manifest(
        "v1", "ServiceAccount", context.called(MIRROR), automountServiceAccountToken=False
    )


def _config_map(context: MirrorContext) -> Json:
    return context.manifest("v1", "ConfigMap", context.called(MIRROR), data=_files(context))


def _files(context: MirrorContext) -> dict[str, str]:
    return {FILE: mirror_properties(context), _START_FILE: START}


def _service(context: MirrorContext) -> Json:
    """The workers' HTTP ports, by pods' names; of those that are not ready too, since their page says why."""
    return context.manifest(
        "v1",
        "Service",
        context.called("mirrors"),
        spec={
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": context.selector(),
            "ports": [{"name": "http", "port": HTTP_PORT, "targetPort": HTTP_PORT, "protocol": "TCP"}],
        },
    )


def _network_policy(context: MirrorContext) -> Json:
    """Workers serve nothing but metrics and health."""
    return context.manifest(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        context.called(MIRROR),
        spec={
            "podSelector": {"matchLabels": context.selector()},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [{"protocol": "TCP", "port": HTTP_PORT}]}],
        },
    )


def _budget(context: MirrorContext) -> Json:
    """A drain takes one worker at a time."""
    return context.manifest(
        "policy/v1",
        "PodDisruptionBudget",
        context.called(MIRROR),
        spec={
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": context.selector()},
        },
    )


def _deployment(context: MirrorContext) -> Json:
    spec = context.spec
    worker = container(
        context,
        MIRROR,
        image=context.image,
        resources=spec.resources,
        pod=spec.pod,
        command=["python3", f"{SETTINGS_FOLDER}/{_START_FILE}"],
        ports={"http": HTTP_PORT},
        env={"POD_NAME": field("metadata.name")},
        mounts={SETTINGS: SETTINGS_FOLDER, SCRATCH: "/tmp"},
        fixed_mounts={_volume(one): f"{CLUSTERS_FOLDER}/{one.alias}" for one in context.files},
        **http_probes(HTTP_PORT, ready_path="/readyz", start_seconds_max=_START_SECONDS_MAX),
    )
    template = pod_template(
        context,
        MIRROR,
        pod=spec.pod,
        containers=[worker],
        scratch={SCRATCH: "64Mi"},
        secrets=[_mounted(one) for one in context.files],
        grace_seconds=_GRACE_SECONDS,
        annotations={"odradek.io/settings": _version(context), **_scrape_annotations(context)},
    )
    return context.manifest(
        "apps/v1",
        "Deployment",
        context.called(MIRROR),
        spec={
            "replicas": context.workers,
            "revisionHistoryLimit": 3,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": context.selector()},
            "template": template,
        },
    )


def _version(context: MirrorContext) -> str:
    """Changes with the file, and with what workers log in with: each change replaces the pods in turn."""
    versions = [f"{one.alias} {one.secret} {one.config_map} {one.version}" for one in context.files]
    return digest("\n".join([*_files(context).values(), *versions]))


def _volume(files: ConnectionFiles) -> str:
    # An alias may have capitals and underscores, which names of volumes may not.
    return f"cluster-{digest(files.alias)}"


def _mounted(files: ConnectionFiles) -> Json:
    if files.secret is not None:
        return secret_volume(_volume(files), files.secret)
    return {"name": _volume(files), "configMap": {"name": files.config_map}}


def _scrape_annotations(context: MirrorContext) -> dict[str, str]:
    if not context.spec.metrics.annotations:
        return {}
    return {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(HTTP_PORT),
        "prometheus.io/path": "/metrics",
    }
