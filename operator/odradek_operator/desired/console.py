"""The console of a Cluster: a Deployment of one pod, its Service, and the peers that reach it.

Its pages may have no login, so its NetworkPolicy admits no peer unless the Cluster names some. `kubectl port-forward`
comes by the kubelet, which no policy holds. The pod is alive and ready while it serves: it shows an outage of the
brokers. What it connects to itself no policy of ours bounds: other clusters, registries and identity providers.

It logs in with a file that it mounts, and that the operator does not read. It is in the Secret of a User, or in the
ConfigMap NAME-binding where clients need no login. It has the brokers' address and the authority to trust, too. More
than this one cluster by itself is in `console_files`.
"""

from __future__ import annotations

from typing import Final

from odradek_operator.desired.cluster_logins import ClusterLogin, mount_login
from odradek_operator.desired.console_files import (
    START_FILE,
    TOGETHER,
    TOGETHER_FOLDER,
    ConsoleFiles,
    console_config_map,
    console_mounts,
    console_volumes,
    console_words,
    files_version,
)
from odradek_operator.desired.names import CONSOLE, CONSOLE_PORT, Context, Json, shows_label
from odradek_operator.desired.pods import SCRATCH, container, digest, pod_template
from odradek_operator.desired.probes import http_probes
from odradek_operator.desired.scripts import SETTINGS_FOLDER
from odradek_operator.resources.console import ClusterConsole

CONSOLE_SERVICE_PORT: Final = 80
CONSOLE_LOGIN_FOLDER: Final = "/etc/odradek-login"
CLIENT_PROPERTIES: Final = "client.properties"
_LOGIN: Final = "login"
_HEALTH_PATH: Final = "/healthz"
_GRACE_SECONDS: Final = 15
_START_SECONDS_MAX: Final = 120


def console_address(context: Context) -> str:
    """Where the console is reached inside of Kubernetes."""
    return f"http://{context.dns_name(context.object_name(CONSOLE))}"


def console_manifests(context: Context, console: ClusterConsole, files: ConsoleFiles) -> list[Json]:
    """All of it, in the order to apply: a pod without its account is not made."""
    return [
        _account(context),
        *([console_config_map(context, console, files)] if console.needs_files else ()),
        *([_network_policy(context, console)] if context.spec.network.enabled else ()),
        _service(context),
        _deployment(context, console, files),
    ]


def _account(context: Context) -> Json:
    """An account without rights and without a token."""
    return context.manifest(
        "v1", "ServiceAccount", context.object_name(CONSOLE), CONSOLE, automountServiceAccountToken=False
    )


def _network_policy(context: Context, console: ClusterConsole) -> Json:
    ports = [{"protocol": "TCP", "port": CONSOLE_PORT}]
    # A rule without peers would admit all.
    ingress = [{"ports": ports, "from": list(console.clients)}] if console.clients else []
    return context.manifest(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        context.object_name(CONSOLE),
        CONSOLE,
        spec={
            "podSelector": {"matchLabels": context.selector(CONSOLE)},
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    )


def _service(context: Context) -> Json:
    port = {"name": "http", "port": CONSOLE_SERVICE_PORT, "targetPort": CONSOLE_PORT, "protocol": "TCP"}
    return context.manifest(
        "v1",
        "Service",
        context.object_name(CONSOLE),
        CONSOLE,
        spec={"type": "ClusterIP", "selector": context.selector(CONSOLE), "ports": [port]},
    )


def _deployment(context: Context, console: ClusterConsole, files: ConsoleFiles) -> Json:
    has_files = console.needs_files
    server = container(
        context,
        CONSOLE,
        image=context.image,
        resources=console.resources,
        pod=console.pod,
        command=_command(context, console, files),
        # Not called http: what scrapes metrics finds that name, and there are none here.
        ports={"console": CONSOLE_PORT},
        env={},
        mounts={SCRATCH: "/tmp", **({TOGETHER: TOGETHER_FOLDER} if has_files else {})},
        fixed_mounts=console_mounts(context, console, files) if has_files else {_LOGIN: CONSOLE_LOGIN_FOLDER},
        **http_probes(CONSOLE_PORT, ready_path=_HEALTH_PATH, start_seconds_max=_START_SECONDS_MAX),
    )
    template = pod_template(
        context,
        CONSOLE,
        pod=console.pod,
        containers=[server],
        scratch={SCRATCH: "64Mi"},
        secrets=console_volumes(context, console, files) if has_files else [mount_login(_LOGIN, files.login)],
        grace_seconds=_GRACE_SECONDS,
        annotations={
            "odradek.io/settings": files_version(context, console, files)
            if has_files
            else _version(files.login)
        },
        own_labels={
            shows_label(one.connection.cluster): "true"
            for one in files.others
            if one.connection.cluster is not None
        },
        has_settings=has_files,
    )
    return context.manifest(
        "apps/v1",
        "Deployment",
        context.object_name(CONSOLE),
        CONSOLE,
        spec={
            "replicas": 1,
            "revisionHistoryLimit": 3,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": context.selector(CONSOLE)},
            "template": template,
        },
    )


def _command(context: Context, console: ClusterConsole, files: ConsoleFiles) -> list[str]:
    """The command line. What it says replaces the pod when it changes, as all of the template does."""
    own_file = f"{CONSOLE_LOGIN_FOLDER}/{CLIENT_PROPERTIES}"
    return [
        *(["python3", f"{SETTINGS_FOLDER}/{START_FILE}"] if console.needs_files else ()),
        # No host is every address, of IPv6 too.
        *("odradek", "console", "--host", "", "--port", str(CONSOLE_PORT)),
        *(console_words(context, console, files) if console.needs_files else ("--command-config", own_file)),
        *(word for name in console.allowed_hosts for word in ("--allow-host", name)),
        *(["--allow-changes"] if console.allow_changes else ()),
    ]


def _version(login: ClusterLogin) -> str:
    """Changes with what the console logs in with, and with the authority that it trusts."""
    return digest(login.text)
