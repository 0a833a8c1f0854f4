"""The results of the admin client: frozen values, no wire types."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from odradek.foundation.ids import TopicPartition
from odradek.foundation.limits import LOG_DIRECTORY_ROOM_BYTES_MIN


class ResourceType(IntEnum):
    """The kind of resource that a configuration belongs to."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """The source of a configuration's value."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class AlterOperation(IntEnum):
    """The operation on one key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to create. `partitions` and `replication_factor` of -1 take the broker's defaults."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | float | None] = field(default_factory=dict)
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Replicas of each partition, chosen by the caller; both counts then stay -1."""


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A created topic. `warning` is the broker's warning, or None."""

    name: str
    id: uuid.UUID
    partitions: int
    replication_factor: int
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One key with its value in force (None when it is sensitive) and its source."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None = None
    synonyms: tuple[tuple[str, str | None, ConfigSource], ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether the key is not set."""
        return self.source is ConfigSource.DEFAULT


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change of one key."""

    name: str
    value: str | None
    operation: AlterOperation = AlterOperation.SET


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group by name; `type` is `classic`, `consumer`, `streams` or `zookeeper`."""

    group_id: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member with the partitions assigned to it, and the topics that it subscribes to.

    A member of the consumer protocol (KIP-848) may subscribe to a pattern, and has an epoch and a target assignment.
    These are None in the classic protocol.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    epoch: int | None = None
    target: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its members. `assignor` is the protocol or server-side assignor in use.

    The epochs of the group and of its assignment are None for a classic group.
    """

    group_id: str
    state: str
    type: str
    protocol_type: str
    assignor: str
    coordinator: int
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A committed position. `leader_epoch` is -1 when none was given."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset found in a log. `timestamp_ms` is -1 where there is none, `offset` -1 when nothing matches."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The brokers: id to (host, port, rack). `fenced` are the fenced brokers, if asked for."""

    cluster_id: str
    controller_id: int
    brokers: Mapping[int, tuple[str, int, str | None]]
    fenced: Mapping[int, tuple[str, int, str | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    """The size of a replica in bytes, and its lag in records."""

    size_bytes: int
    offset_lag: int


@dataclass(frozen=True, slots=True)
class LogDirectoryDescription:
    """One log directory of a broker; sizes of its disk are -1 if the broker does not report them."""

    broker_id: int
    path: str
    total_bytes: int
    usable_bytes: int
    replicas: Mapping[TopicPartition, ReplicaSize]
    error: str | None
    arriving: Mapping[TopicPartition, ReplicaSize] = field(default_factory=dict)
    """Copies of replicas that move here from another directory of the broker (KIP-113)."""
    is_cordoned: bool = False
    """Whether no new replica is put there, as far as the broker reports it (KIP-1066)."""

    @property
    def is_full(self) -> bool:
        """Whether the broker refuses writes there, or will soon. The protocol does not report it, so this is the limit
        above which the broker accepts writes again (`storage.disk_space`).
        """
        return self.error is None and 0 <= self.usable_bytes < LOG_DIRECTORY_ROOM_BYTES_MIN


@dataclass(frozen=True, slots=True)
class ProducerOnPartition:
    """A producer whose state the partition's leader has."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: int
    coordinator_epoch: int = -1
