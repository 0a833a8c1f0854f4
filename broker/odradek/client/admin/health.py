"""The health of a cluster: its brokers, partitions, disks, moves and groups, and a verdict. `health_probes` asks for
it. `_findings` has all rules for the verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from odradek.client.admin.partition_states import PartitionState, Problem, count_problems
from odradek.client.admin.reassignments import OngoingReassignment
from odradek.client.results import LogDirectoryDescription
from odradek.foundation.ids import TopicPartition
from odradek.foundation.words import count

# States of a group whose members have partitions, of both protocols (KIP-848 has the last two).
REBALANCING_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
# A disk is nearly full below both limits. A twentieth of a large disk lasts long, and so do 20 GiB of a small one.
NEARLY_FULL_SHARE: Final = 0.05
NEARLY_FULL_BYTES: Final = 20 * 1024**3


class Verdict(IntEnum):
    """The verdict on a cluster; a higher number is worse."""

    HEALTHY = 0
    DEGRADED = 1
    """All partitions are served, with less redundancy or space than there should be."""
    UNHEALTHY = 2
    """Some partitions cannot be read or written, or a disk is full."""


class BrokerStatus(StrEnum):
    """The state of a broker."""

    LIVE = "live"
    SILENT = "silent"
    """The cluster lists it, but it did not answer."""
    GONE = "gone"
    """It is not running, but the cluster remembers it or its replicas."""


class DirectoryStatus(StrEnum):
    """The state of a log directory."""

    OK = "ok"
    NEARLY_FULL = "nearly full"
    FULL = "full"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class BrokerHealth:
    """A broker with its replicas and disks. `address` is None for one that is known only by its replicas."""

    id: int
    status: BrokerStatus
    address: str | None
    rack: str | None
    replicas: int
    leaders: int
    directories: tuple[LogDirectoryDescription, ...] = ()
    error: str | None = None
    """Why it did not answer."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem, in words, and what to do about it."""

    verdict: Verdict
    words: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """A cluster at one moment. `moves` is None while no controller answers. `controller_id` is None while there is
    none, or when only a broker that forwards to it is known (`is_forwarded`).
    """

    cluster_id: str
    controller_id: int | None
    is_forwarded: bool
    brokers: tuple[BrokerHealth, ...]
    topics: int
    partitions: int
    troubled: tuple[PartitionState, ...]
    """The partitions that have a problem."""
    moves: Mapping[TopicPartition, OngoingReassignment] | None
    groups: Mapping[str, int]
    """The number of groups in each state, from the brokers that answered."""

    @property
    def verdict(self) -> Verdict:
        """The worst of the findings."""
        return max((finding.verdict for finding in self.findings), default=Verdict.HEALTHY)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The problems, the worst first."""
        return tuple(sorted(_findings(self), key=lambda finding: -finding.verdict))

    @property
    def problems(self) -> dict[Problem, int]:
        """The number of partitions with each problem."""
        return count_problems(self.troubled)


def directory_status(directory: LogDirectoryDescription) -> DirectoryStatus:
    """Whether a directory has free space. A broker before Kafka 3.3 does not report it (KIP-827): that is `ok`."""
    if directory.error is not None:
        return DirectoryStatus.FAILED
    if directory.usable_bytes < 0 or directory.total_bytes <= 0:
        return DirectoryStatus.OK
    if directory.is_full:
        return DirectoryStatus.FULL
    share = directory.usable_bytes / directory.total_bytes
    if share < NEARLY_FULL_SHARE and directory.usable_bytes < NEARLY_FULL_BYTES:
        return DirectoryStatus.NEARLY_FULL
    return DirectoryStatus.OK


_MAKE_ROOM: Final = "see `odradek brokers disk` for what takes it; lower a topic's retention, or add brokers"
_START_BROKERS: Final = "start the brokers that have their replicas; `odradek status` lists the partitions"
_PARTITION_FINDINGS: Final = (
    (Problem.OFFLINE, Verdict.UNHEALTHY, "offline: none of their replicas is available", _START_BROKERS),
    (
        Problem.LEADERLESS,
        Verdict.UNHEALTHY,
        "without a leader, though a replica is available",
        "start the brokers that were last in sync; another replica would lose records that were acknowledged",
    ),
    (
        Problem.UNDER_MIN_ISR,
        Verdict.UNHEALTHY,
        "under min.insync.replicas: acks=all writes are refused",
        "start the brokers that are missing; until then only less than min.insync.replicas lets producers write",
    ),
    (Problem.UNDER_REPLICATED, Verdict.DEGRADED, "under-replicated", _START_BROKERS),
    (
        Problem.AT_MIN_ISR,
        Verdict.DEGRADED,
        "under-replicated and at min.insync.replicas",
        "stop no other broker: acks=all writes would be refused",
    ),
    (Problem.NOT_PREFERRED, Verdict.HEALTHY, "not led by their preferred leader", ""),
)


def _findings(health: ClusterHealth) -> Iterator[Finding]:
    if health.controller_id is None:
        yield Finding(
            Verdict.UNHEALTHY,
            "no controller: topics and leaders cannot change",
            "start a controller, and look whether ZooKeeper answers it",
        )
    for broker in health.brokers:
        yield from _broker_findings(broker)
    problems = health.problems
    for problem, verdict, words, advice in _PARTITION_FINDINGS:
        if problem in problems:
            yield Finding(verdict, f"{count(problems[problem], 'partition')} {words}", advice)
    if health.moves:
        yield Finding(Verdict.HEALTHY, f"{count(len(health.moves), 'partition')} moving between brokers")
    rebalancing = sum(health.groups.get(state, 0) for state in REBALANCING_STATES)
    if rebalancing:
        yield Finding(Verdict.HEALTHY, f"{count(rebalancing, 'group')} rebalancing")


def _broker_findings(broker: BrokerHealth) -> Iterator[Finding]:
    if broker.status is BrokerStatus.GONE:
        words = f"broker {broker.id} is gone, with {count(broker.replicas, 'replica')}"
        advice = f"start it, or move its replicas and run `odradek brokers remove {broker.id}`"
        yield Finding(Verdict.DEGRADED, words, advice)
    if broker.status is BrokerStatus.SILENT:
        verdict = Verdict.UNHEALTHY if broker.leaders else Verdict.DEGRADED
        advice = (
            "look whether its process runs, and whether its advertised.listeners can be reached from here"
        )
        yield Finding(verdict, f"broker {broker.id} does not answer: {broker.error}", advice)
    for directory in broker.directories:
        match directory_status(directory):
            case DirectoryStatus.FAILED:
                words = f"broker {broker.id}: log directory {directory.path} failed"
                yield Finding(Verdict.DEGRADED, words, "repair or replace the disk, then restart the broker")
            case DirectoryStatus.FULL:
                words = f"broker {broker.id}: the disk of {directory.path} is full"
                yield Finding(Verdict.UNHEALTHY, words, _MAKE_ROOM)
            case DirectoryStatus.NEARLY_FULL:
                words = f"broker {broker.id}: the disk of {directory.path} is nearly full"
                yield Finding(Verdict.DEGRADED, words, _MAKE_ROOM)
