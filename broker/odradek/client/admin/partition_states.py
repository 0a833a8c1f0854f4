"""Problems of partitions: no leader, too few replicas in sync, or a leader that is not the preferred one.

The names are those of kafka-topics (`--unavailable-partitions`, `--under-min-isr-partitions`, …). Two rules are those
of brokers. A partition with fewer replicas than min.insync.replicas needs only these. A replica that a move adds does
not count as missing (KIP-455).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.reassignments import OngoingReassignment, ReassignmentAdmin
from odradek.client.client import Client
from odradek.client.metadata import NO_LEADER, PartitionInfo, TopicInfo
from odradek.client.results import ResourceType
from odradek.foundation.client_limits import HEALTH_ANSWER_SECONDS_MAX
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition

T = TypeVar("T")
U = TypeVar("U")

MIN_IN_SYNC_KEY: Final = "min.insync.replicas"


class Problem(StrEnum):
    """The problems of a partition, the worst first."""

    OFFLINE = "offline"
    """No leader and no available replica: brokers are down or directories failed."""
    LEADERLESS = "leaderless"
    """No leader, though a replica is available: it may lack records (unclean.leader.election.enable)."""
    UNDER_MIN_ISR = "under_min_isr"
    """Fewer replicas are in sync than min.insync.replicas: writes with acks=all are refused."""
    AT_MIN_ISR = "at_min_isr"
    """Exactly min.insync.replicas replicas are in sync, and some are not: with one less writes are refused."""
    UNDER_REPLICATED = "under_replicated"
    """Some replicas are not in sync."""
    NOT_PREFERRED = "not_preferred"
    """The leader is not the first replica."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of one partition. `min_in_sync` is None if the topic's settings could not be read."""

    where: TopicPartition
    info: PartitionInfo
    min_in_sync: int | None
    is_at_min_isr: bool
    """As in kafka-topics: also true if all replicas are in sync."""
    problems: tuple[Problem, ...]

    @property
    def has_leader(self) -> bool:
        """Whether records can be read."""
        return not {Problem.OFFLINE, Problem.LEADERLESS}.intersection(self.problems)


def state_of(
    topic: str,
    partition: PartitionInfo,
    *,
    live: Collection[int],
    min_in_sync: int | None,
    move: OngoingReassignment | None = None,
) -> PartitionState:
    """The problem of one partition, if any; `live` are the live brokers."""
    in_sync = len(partition.in_sync_replicas)
    expected = len(partition.replicas) - len(move.adding if move is not None else ())
    needed = None if min_in_sync is None else min(min_in_sync, len(partition.replicas))
    problems: list[Problem] = []
    if partition.leader == NO_LEADER or partition.leader not in live:
        there = [one for one in partition.replicas if one in live and one not in partition.offline_replicas]
        problems.append(Problem.LEADERLESS if there else Problem.OFFLINE)
    elif partition.replicas and partition.leader != partition.replicas[0]:
        problems.append(Problem.NOT_PREFERRED)
    if needed is not None and in_sync < needed:
        problems.append(Problem.UNDER_MIN_ISR)
    if in_sync < expected:
        problems.append(Problem.UNDER_REPLICATED)
        if in_sync == needed:
            problems.append(Problem.AT_MIN_ISR)
    order = list(Problem)
    return PartitionState(
        where=TopicPartition(topic, partition.partition),
        info=partition,
        min_in_sync=min_in_sync,
        is_at_min_isr=in_sync == needed,
        problems=tuple(sorted(problems, key=order.index)),
    )


async def partition_states(client: Client, topics: Sequence[TopicInfo]) -> list[PartitionState]:
    """The partitions of these topics with their problems; a topic that cannot be described is left out. Reads
    `min.insync.replicas` of the topics, and the moves under way if replicas seem to be missing.
    """
    live = client.cluster.brokers
    described = [topic for topic in topics if not topic.error_code]
    needed = await _min_in_sync(client, [topic.name for topic in described])
    moves: Mapping[TopicPartition, OngoingReassignment] = {}
    if any(len(one.in_sync_replicas) < len(one.replicas) for topic in described for one in topic.partitions):
        moves = await moves_under_way(client) or {}
    return [
        state_of(
            topic.name,
            partition,
            live=live,
            min_in_sync=needed.get(topic.name),
            move=moves.get(TopicPartition(topic.name, partition.partition)),
        )
        for topic in described
        for partition in topic.partitions
    ]


def count_problems(states: Iterable[PartitionState]) -> dict[Problem, int]:
    """The number of partitions with each problem, the worst first; problems without a partition are left out."""
    counted = Counter(problem for state in states for problem in state.problems)
    return {problem: counted[problem] for problem in Problem if counted[problem]}


async def _min_in_sync(client: Client, names: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    described = await ConfigAdmin(client).describe_many(ResourceType.TOPIC, names, keys=[MIN_IN_SYNC_KEY])
    for name, entries in described.items():
        # A topic that was deleted since, or that this user may not see, has no number.
        if isinstance(entries, OdradekError):
            continue
        for entry in entries:
            if entry.value is not None and entry.value.isdigit():
                found[name] = int(entry.value)
    return found


async def moves_under_way(client: Client) -> Mapping[TopicPartition, OngoingReassignment] | None:
    """The reassignments under way; None if no controller answers in time."""
    return await answer_in_time(ReassignmentAdmin(client).under_way(), otherwise=None)


async def answer_in_time(work: Awaitable[T], *, otherwise: U) -> T | U:
    """The result of `work`, or `otherwise` for an error and for a late answer."""
    try:
        async with asyncio.timeout(HEALTH_ANSWER_SECONDS_MAX):
            return await work
    except (OdradekError, TimeoutError):
        return otherwise
