"""The settings of the operator's process: frozen, from the command line or the environment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """`namespaces` are those it acts in; none stands for all of them, which needs a ClusterRole.

    `home` is the namespace of its Lease, `identity` what it writes into it (the pod's name). `pod` is the pod in `home`
    that it is; empty outside of Kubernetes.
    """

    namespaces: tuple[str, ...] = ()
    home: str = "default"
    identity: str = "odradek-operator"
    pod: str = ""
    lease: bool = True
    lease_name: str = "odradek-operator"
    lease_seconds: float = 15.0
    http_host: str = "0.0.0.0"
    http_port: int = 8080
    workers: int = 8
    resync_seconds: float = 300.0
    looks_seconds: float = 5.0
    """The pause between two looks at pods' annotations, which no watch brings."""
    cluster_domain: str = "cluster.local"
    """The DNS domain of Services, for brokers' addresses."""
    broker_image: str = ""
    """The image of brokers whose Cluster names none."""
    zookeeper_image: str = "zookeeper:3.9"
    """The image of ZooKeeper servers whose Cluster names none."""
