"""The connections of a Mirror's workers: the Secret or ConfigMap that they mount for each cluster.

The operator reads no Secret for it. A User's status says which Secret it has, and in which version. A Cluster without
logins has a ConfigMap with all that a client needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from odradek_operator.desired.mirror_names import ConnectionFiles
from odradek_operator.desired.pods import digest
from odradek_operator.gateways.kubernetes import CLUSTERS, CONFIG_MAPS, Json, Kubernetes
from odradek_operator.reconcilers.reconciler import conditions_of, is_deleted
from odradek_operator.reconcilers.user_secrets import ConnectionProblem, describe_unready, find_user_secret
from odradek_operator.resources.conditions import is_ready
from odradek_operator.resources.mirror import MirrorConnection, MirrorSpec

_FILE: Final = "client.properties"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """The mounts and known addresses of workers, by alias; and the problems."""

    files: tuple[ConnectionFiles, ...] = ()
    bootstraps: tuple[tuple[str, str], ...] = ()
    problems: tuple[ConnectionProblem, ...] = ()


async def find_connections(kubernetes: Kubernetes, namespace: str, spec: MirrorSpec) -> Connections:
    """Return how workers connect to all clusters of a Mirror. Raises KubernetesError."""
    named: Sequence[tuple[str, MirrorConnection]] = [
        (spec.target_alias, spec.target),
        *((one.alias, one) for one in spec.sources),
    ]
    files: list[ConnectionFiles] = []
    bootstraps: list[tuple[str, str]] = []
    problems: list[ConnectionProblem] = []
    for alias, connection in named:
        if connection.bootstrap is not None:
            bootstraps.append((alias, connection.bootstrap))
            if connection.client_secret is not None:
                files.append(ConnectionFiles(alias=alias, secret=connection.client_secret))
            continue
        found, problem = await _find_cluster_files(kubernetes, namespace, alias, connection)
        if found is not None:
            files.append(found)
        if problem is not None:
            problems.append(problem)
    return Connections(files=tuple(files), bootstraps=tuple(bootstraps), problems=tuple(problems))


async def _find_cluster_files(
    kubernetes: Kubernetes, namespace: str, alias: str, connection: MirrorConnection
) -> tuple[ConnectionFiles | None, ConnectionProblem | None]:
    name = str(connection.cluster)
    cluster = await kubernetes.get(CLUSTERS, namespace, name)
    if cluster is None or is_deleted(cluster):
        message = f"there is no Cluster {name} in the namespace {namespace}; make it, or name another cluster"
        return None, ConnectionProblem(reason="ClusterNotFound", message=message)
    if connection.user is not None:
        found, problem = await _find_user_files(kubernetes, namespace, alias, name, connection.user)
    else:
        found, problem = await _find_binding_files(kubernetes, namespace, alias, name, cluster)
    if problem is None and not is_ready(conditions_of(cluster)):
        message = (
            f"the Cluster {name} is not ready yet{describe_unready(cluster)}; the mirror starts when it is"
        )
        problem = ConnectionProblem(reason="ClusterNotReady", message=message, may_pass=True)
    return found, problem


async def _find_user_files(
    kubernetes: Kubernetes, namespace: str, alias: str, cluster: str, name: str
) -> tuple[ConnectionFiles | None, ConnectionProblem | None]:
    found, problem = await find_user_secret(kubernetes, namespace, cluster, name, starts="the mirror")
    files = None if found is None else ConnectionFiles(alias=alias, secret=found.name, version=found.version)
    return files, problem


async def _find_binding_files(
    kubernetes: Kubernetes, namespace: str, alias: str, name: str, cluster: Json
) -> tuple[ConnectionFiles | None, ConnectionProblem | None]:
    listener = (cluster.get("spec") or {}).get("internalListener") or {}
    if listener.get("authentication"):
        message = f"clients of the Cluster {name} log in: give a user beside cluster {name}"
        return None, ConnectionProblem(reason="UserNeeded", message=message)
    binding = await kubernetes.get(CONFIG_MAPS, namespace, f"{name}-binding")
    properties = ((binding or {}).get("data") or {}).get(_FILE)
    if properties is None:
        message = (
            f"the Cluster {name} is not ready yet{describe_unready(cluster)}; the mirror starts when it is"
        )
        return None, ConnectionProblem(reason="ClusterNotReady", message=message)
    return ConnectionFiles(alias=alias, config_map=f"{name}-binding", version=digest(properties)), None
