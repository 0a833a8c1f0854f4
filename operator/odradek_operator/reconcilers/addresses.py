"""Where the brokers of a Cluster are reached from inside Kubernetes."""

from __future__ import annotations

from typing import Final

from odradek_operator.gateways.kubernetes import Json, metadata

CLIENT_PORT: Final = 9092


def bootstrap_of(cluster: Json, *, cluster_domain: str) -> str:
    """The address of the Service through which any broker is found."""
    name, namespace = metadata(cluster)["name"], metadata(cluster)["namespace"]
    return f"{name}-bootstrap.{namespace}.svc.{cluster_domain}:{CLIENT_PORT}"
