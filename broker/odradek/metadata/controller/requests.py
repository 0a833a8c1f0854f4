"""The requests to the controller, and its answers: plain values, without the protocol's versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType

from odradek.foundation.errors import PolicyViolation, RequestError
from odradek.foundation.ids import TopicId, TopicPartition
from odradek.foundation.limits import CHANGES_PER_REQUEST_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.metadata.image.image import ResourceKind

# The number that asks for the broker's default, for partitions and for replicas.
USE_DEFAULT = -1


class NewTopic(NamedTuple):
    """A topic to make. With `assignment` (brokers by partition) the two counts must be USE_DEFAULT."""

    name: str
    partition_count: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignment: Mapping[int, Sequence[int]] = MappingProxyType({})
    config: Mapping[str, str | None] = MappingProxyType({})


class TopicMetadataAndConfig(NamedTuple):
    """A topic that was made, or would be; `config` are the texts that were set for it."""

    name: str
    id: TopicId
    partition_count: int
    replication_factor: int
    config: Mapping[str, str]


class NewPartitions(NamedTuple):
    """A topic to grow to `total_count`; `assignments` are the brokers of each new partition, or None to let us
    choose.
    """

    topic: str
    total_count: int
    assignments: Sequence[Sequence[int]] | None = None


class NewPartitionReassignment(NamedTuple):
    """A partition to move to other brokers; None for `replicas` takes back what is under way."""

    topic_partition: TopicPartition
    replicas: tuple[int, ...] | None


class DeletedTopic(NamedTuple):
    """A topic that was deleted."""

    name: str
    id: TopicId


class Resource(NamedTuple):
    """Whose settings: a topic, a broker (the name "" is the default of all), a group."""

    kind: ResourceKind
    name: str


class ConfigOperation(IntEnum):
    """The operation of an incremental change on a key; the numbers are the wire's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AlterConfigOp(NamedTuple):
    """One key of an incremental change."""

    key: str
    operation: ConfigOperation
    value: str | None


CreateOutcome = TopicMetadataAndConfig | RequestError
DeleteOutcome = DeletedTopic | RequestError
# None is success.
Outcome = RequestError | None
# Called with the partitions that are about to be created or deleted for one topic of a request. It raises
# ThrottlingQuotaExceeded where the client has done too much already.
Spend = Callable[[int], None]


def check_change_count(changes: int) -> None:
    """Raises PolicyViolation, as Kafka does, for more changes than one request may make: they are written together."""
    if changes > CHANGES_PER_REQUEST_MAX:
        raise PolicyViolation(
            f"Unable to perform excessively large batch operation: {changes} changes, and at most "
            f"{CHANGES_PER_REQUEST_MAX} are made at once; split the request"
        )


def freely(partitions: int) -> None:
    """Without a quota, nothing is counted."""
