"""The brokers: a StatefulSet whose pods only the operator replaces, with a volume each."""

from __future__ import annotations

import hashlib

from odradek_operator.desired import scripts
from odradek_operator.desired.names import BROKER, HTTP_PORT, INTERNAL_PORT, RESTART_ANNOTATION, Context, Json
from odradek_operator.desired.pods import claim_template, container, field, http_probes, pod_template
from odradek_operator.desired.settings import DATA_FOLDER, broker_settings, properties
from odradek_operator.resources.cluster import DeletionPolicy

# A broker that stops hands its leaderships over first.
_GRACE_SECONDS = 120


def broker_config_map(context: Context) -> Json:
    """Brokers' settings, addresses and zones, and the script that reads them."""
    return context.manifest(
        "v1",
        "ConfigMap",
        context.called(BROKER),
        BROKER,
        data={
            "broker.properties": properties(broker_settings(context)),
            "addresses": scripts.addresses(context),
            "racks": scripts.racks(context),
            "start": scripts.start_broker(),
        },
    )


def broker_stateful_set(context: Context) -> Json:
    """The StatefulSet. Its pods are made at once and replaced by nobody but the operator (OnDelete).

    Settings are not part of the template: whether a broker has them is asked of the broker, and most are taken while it
    runs. The listeners' ports and the start script are.
    """
    wanted, pod = context.spec.brokers, context.spec.brokers.pod
    ports = [
        {"name": "internal", "containerPort": INTERNAL_PORT},
        {"name": "http", "containerPort": HTTP_PORT},
        *({"name": one.name, "containerPort": one.port} for one in context.spec.listeners),
    ]
    broker = container(
        BROKER,
        image=context.image,
        pull=str(context.spec.image_pull_policy),
        resources=wanted.resources,
        pod=pod,
        command=["/bin/sh", f"{scripts.SETTINGS_FOLDER}/start"],
        ports=ports,
        env=[
            {"name": "POD_INDEX", "valueFrom": field("metadata.labels['apps.kubernetes.io/pod-index']")},
            {"name": "NODE_NAME", "valueFrom": field("spec.nodeName")},
            {"name": "NODE_IP", "valueFrom": field("status.hostIP")},
        ],
        volumeMounts=[
            {"name": "data", "mountPath": DATA_FOLDER},
            {"name": "settings", "mountPath": scripts.SETTINGS_FOLDER, "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},
        ],
        **http_probes(HTTP_PORT, start_seconds_max=300),
    )
    annotations = {
        "odradek.io/start": _digest(
            scripts.start_broker(), *(str(one.port) for one in context.spec.listeners)
        )
    }
    if context.restart:
        annotations[RESTART_ANNOTATION] = context.restart
    template = pod_template(
        context,
        BROKER,
        pod=pod,
        containers=[broker],
        volumes=[
            {"name": "settings", "configMap": {"name": context.called(BROKER)}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "256Mi"}},
        ],
        grace_seconds=_GRACE_SECONDS,
        annotations=annotations | scrape_annotations(context),
        spread_over_zones=wanted.rack_label is not None,
    )
    policy = "Delete" if context.spec.deletion_policy is DeletionPolicy.DELETE else "Retain"
    return context.manifest(
        "apps/v1",
        "StatefulSet",
        context.called(BROKER),
        BROKER,
        spec={
            "serviceName": context.called("brokers"),
            "replicas": context.brokers,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "revisionHistoryLimit": 3,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": policy, "whenScaled": policy},
            "selector": {"matchLabels": context.selector(BROKER)},
            "template": template,
            "volumeClaimTemplates": [claim_template(context, BROKER, wanted.storage)],
        },
    )


def scrape_annotations(context: Context) -> dict[str, str]:
    """Where a Prometheus that goes by annotations finds measures."""
    if not context.spec.metrics.annotations:
        return {}
    return {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(HTTP_PORT),
        "prometheus.io/path": "/metrics",
    }


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
