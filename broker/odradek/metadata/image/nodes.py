"""Encodes and decodes the registry's nodes: JSON as Kafka writes it.

A node that cannot be read raises StoreError with its path: to continue without it would lose its content.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from odradek.foundation.ids import TopicId
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.registry_errors import StoreError
from odradek.metadata.image.features import SUPPORTED, FinalizedFeatures
from odradek.metadata.image.image import BrokerImage, PartitionImage

PRODUCER_ID_BLOCK_SIZE = 1000

P = ParamSpec("P")
T = TypeVar("T")


class ReplicaAssignment(NamedTuple):
    """The replicas of a partition; `adding` and `removing` while it is reassigned."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class TopicNode(NamedTuple):
    """A topic's id and the replicas of each partition, by number."""

    id: TopicId
    replicas: Mapping[int, ReplicaAssignment]


def _carefully(read: Callable[Concatenate[str, bytes, P], T]) -> Callable[Concatenate[str, bytes, P], T]:
    """Make a reading function raise StoreError also for values of wrong types."""

    @functools.wraps(read)
    def read_carefully(path: str, data: bytes, /, *args: P.args, **named: P.kwargs) -> T:
        try:
            return read(path, data, *args, **named)
        except (TypeError, ValueError, AttributeError) as error:
            raise StoreError(
                f"the registry's node {path} cannot be read: {error}; restore it from a backup"
            ) from error

    return read_carefully


def write_json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def read_json(path: str, data: bytes) -> dict[str, Any]:
    """The object in a node. Raises StoreError when there is none."""
    try:
        # Decoded first: json would search each text's bytes for its encoding.
        value = json.loads(data.decode())
    except ValueError as error:
        raise StoreError(
            f"the registry's node {path} is not JSON: {error}; restore it from a backup"
        ) from error
    if not isinstance(value, dict):
        raise StoreError(f"the registry's node {path} is not a JSON object; restore it from a backup")
    return value


