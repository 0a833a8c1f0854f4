"""The parts of a Mirror: a Deployment of workers, which keep nothing, and what their pods need.

Workers share the partitions as members of a group at the target. So a new worker may start before an old one ends, and
a worker that is lost is fenced and replaced by the others.

A worker's start puts its file and the clusters' client.properties together, in memory only. The program is given as
text, because an older image does not have it. It is Python, since a properties file of others may be of any form that
Java reads: the image's own reader takes it. What comes out holds passwords, so it is a file without a name, which the
mirror inherits and which goes with it.
"""

from __future__ import annotations

from typing import Final

from odradek_operator.desired.cluster_logins import mount_login
from odradek_operator.desired.mirror_names import ConnectionFiles, MirrorContext
from odradek_operator.desired.mirror_settings import FILE, mirror_properties
from odradek_operator.desired.names import HTTP_PORT, MIRROR, Json
from odradek_operator.desired.pods import SCRATCH, SETTINGS, container, digest, field_reference, pod_template
from odradek_operator.desired.probes import http_probes
from odradek_operator.desired.scripts import SETTINGS_FOLDER

CLUSTERS_FOLDER: Final = "/etc/odradek-clusters"

START: Final = f"""\
import os, pathlib, sys
from odradek.foundation.settings.file import parse_properties
folder = pathlib.Path("{CLUSTERS_FOLDER}")
settings = pathlib.Path("{SETTINGS_FOLDER}/mirror.properties")
entries = {{}}
for cluster in sorted(folder.iterdir()) if folder.is_dir() else ():
    file = cluster / "client.properties"
    if not file.is_file():
        sys.exit(f"{{file}} is missing: the Secret or ConfigMap of {{cluster.name}} needs client.properties")
    found = parse_properties(file.read_text(encoding="utf-8"), source=str(file))
    entries |= {{f"{{cluster.name}}.{{key}}": value for key, value in found.items()}}
entries |= parse_properties(settings.read_text(encoding="utf-8"), source=str(settings))
def escaped(text):
    text = text.replace("\\\\", "\\\\\\\\").replace("\\n", "\\\\n").replace("\\r", "\\\\r")
    return "\\\\" + text if text[:1] in (" ", "\\t") else text
together = os.memfd_create("mirror.properties", 0)
with os.fdopen(os.dup(together), "w", encoding="utf-8") as file:
    file.writelines(f"{{key}}={{escaped(value)}}\\n" for key, value in entries.items())
os.execvp("odradek", ["odradek", "mirror", "--config", f"/proc/self/fd/{{together}}", "--admin", ":{HTTP_PORT}"])
"""
"""Its errors name files and never what is in them."""

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
        "v1", "ServiceAccount", context.object_name(MIRROR), automountServiceAccountToken=False
    )


def _config_map(context: MirrorContext) -> Json:
    return context.manifest("v1", "ConfigMap", context.object_name(MIRROR), data=_files(context))


def _files(context: MirrorContext) -> dict[str, str]:
    return {FILE: mirror_properties(context), _START_FILE: START}


def _service(context: MirrorContext) -> Json:
    """The workers' HTTP ports, by pods' names; of those that are not ready too, since their page says why."""
    return context.manifest(
        "v1",
        "Service",
        context.object_name("mirrors"),
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
        context.object_name(MIRROR),
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
        context.object_name(MIRROR),
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
        env={"POD_NAME": field_reference("metadata.name")},
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
        secrets=[mount_login(_volume(one), one.login) for one in context.files],
        grace_seconds=_GRACE_SECONDS,
        annotations={"odradek.io/settings": _version(context), **_scrape_annotations(context)},
    )
    return context.manifest(
        "apps/v1",
        "Deployment",
        context.object_name(MIRROR),
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
    versions = [f"{one.alias} {one.login.text}" for one in context.files]
    return digest("\n".join([*_files(context).values(), *versions]))


def _volume(files: ConnectionFiles) -> str:
    # An alias may have capitals and underscores, which names of volumes may not.
    return f"cluster-{digest(files.alias)}"


def _scrape_annotations(context: MirrorContext) -> dict[str, str]:
    if not context.spec.metrics.annotations:
        return {}
    return {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(HTTP_PORT),
        "prometheus.io/path": "/metrics",
    }
