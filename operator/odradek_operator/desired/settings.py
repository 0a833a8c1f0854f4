"""Brokers' settings as a file: what the Cluster says, what follows from its size, and what the operator decides."""

from __future__ import annotations

from collections.abc import Mapping

from odradek_operator.desired.names import (
    CONTROLLER_LISTENER,
    CONTROLLER_PORT,
    HTTP_LISTENER,
    INTERNAL_LISTENER,
    INTERNAL_PORT,
    REPLICATION_LISTENER,
    REPLICATION_PORT,
    Context,
)
from odradek_operator.desired.security import (
    authorization_settings,
    controller_listener_settings,
    is_secured,
    listener_settings,
    protocol_of,
)
from odradek_operator.resources.cluster import ClusterSpec

DATA_FOLDER = "/data"
LOG_FOLDER = "/data/log"
# A pod whose start fails is started again after 10 s, then 20, then 40. Waiting for a ZooKeeper whose image is still
# being fetched is faster. The pod is alive until then, and not ready.
_ZOOKEEPER_WAIT_MS = 300_000
# So long the cluster waits for a controller whose pod is gone. A controller that is away for it costs an election.
_CONTROLLER_SESSION_MS = 6_000


def shared_settings(spec: ClusterSpec, brokers: int) -> dict[str, str]:
    """Return the settings that brokers and controllers share: the Cluster's settings over the defaults for its size.

    `brokers` is how many there are, not how many are wanted: brokers that cannot be emptied stay, and so do defaults.
    """
    replicas = min(3, brokers)
    in_sync = "2" if brokers >= 3 else "1"
    return {
        # Topics are declared. A topic that a client makes first has another number of partitions. When its resource
        # adds partitions, keys go to other partitions than before. docs/design/0006
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(replicas),
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": in_sync,
        "zookeeper.connection.timeout.ms": str(_ZOOKEEPER_WAIT_MS),
        **spec.brokers.config,
    }


def broker_settings(context: Context) -> dict[str, str]:
    """The file of all brokers; a broker's number, rack and addresses are given at its start."""
    spec = context.spec
    names = {INTERNAL_LISTENER: INTERNAL_PORT}
    protocols = {INTERNAL_LISTENER: protocol_of(spec.internal_listener)}
    if context.is_held and is_secured(spec):
        names = {}
    for listener in () if context.is_held else spec.listeners:
        names[listener_name(listener.name)] = listener.port
        protocols[listener_name(listener.name)] = protocol_of(listener)
    if is_secured(spec):
        names[REPLICATION_LISTENER] = REPLICATION_PORT
        protocols[REPLICATION_LISTENER] = "SSL"
        protocols[CONTROLLER_LISTENER] = protocols[HTTP_LISTENER] = "SSL"
    return {
        **shared_settings(spec, len(context.broker_ids)),
        **listener_settings(spec, is_held=context.is_held),
        **authorization_settings(context),
        "zookeeper.connect": context.zookeeper_connect,
        "listeners": ",".join(f"{name}://:{port}" for name, port in names.items()),
        "listener.security.protocol.map": _protocol_map(protocols),
        "inter.broker.listener.name": REPLICATION_LISTENER if is_secured(spec) else INTERNAL_LISTENER,
        "log.dirs": LOG_FOLDER,
    }


def controller_settings(context: Context) -> dict[str, str]:
    """The file of all controllers."""
    protocols = {CONTROLLER_LISTENER: "PLAINTEXT"}
    if is_secured(context.spec):
        protocols = dict.fromkeys((CONTROLLER_LISTENER, HTTP_LISTENER), "SSL")
    return {
        "zookeeper.session.timeout.ms": str(_CONTROLLER_SESSION_MS),
        **shared_settings(context.spec, len(context.broker_ids)),
        **authorization_settings(context),
        **controller_listener_settings(context.spec),
        "zookeeper.connect": context.zookeeper_connect,
        "listeners": f"{CONTROLLER_LISTENER}://:{CONTROLLER_PORT}",
        "listener.security.protocol.map": _protocol_map(protocols),
    }


def _protocol_map(protocols: Mapping[str, str]) -> str:
    return ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())


def listener_name(name: str) -> str:
    """A listener's name as brokers have it."""
    return name.upper()


def properties(settings: Mapping[str, str]) -> str:
    """A file of settings in the order of their keys."""
    return "".join(f"{key}={_escape_value(value)}\n" for key, value in sorted(settings.items()))


def _escape_value(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
