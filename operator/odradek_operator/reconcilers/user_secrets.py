"""The Secret of a User, for pods of the operator that mount it: a Mirror's workers, and the console of a Cluster.

The operator reads no Secret for it. A User's status says which Secret it has, and in which version.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek_operator.gateways.kubernetes import USERS, Json, Kubernetes
from odradek_operator.reconcilers.reconciler import conditions_of, is_deleted, status_of
from odradek_operator.resources.conditions import READY, is_ready
from odradek_operator.resources.user import UserStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionProblem:
    """Why pods cannot connect to a cluster. One that `may_pass` does not stop pods that are there already."""

    reason: str
    message: str
    may_pass: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSecretFound:
    """The Secret of a User, and its version that brokers know."""

    name: str
    version: str


async def find_user_secret(
    kubernetes: Kubernetes, namespace: str, cluster: str, name: str, *, starts: str
) -> tuple[UserSecretFound | None, ConnectionProblem | None]:
    """The Secret, if it is there, and what is wrong. `starts` is what waits for it. Raises KubernetesError."""
    user = await kubernetes.get(USERS, namespace, name)
    if user is None or is_deleted(user):
        message = f"there is no User {name} in the namespace {namespace}; make it, or name another User"
        return None, ConnectionProblem(reason="UserNotFound", message=message)
    its_cluster = (user.get("spec") or {}).get("cluster")
    if its_cluster != cluster:
        message = (
            f"the User {name} is of the Cluster {its_cluster}, and not of {cluster}; name a User of that"
        )
        return None, ConnectionProblem(reason="UserOfOtherCluster", message=message)
    status = status_of(user, UserStatus)
    if status.secret is None:
        message = (
            f"the User {name} has no Secret yet{describe_unready(user)}; {starts} starts when it is ready"
        )
        return None, ConnectionProblem(reason="UserNotReady", message=message)
    found = UserSecretFound(name=status.secret, version=status.secret_version or "")
    if not is_ready(status.conditions):
        message = f"the User {name} is not ready{describe_unready(user)}; {starts} starts when it is"
        return found, ConnectionProblem(reason="UserNotReady", message=message, may_pass=True)
    return found, None


def describe_unready(body: Json) -> str:
    """The message about a resource that is not ready, in brackets."""
    ready = next((one for one in conditions_of(body) if one.type == READY), None)
    return f" ({ready.reason}: {ready.message})" if ready is not None and ready.message else ""
