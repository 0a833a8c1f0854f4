"""The console of a Cluster: a Deployment of one pod, its Service, and the peers that reach it.

Its pages have no login, so its NetworkPolicy admits no peer unless the Cluster names some. `kubectl port-forward` comes
by the kubelet, which no policy holds. The pod is alive and ready while it serves: it shows an outage of the brokers.

It logs in with a file that it mounts, and that the operator does not read. It is in the Secret of a User, or in the
ConfigMap NAME-binding where clients need no login. It has the brokers' address and the authority to trust, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from odradek_operator.desired.names import CONSOLE, CONSOLE_PORT, Context, Json
from odradek_operator.desired.pods import SCRATCH, container, digest, pod_template
from odradek_operator.desired.probes import http_probes
from odradek_operator.desired.security import secret_volume
from odradek_operator.resources.console import ClusterConsole

CONSOLE_SERVICE_PORT: Final = 80
CONSOLE_LOGIN_FOLDER: Final = "/etc/odradek-login"
CLIENT_PROPERTIES: Final = "client.properties"
_LOGIN: Final = "login"
_HEALTH_PATH: Final = "/healthz"
_GRACE_SECONDS: Final = 15
_START_SECONDS_MAX: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleLogin:
    """The Secret or ConfigMap with client.properties. The pod is replaced when `version` changes."""

    secret: str | None = None
    config_map: str | None = None
    version: str = ""


def console_address(context: Context) -> str:
    """Where the console is reached inside of Kubernetes."""
    return f"http://{context.dns_name(context.object_name(CONSOLE))}"


def console_manifests(context: Context, console: ClusterConsole, login: ConsoleLogin) -> list[Json]:
    """All of it, in the order to apply: a pod without its account is not made."""
    return [
        _account(context),
        *([_network_policy(context, console)] if context.spec.network.enabled else ()),
        _service(context),
        _deployment(context, console, login),
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


def _deployment(context: Context, console: ClusterConsole, login: ConsoleLogin) -> Json:
    server = container(
        context,
        CONSOLE,
        image=context.image,
        resources=console.resources,
        pod=console.pod,
        command=_command(console),
        # Not called http: what scrapes metrics finds that name, and there are none here.
        ports={"console": CONSOLE_PORT},
        env={},
        mounts={SCRATCH: "/tmp"},
        fixed_mounts={_LOGIN: CONSOLE_LOGIN_FOLDER},
        **http_probes(CONSOLE_PORT, ready_path=_HEALTH_PATH, start_seconds_max=_START_SECONDS_MAX),
    )
    template = pod_template(
        context,
        CONSOLE,
        pod=console.pod,
        containers=[server],
        scratch={SCRATCH: "64Mi"},
        secrets=[_login_volume(login)],
        grace_seconds=_GRACE_SECONDS,
        annotations={"odradek.io/settings": _version(login)},
        has_settings=False,
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


def _command(console: ClusterConsole) -> list[str]:
    """The command line. What it says replaces the pod when it changes, as all of the template does."""
    return [
        # No host is every address, of IPv6 too.
        *("odradek", "console", "--host", "", "--port", str(CONSOLE_PORT)),
        *("--command-config", f"{CONSOLE_LOGIN_FOLDER}/{CLIENT_PROPERTIES}"),
        *(word for name in console.allowed_hosts for word in ("--allow-host", name)),
        *(["--allow-changes"] if console.allow_changes else ()),
    ]


def _login_volume(login: ConsoleLogin) -> Json:
    if login.secret is not None:
        return secret_volume(_LOGIN, login.secret)
    return {"name": _LOGIN, "configMap": {"name": login.config_map}}


def _version(login: ConsoleLogin) -> str:
    """Changes with what the console logs in with, and with the authority that it trusts."""
    return digest(f"{login.secret} {login.config_map} {login.version}")
