"""ZooKeeper, where it is run here: a StatefulSet that keeps to what the official image understands."""

from __future__ import annotations

import hashlib

from odradek_operator.desired.names import (
    RESTART_ANNOTATION,
    ZOOKEEPER,
    ZOOKEEPER_PEER_PORTS,
    ZOOKEEPER_PORT,
    Context,
    Json,
)
from odradek_operator.desired.pods import claim_template, container, field, pod_template
from odradek_operator.desired.zookeeper_files import zookeeper_files
from odradek_operator.resources.cluster import DeletionPolicy, ZookeeperServers

_GRACE_SECONDS = 30
_QUICK_HEAP_MEGABYTES = 1024


def zookeeper_config_map(context: Context, servers: ZookeeperServers) -> Json:
    """The files of /conf."""
    return context.manifest(
        "v1", "ConfigMap", context.called(ZOOKEEPER), ZOOKEEPER, data=zookeeper_files(context, servers)
    )


def zookeeper_stateful_set(context: Context, servers: ZookeeperServers) -> Json:
    """The StatefulSet; Kubernetes itself replaces its pods, one after the other."""
    leader_port, election_port = ZOOKEEPER_PEER_PORTS
    ready = {"tcpSocket": {"port": ZOOKEEPER_PORT}}
    server = container(
        ZOOKEEPER,
        image=servers.image or context.zookeeper_image,
        pull=str(context.spec.image_pull_policy),
        resources=servers.resources,
        pod=servers.pod,
        command=["/bin/sh", "/conf/start"],
        ports=[
            {"name": "client", "containerPort": ZOOKEEPER_PORT},
            {"name": "leader", "containerPort": leader_port},
            {"name": "election", "containerPort": election_port},
        ],
        env=[
            {"name": "POD_INDEX", "valueFrom": field("metadata.labels['apps.kubernetes.io/pod-index']")},
            {"name": "ZOOCFGDIR", "value": "/conf"},
            {"name": "ZOO_LOG_DIR", "value": "/tmp"},
            {"name": "SERVER_JVMFLAGS", "value": _jvm_flags(servers)},
            # It would listen inside of the container alone, where nobody asks, and takes time at each start.
            {"name": "JMXDISABLE", "value": "true"},
        ],
        volumeMounts=[
            {"name": "data", "mountPath": "/data"},
            {"name": "settings", "mountPath": "/conf", "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},
            {"name": "logs", "mountPath": "/logs"},
        ],
        startupProbe={**ready, "periodSeconds": 1, "timeoutSeconds": 2, "failureThreshold": 120},
        livenessProbe={**ready, "periodSeconds": 10, "timeoutSeconds": 10, "failureThreshold": 6},
        readinessProbe={**ready, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 5},
    )
    digest = hashlib.sha256("".join(zookeeper_files(context, servers).values()).encode()).hexdigest()[:16]
    annotations = {"odradek.io/settings": digest}
    if context.restart:
        annotations[RESTART_ANNOTATION] = context.restart
    template = pod_template(
        context,
        ZOOKEEPER,
        pod=servers.pod,
        containers=[server],
        volumes=[
            {"name": "settings", "configMap": {"name": context.called(ZOOKEEPER)}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "256Mi"}},
            {"name": "logs", "emptyDir": {"sizeLimit": "256Mi"}},
        ],
        grace_seconds=_GRACE_SECONDS,
        annotations=annotations,
    )
    policy = "Delete" if context.spec.deletion_policy is DeletionPolicy.DELETE else "Retain"
    return context.manifest(
        "apps/v1",
        "StatefulSet",
        context.called(ZOOKEEPER),
        ZOOKEEPER,
        spec={
            "serviceName": context.called("zookeepers"),
            "replicas": servers.replicas,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate"},
            "revisionHistoryLimit": 3,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": policy, "whenScaled": "Retain"},
            "selector": {"matchLabels": context.selector(ZOOKEEPER)},
            "template": template,
            "volumeClaimTemplates": [claim_template(context, ZOOKEEPER, servers.storage)],
        },
    )


def _jvm_flags(servers: ZookeeperServers) -> str:
    heap = f"-Xms{servers.heap_megabytes}m -Xmx{servers.heap_megabytes}m"
    # A small ensemble is waited for by all others: half the time to start is worth more than peak speed.
    quick = (
        " -XX:+UseSerialGC -XX:TieredStopAtLevel=1" if servers.heap_megabytes <= _QUICK_HEAP_MEGABYTES else ""
    )
    return heap + quick
