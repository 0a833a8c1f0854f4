"""ZooKeeper, where it is run here: a StatefulSet that keeps to what the official image understands."""

from __future__ import annotations

from dataclasses import replace

from odradek_operator.desired.names import (
    VOLUME,
    ZOOKEEPER,
    ZOOKEEPER_PEER_PORTS,
    ZOOKEEPER_PORT,
    Context,
    Json,
)
from odradek_operator.desired.pods import SCRATCH, SETTINGS, container, digest, field_reference, pod_template
from odradek_operator.desired.probes import zookeeper_probes
from odradek_operator.desired.stateful_sets import stateful_set
from odradek_operator.desired.zookeeper_access import (
    LOGIN_FOLDER,
    access_annotations,
    login_mounts,
    server_login_volumes,
)
from odradek_operator.desired.zookeeper_files import EnsembleMembership, membership_files, zookeeper_files
from odradek_operator.resources.pods import Resources
from odradek_operator.resources.schema import quantity_value
from odradek_operator.resources.zookeeper import ZookeeperServers

_SETTINGS_FOLDER = "/conf"
_GRACE_SECONDS = 30
_QUICK_HEAP_MEGABYTES = 1024


def zookeeper_config_map(context: Context, servers: ZookeeperServers, membership: EnsembleMembership) -> Json:
    """The files of /conf."""
    files = {**_files(context), **membership_files(context, servers, membership)}
    return context.manifest("v1", "ConfigMap", context.object_name(ZOOKEEPER), ZOOKEEPER, data=files)


def zookeeper_stateful_set(context: Context, servers: ZookeeperServers) -> Json:
    """The StatefulSet; the operator replaces its pods, one after the other (`ensemble_rolling`)."""
    leader_port, election_port = ZOOKEEPER_PEER_PORTS
    server = container(
        context,
        ZOOKEEPER,
        image=servers.image or context.zookeeper_image,
        resources=_resources(servers),
        pod=servers.pod,
        command=["/bin/sh", f"{_SETTINGS_FOLDER}/start"],
        ports={"client": ZOOKEEPER_PORT, "leader": leader_port, "election": election_port},
        env={
            "POD_INDEX": field_reference("metadata.labels['apps.kubernetes.io/pod-index']"),
            "ZOOCFGDIR": _SETTINGS_FOLDER,
            "ZOO_LOG_DIR": "/tmp",
            "SERVER_JVMFLAGS": _jvm_flags(servers),
            # It would listen inside of the container alone, without clients, and takes time at each start.
            "JMXDISABLE": "true",
        },
        mounts={VOLUME: "/data", SETTINGS: _SETTINGS_FOLDER, SCRATCH: "/tmp", "logs": "/logs"},
        fixed_mounts=login_mounts(context, is_server=True),
        **zookeeper_probes(ZOOKEEPER_PORT, start_seconds_max=120),
    )
    template = pod_template(
        context,
        ZOOKEEPER,
        pod=servers.pod,
        containers=[server],
        scratch={SCRATCH: "256Mi", "logs": "256Mi"},
        grace_seconds=_GRACE_SECONDS,
        secrets=server_login_volumes(context),
        annotations={
            "odradek.io/settings": digest("".join(_files(context).values())),
            **access_annotations(context, is_server=True),
        },
    )
    return stateful_set(
        context,
        ZOOKEEPER,
        service="zookeepers",
        replicas=servers.size,
        update="OnDelete",
        template=template,
        storage=servers.storage,
        shrinks=False,
    )


def _files(context: Context) -> dict[str, str]:
    return zookeeper_files(login_folder=LOGIN_FOLDER if context.zookeeper_access.is_checked else None)


def _resources(servers: ZookeeperServers) -> Resources:
    """The resources that are given; without limits, one for memory that leaves room beside the heap."""
    given = servers.resources
    if given.limits is not None:
        return given
    room = f"{2 * servers.heap_megabytes + 256}Mi"
    asked = (given.requests or {}).get("memory", "0")
    return replace(given, limits={"memory": max(room, asked, key=quantity_value)})


def _jvm_flags(servers: ZookeeperServers) -> str:
    heap = f"-Xms{servers.heap_megabytes}m -Xmx{servers.heap_megabytes}m"
    # A small ensemble is waited for by all others: half the time to start is worth more than peak speed.
    quick = (
        " -XX:+UseSerialGC -XX:TieredStopAtLevel=1" if servers.heap_megabytes <= _QUICK_HEAP_MEGABYTES else ""
    )
    # A server that waits for the others asks again after 5 s at most, and not after a minute.
    return f"{heap} -Dzookeeper.fastleader.maxNotificationInterval=5000{quick}"
