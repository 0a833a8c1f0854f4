"""The addresses of a Cluster's brokers inside Kubernetes."""

from __future__ import annotations

from collections.abc import Callable

from odradek_operator.desired.names import INTERNAL_PORT, REPLICATION_PORT
from odradek_operator.gateways.kubernetes import Json, metadata

Bootstrap = Callable[[Json], str]
"""A function from a Cluster to the address of its brokers."""


def bootstrap_of(cluster: Json, *, cluster_domain: str) -> str:
    """The address of the Service through which any broker is found: of the brokers' own listener, if they have one."""
    name, namespace = metadata(cluster)["name"], metadata(cluster)["namespace"]
    is_secured = (cluster.get("spec") or {}).get("internalListener") is not None
    port = REPLICATION_PORT if is_secured else INTERNAL_PORT
    return f"{name}-bootstrap.{namespace}.svc.{cluster_domain}:{port}"
