"""Which Secret or ConfigMap pods of the operator mount to log in at a Cluster, and why there is none.

A Mirror's workers and the console of another Cluster do. The operator reads no Secret for it: a User's status says
which Secret it has, and in which version. A Cluster without logins has a ConfigMap with all that a client needs. So has
one whose clients bring their own login.
"""

from __future__ import annotations

from odradek_operator.desired.cluster_logins import ClusterLogin
from odradek_operator.desired.pods import digest
from odradek_operator.gateways.kubernetes import CLUSTERS, CONFIG_MAPS, Json, Kubernetes
from odradek_operator.reconcilers.reconciler import is_deleted
from odradek_operator.reconcilers.user_secrets import ConnectionProblem, describe_unready, find_user_secret
from odradek_operator.resources.security import AuthenticationType

_FILE = "client.properties"


async def find_cluster(
    kubernetes: Kubernetes, namespace: str, name: str
) -> tuple[Json | None, ConnectionProblem | None]:
    """The Cluster, or the problem that there is none. Raises KubernetesError."""
    cluster = await kubernetes.get(CLUSTERS, namespace, name)
    if cluster is None or is_deleted(cluster):
        message = f"there is no Cluster {name} in the namespace {namespace}; make it, or name another cluster"
        return None, ConnectionProblem(reason="ClusterNotFound", message=message)
    return cluster, None


async def find_cluster_login(
    kubernetes: Kubernetes, namespace: str, name: str, cluster: Json, *, user: str | None, starts: str
) -> tuple[ClusterLogin | None, ConnectionProblem | None]:
    """The login at a Cluster, if it is there, and what is wrong. `starts` is what waits for it.

    Raises KubernetesError.
    """
    if user is not None:
        found, problem = await find_user_secret(kubernetes, namespace, name, user, starts=starts)
        return None if found is None else ClusterLogin(secret=found.name, version=found.version), problem
    if _authentication_of(cluster):
        message = f"clients of the Cluster {name} log in: give a user beside cluster {name}"
        return None, ConnectionProblem(reason="UserNeeded", message=message)
    return await _find_binding(kubernetes, namespace, name, cluster, starts=starts)


async def find_login_of_viewers(
    kubernetes: Kubernetes, namespace: str, name: str, cluster: Json, *, starts: str
) -> tuple[ClusterLogin | None, ConnectionProblem | None]:
    """What a console needs whose viewers log in themselves, by passwords of Users. Raises KubernetesError."""
    if _authentication_of(cluster).get("type") != AuthenticationType.SCRAM:
        message = (
            f"the Cluster {name} has no users with passwords, by whom viewers could log in: give its internalListener "
            f"the authentication {AuthenticationType.SCRAM.value}"
        )
        return None, ConnectionProblem(reason="PasswordsNeeded", message=message)
    return await _find_binding(kubernetes, namespace, name, cluster, starts=starts)


def _authentication_of(cluster: Json) -> Json:
    listener: Json = (cluster.get("spec") or {}).get("internalListener") or {}
    return listener.get("authentication") or {}


async def _find_binding(
    kubernetes: Kubernetes, namespace: str, name: str, cluster: Json, *, starts: str
) -> tuple[ClusterLogin | None, ConnectionProblem | None]:
    binding = await kubernetes.get(CONFIG_MAPS, namespace, f"{name}-binding")
    properties = ((binding or {}).get("data") or {}).get(_FILE)
    if properties is None:
        message = (
            f"the Cluster {name} is not ready yet{describe_unready(cluster)}; {starts} starts when it is"
        )
        return None, ConnectionProblem(reason="ClusterNotReady", message=message)
    return ClusterLogin(config_map=f"{name}-binding", version=digest(properties)), None
