"""What a plan of balance is made from, and what it says: brokers and partitions with their load, goals, moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from odradek.client.admin.plans import Plan
from odradek.foundation.client_limits import (
    BALANCE_BATCH_BYTES_MAX,
    BALANCE_BATCH_MOVES_MAX,
    BALANCE_DISK_BYTES_MIN,
    BALANCE_RATE_BYTES_MIN,
    BALANCE_TOLERANCE,
)
from odradek.foundation.ids import TopicPartition


class BalanceGoal(IntEnum):
    """The soft goals, the most important first."""

    DISK = 0
    REPLICAS = 1
    LEADERS = 2
    BYTES_IN = 3
    BYTES_OUT = 4

    @property
    def words(self) -> str:
        """The goal in a sentence."""
        return _WORDS[self]


_WORDS: Final = {
    BalanceGoal.DISK: "bytes on disk",
    BalanceGoal.REPLICAS: "replicas",
    BalanceGoal.LEADERS: "leaders",
    BalanceGoal.BYTES_IN: "bytes in",
    BalanceGoal.BYTES_OUT: "bytes out",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancedBroker:
    """A live broker. `takes_part` is false for one that neither gives nor receives, as one that is being drained."""

    rack: str | None = None
    machine: str | None = None
    capacity_bytes: int | None = None
    """The size of its volumes."""
    free_bytes: int | None = None
    takes_part: bool = True
    may_receive: bool = True
    """Whether it may be given replicas. It may be given leaders all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoad:
    """A partition's replicas, the preferred leader first, and what each costs. Every replica has `size_bytes`."""

    replicas: tuple[int, ...]
    leader: int | None = None
    """The broker that leads now; None is taken for the preferred leader."""
    size_bytes: int = 0
    bytes_in_per_second: int = 0
    bytes_read_per_second: int = 0
    """What consumers read. Followers read `bytes_in_per_second` each."""

    @property
    def led_by(self) -> int:
        """The broker that leads now."""
        return self.replicas[0] if self.leader is None else self.leader

    @property
    def bytes_out_per_second(self) -> int:
        """What the leader sends to consumers and followers."""
        return self.bytes_read_per_second + self.bytes_in_per_second * (len(self.replicas) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLoad:
    """The picture that a plan is made from. A broker that is not named is away: its replicas stay where they are."""

    brokers: Mapping[int, BalancedBroker]
    partitions: Mapping[TopicPartition, PartitionLoad]
    has_rates: bool = False
    """Whether the rates were measured."""
    silent: Mapping[int, str] = field(default_factory=dict)
    """Brokers that take no part because they do not report their disks, each with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceTolerance:
    """How far brokers may be apart: a share of what each should have, and bytes that are no difference."""

    share: float = BALANCE_TOLERANCE
    disk_bytes: int = BALANCE_DISK_BYTES_MIN
    bytes_per_second: int = BALANCE_RATE_BYTES_MIN


@dataclass(frozen=True, slots=True)
class BrokerTotals:
    """What one broker has of each goal."""

    replicas: int = 0
    leaders: int = 0
    size_bytes: int = 0
    bytes_in_per_second: int = 0
    bytes_out_per_second: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancePlan:
    """What moves first and last, and what brokers that take part have before and after."""

    moves: Plan = field(default_factory=dict)
    """The new replicas of partitions that change, the preferred leader first."""
    elections: tuple[TopicPartition, ...] = ()
    """Partitions that keep their replicas, and whose preferred leader is to lead."""
    replica_moves: int = 0
    leader_moves: int = 0
    bytes_to_move: int = 0
    bytes_of: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The bytes that each partition in `moves` brings to other brokers."""
    before: Mapping[int, BrokerTotals] = field(default_factory=dict)
    after: Mapping[int, BrokerTotals] = field(default_factory=dict)
    unmet: tuple[BalanceGoal, ...] = ()
    """Goals that the plan leaves outside the tolerance."""
    without_room: tuple[int, ...] = ()
    """Brokers that would have been given more if their volumes had more free bytes. Empty where all goals are met."""
    is_unfinished: bool = False
    """Whether the bound on its length ended the plan."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing has to change."""
        return not self.moves and not self.elections

    def batches(
        self, *, moves_max: int = BALANCE_BATCH_MOVES_MAX, bytes_max: int = BALANCE_BATCH_BYTES_MAX
    ) -> Iterator[Plan]:
        """The moves, so many at a time. A partition with more than `bytes_max` moves alone."""
        batch: Plan = {}
        size_bytes = 0
        for where, replicas in self.moves.items():
            more = self.bytes_of[where]
            if batch and (len(batch) >= moves_max or size_bytes + more > bytes_max):
                yield batch
                batch, size_bytes = {}, 0
            batch[where] = replicas
            size_bytes += more
        if batch:
            yield batch
