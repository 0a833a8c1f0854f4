"""Topics and the steps that change them, as plain values."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualPartition:
    """One partition as metadata has it. `adding` and `removing` are replicas that move now."""

    number: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def lasting(self) -> tuple[int, ...]:
        """The replicas that there will be once nothing moves any more."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def copied(self) -> tuple[int, ...]:
        """The replicas that are not only now being made."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualTopic:
    """A topic that is there. `config` has what is set for it alone."""

    name: str
    id: uuid.UUID
    partitions: tuple[ActualPartition, ...]
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures of a partition, which change all the time. `size_bytes` is None where the leader did not say."""

    start_offset: int
    end_offset: int
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Make the topic; -1 takes the cluster's default."""

    topic: str
    partitions: int
    replicas: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Grow:
    """Add partitions, up to `total`."""

    topic: str
    total: int


@dataclass(frozen=True, slots=True)
class AlterConfig:
    """Set these keys; those with None go back to the brokers' values."""

    topic: str
    changes: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Reassign:
    """Move replicas: the brokers that shall keep each partition."""

    topic: str
    replicas: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete the topic with its records."""

    topic: str


OnBrokers = CreateTopic | Grow | AlterConfig | Reassign | DeleteTopic
