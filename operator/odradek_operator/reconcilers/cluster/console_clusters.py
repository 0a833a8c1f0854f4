"""The clusters that a console shows beside its own, and the Secrets that their owners bring.

One that is not there holds up no other: the console is made without it, and the condition says so. Whether a cluster
answers is not asked here, because a console is there to show that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from odradek_operator.desired.cluster_logins import ClusterLogin
from odradek_operator.desired.console_files import ConsoleOther
from odradek_operator.gateways.kubernetes import Forbidden, Kubernetes, Refused
from odradek_operator.gateways.secrets import Secrets
from odradek_operator.reconcilers.cluster_logins import (
    find_cluster,
    find_cluster_login,
    find_login_of_viewers,
)
from odradek_operator.reconcilers.user_secrets import ConnectionProblem
from odradek_operator.resources.console import ClusterConsole, ConsoleConnection

_STARTS: Final = "its part of the console"


@dataclass(frozen=True, slots=True, kw_only=True)
class OthersFound:
    """The other clusters that can be shown; why each of the rest is left out; and versions of Secrets by name."""

    shown: tuple[ConsoleOther, ...] = ()
    left_out: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)


async def find_others(kubernetes: Kubernetes, namespace: str, console: ClusterConsole) -> OthersFound:
    """Raises KubernetesError."""
    shown: list[ConsoleOther] = []
    left_out: list[str] = []
    versions: dict[str, str] = {}
    for connection in console.clusters:
        found, problem = await _find_login(kubernetes, namespace, console, connection)
        if connection.bootstrap is None and found is None:
            left_out.append(f"{connection.name} ({'' if problem is None else problem.message})")
            continue
        given = _list_secrets(connection)
        found_now = {
            name: await find_version(kubernetes, namespace, name)
            for name in dict.fromkeys([*given, *([found.secret] if found and found.secret else ())])
        }
        missing = [f"Secret {name}" for name, version in found_now.items() if version is None]
        if missing:
            why = f"there is no {' and no '.join(missing)} in the namespace {namespace}; make it, or name another one"
            left_out.append(f"{connection.name} ({why})")
            continue
        # That of a User is known by its status, and not by what else is written into the Secret.
        versions |= {name: found_now[name] or "" for name in given}
        shown.append(ConsoleOther(connection=connection, login=found))
    return OthersFound(shown=tuple(shown), left_out=tuple(left_out), versions=versions)


async def find_version(kubernetes: Kubernetes, namespace: str, name: str) -> str | None:
    """The version of a Secret, empty where the operator may not know it; None where it is missing.

    Raises KubernetesError.
    """
    try:
        return await Secrets(kubernetes).find_version(namespace, name)
    except (Forbidden, Refused):
        return ""


def find_unused_mask(own: str, console: ClusterConsole) -> ConnectionProblem | None:
    """A mask that counts in no cluster of the console. A name that is misspelt would hide nothing."""
    names = [own, *(one.name for one in console.clusters)]
    for number, mask in enumerate(console.masks):
        for pattern in mask.clusters or ():
            if not any(fnmatchcase(name, pattern.replace("[", "[[]")) for name in names):
                message = (
                    f"masks[{number}] is for the cluster {pattern}, and the console has {', '.join(names)}: correct "
                    "the name. A console that is there stays as it is until then"
                )
                return ConnectionProblem(reason="MaskOfNoCluster", message=message)
    return None


def _list_secrets(connection: ConsoleConnection) -> list[str]:
    """The Secrets that their owners bring."""
    registry = connection.schema_registry
    found = (connection.client_secret, None if registry is None else registry.secret_name)
    return [name for name in found if name is not None]


async def _find_login(
    kubernetes: Kubernetes, namespace: str, console: ClusterConsole, connection: ConsoleConnection
) -> tuple[ClusterLogin | None, ConnectionProblem | None]:
    if connection.bootstrap is not None:
        secret = connection.client_secret
        return None if secret is None else ClusterLogin(secret=secret), None
    name = str(connection.cluster)
    cluster, problem = await find_cluster(kubernetes, namespace, name)
    if cluster is None:
        return None, problem
    if console.logins is not None:
        return await find_login_of_viewers(kubernetes, namespace, name, cluster, starts=_STARTS)
    return await find_cluster_login(
        kubernetes, namespace, name, cluster, user=connection.user, starts=_STARTS
    )