def topic_id_text(topic_id: TopicId) -> str:
    """A topic id as Kafka prints it: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def parse_topic_id(text: str) -> TopicId:
    """The inverse of `topic_id_text`. Raises ValueError."""
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not a topic id: {error}") from error


def write_cluster_id(cluster_id: str) -> bytes:
    return write_json({"version": "1", "id": cluster_id})


@_carefully
def read_cluster_id(path: str, data: bytes) -> str:
    return str(_field(path, read_json(path, data), "id"))


def write_login_secret(secret: bytes) -> bytes:
    return write_json({"version": 1, "secret": base64.b64encode(secret).decode()})


@_carefully
def read_login_secret(path: str, data: bytes) -> bytes:
    return base64.b64decode(_field(path, read_json(path, data), "secret"), validate=True)


def write_topic(topic_id: TopicId, partitions: Sequence[PartitionImage]) -> bytes:
    """`partitions[n]` is the partition n; only its replicas are written here."""
    return write_json(
        {
            "version": 3,
            "topic_id": topic_id_text(topic_id),
            "partitions": {str(number): list(one.replicas) for number, one in enumerate(partitions)},
            "adding_replicas": {
                str(number): list(one.adding) for number, one in enumerate(partitions) if one.adding
            },
            "removing_replicas": {
                str(number): list(one.removing) for number, one in enumerate(partitions) if one.removing
            },
        }
    )


@_carefully
def read_topic(path: str, data: bytes) -> TopicNode:
    value = read_json(path, data)
    adding, removing = value.get("adding_replicas", {}), value.get("removing_replicas", {})
    # Thousands of partitions have few different lists of replicas, and share one object of each.
    shared: dict[tuple[int, ...], ReplicaAssignment] = {}
    replicas: dict[int, ReplicaAssignment] = {}
    for number, listed in _field(path, value, "partitions").items():
        brokers = tuple(listed)
        assignment = shared.get(brokers)
        if assignment is None:
            assignment = shared[brokers] = ReplicaAssignment(brokers)
        if number in adding or number in removing:
            assignment = ReplicaAssignment(
                brokers, tuple(adding.get(number, ())), tuple(removing.get(number, ()))
            )
        replicas[int(number)] = assignment
    if sorted(replicas) != list(range(len(replicas))):
        raise StoreError(f"the registry's node {path} leaves out partitions: it has {sorted(replicas)}")
    return TopicNode(parse_topic_id(_field(path, value, "topic_id")), replicas)


def write_partition_state(partition: PartitionImage, *, controller_epoch: int) -> bytes:
    fields: dict[str, object] = {
        "controller_epoch": controller_epoch,
        "leader": partition.leader,
        "version": 1,
        "leader_epoch": partition.leader_epoch,
        "isr": list(partition.isr),
    }
    # Rare, and not in Kafka's nodes.
    if partition.elr:
        fields["elr"] = list(partition.elr)
    if partition.last_known_elr:
        fields["last_known_elr"] = list(partition.last_known_elr)
    return write_json(fields)


@_carefully
def read_partition_state(
    path: str, data: bytes, *, number: int, assignment: ReplicaAssignment, version: int
) -> PartitionImage:
    value = read_json(path, data)
    return PartitionImage(
        partition=number,
        leader=_field(path, value, "leader"),
        leader_epoch=_field(path, value, "leader_epoch"),
        replicas=assignment.replicas,
        isr=tuple(_field(path, value, "isr")),
        partition_epoch=version,
        adding=assignment.adding,
        removing=assignment.removing,
        elr=tuple(value.get("elr", ())),
        last_known_elr=tuple(value.get("last_known_elr", ())),
    )


def write_broker(
    broker: BrokerImage, *, protocols: Mapping[str, str], wall_ms: int, identity: str = ""
) -> bytes:
    """`protocols` are the security protocols by listener name, `identity` a text that no other process has."""
    # Clients from before there were listeners read these two, and speak neither TLS nor SASL.
    plaintext = (address for name, address in broker.endpoints.items() if protocols.get(name) == "PLAINTEXT")
    host, port = next(plaintext, (None, -1))
    endpoints = [
        f"{name}://{f'[{address}]' if ':' in address else address}:{number}"
        for name, (address, number) in broker.endpoints.items()
    ]
    return write_json(
        {
            "version": 5,
            "endpoints": endpoints,
            "listener_security_protocol_map": dict(protocols),
            "rack": broker.rack,
            "epoch": broker.epoch,
            "stopped_cleanly": broker.stopped_cleanly,
            "min_insync_replicas": broker.min_in_sync,
            "host": host,
            "port": port,
            "jmx_port": -1,
            "features": {
                name: {"min_version": SUPPORTED[name][0], "max_version": highest}
                for name, highest in broker.features.items()
            },
            "timestamp": str(wall_ms),
            "identity": identity,
            # Not in Kafka's nodes, and rare.
            **({} if broker.machine is None else {"machine": broker.machine}),
        }
    )


@_carefully
def read_identity(path: str, data: bytes) -> str:
    """The identity in the node of a broker or controller; "" when it has none."""
    return str(read_json(path, data).get("identity", ""))


@_carefully
def read_broker(path: str, data: bytes) -> BrokerImage:
    value = read_json(path, data)
    endpoints: dict[str, tuple[str, int]] = {}
    for text in _field(path, value, "endpoints"):
        name, _, address = text.partition("://")
        host, _, port = address.rpartition(":")
        endpoints[name] = (host.strip("[]"), int(port))
    return BrokerImage(
        id=int(path.rpartition("/")[2]),
        endpoints=endpoints,
        rack=value.get("rack"),
        epoch=_field(path, value, "epoch"),
        stopped_cleanly=value.get("stopped_cleanly", True),
        min_in_sync=value.get("min_insync_replicas", 1),
        features={name: int(one["max_version"]) for name, one in value.get("features", {}).items()},
        machine=value.get("machine"),
    )


def write_seen_brokers(epochs: Mapping[int, int]) -> bytes:
    """The epochs of registrations, by broker."""
    return write_json({"version": 1, "epochs": {str(number): epoch for number, epoch in epochs.items()}})


@_carefully
def read_seen_brokers(path: str, data: bytes) -> dict[int, int]:
    epochs = _field(path, read_json(path, data), "epochs")
    return {int(number): int(epoch) for number, epoch in epochs.items()}


class ControllerAddress(NamedTuple):
    """Where brokers reach the active controller; no host if it has no listener.

    `identity` differs after a restart at the same address.
    """

    id: int
    host: str
    port: int
    identity: str


def write_controller(
    broker_id: int, *, wall_ms: int, identity: str = "", host: str = "", port: int = -1
) -> bytes:
    """`identity` is a text that no other process has; `host` and `port` are where brokers reach the controller."""
    return write_json(
        {
            "version": 1,
            "brokerid": broker_id,
            "timestamp": str(wall_ms),
            "identity": identity,
            "host": host,
            "port": port,
        }
    )


@_carefully
def read_controller_address(path: str, data: bytes) -> ControllerAddress:
    value = read_json(path, data)
    return ControllerAddress(
        int(_field(path, value, "brokerid")),
        str(value.get("host", "")),
        int(value.get("port", -1)),
        str(value.get("identity", "")),
    )


@_carefully
def read_controller(path: str, data: bytes) -> int:
    return int(_field(path, read_json(path, data), "brokerid"))


def write_config(values: Mapping[str, str]) -> bytes:
    return write_json({"version": 1, "config": dict(values)})


@_carefully
def read_config(path: str, data: bytes) -> dict[str, str]:
    return {str(key): str(text) for key, text in _field(path, read_json(path, data), "config").items()}


def write_features(features: FinalizedFeatures) -> bytes:
    return write_json({"version": 1, "epoch": features.epoch, "features": dict(features.levels)})


@_carefully
def read_features(path: str, data: bytes) -> FinalizedFeatures:
    value = read_json(path, data)
    levels = {str(name): int(level) for name, level in _field(path, value, "features").items()}
    return FinalizedFeatures(int(_field(path, value, "epoch")), levels)


def write_producer_ids(broker_id: int, *, first: int, last: int) -> bytes:
    return write_json({"version": 1, "broker": broker_id, "block_start": str(first), "block_end": str(last)})


@_carefully
def read_producer_ids(path: str, data: bytes) -> int:
    """The last id of the last allocated block."""
    return int(_field(path, read_json(path, data), "block_end"))


def _field(path: str, value: Mapping[str, Any], name: str) -> Any:
    if name not in value:
        raise StoreError(f"the registry's node {path} has no field {name}; restore it from a backup")
    return value[name]
