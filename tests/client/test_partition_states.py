"""What is wrong with a partition, by its leader and its in-sync set."""

from __future__ import annotations

import asyncio

import pytest

import odradek.testing
from odradek.client.admin import configs
from odradek.client.admin.health import (
    BrokerHealth,
    BrokerStatus,
    ClusterHealth,
    DirectoryStatus,
    Verdict,
    directory_status,
)
from odradek.client.admin.partition_states import (
    PartitionState,
    Problem,
    count_problems,
    partition_states,
    state_of,
)
from odradek.client.admin.reassignments import OngoingReassignment
from odradek.client.client import Client
from odradek.client.metadata import PartitionInfo
from odradek.client.results import LogDirectoryDescription

GIB = 1024**3


def partition(
    *, leader: int = 1, replicas: tuple[int, ...] = (1, 2, 3), in_sync: tuple[int, ...] = (1, 2, 3)
) -> PartitionInfo:
    return PartitionInfo(
        partition=0,
        leader=leader,
        leader_epoch=0,
        replicas=replicas,
        in_sync_replicas=in_sync,
        offline_replicas=(),
        error_code=0,
    )


def problems(
    info: PartitionInfo, *, min_in_sync: int | None = 2, live: tuple[int, ...] = (1, 2, 3)
) -> set[str]:
    return set(state_of("t", info, live=live, min_in_sync=min_in_sync).problems)


@pytest.mark.parametrize(
    ("info", "min_in_sync", "expected"),
    [
        (partition(), 2, set()),
        (partition(in_sync=(1, 2)), 1, {"under_replicated"}),
        (partition(in_sync=(1, 2)), 2, {"under_replicated", "at_min_isr"}),
        (partition(in_sync=(1,)), 2, {"under_replicated", "under_min_isr"}),
        (partition(in_sync=(1,)), None, {"under_replicated"}),
        # It needs no more replicas than it has.
        (partition(replicas=(1,), in_sync=(1,)), 2, set()),
        # Another leader than the first is a problem of the least kind.
        (partition(leader=2), 2, {"not_preferred"}),
    ],
)
def test_problems_by_leader_and_in_sync_set(
    info: PartitionInfo, min_in_sync: int | None, expected: set[str]
) -> None:
    assert problems(info, min_in_sync=min_in_sync) == expected


def test_a_partition_with_one_replica_is_at_its_minimum() -> None:
    assert state_of("t", partition(replicas=(1,), in_sync=(1,)), live=(1,), min_in_sync=2).is_at_min_isr


def test_without_a_leader_it_counts_whether_a_replica_is_there() -> None:
    nobody = partition(leader=-1, in_sync=(1,))
    assert "leaderless" in problems(nobody, live=(2, 3))
    assert "offline" in problems(nobody, live=(4,))
    # A leader that is on no live broker leads nothing, as kafka-topics has it.
    assert "leaderless" in problems(partition(), live=(2, 3))


def test_a_replica_that_a_move_adds_is_not_missing() -> None:
    moving = partition(replicas=(1, 2, 3, 4), in_sync=(1, 2, 3))
    move = OngoingReassignment(replicas=(1, 2, 3, 4), adding=(4,), removing=(1,))
    assert state_of("t", moving, live=(1, 2, 3, 4), min_in_sync=1).problems == (Problem.UNDER_REPLICATED,)
    assert state_of("t", moving, live=(1, 2, 3, 4), min_in_sync=1, move=move).problems == ()


def test_problems_are_counted_the_worst_first() -> None:
    states = [
        state_of("t", partition(leader=2), live=(1, 2, 3), min_in_sync=1),
        state_of("t", partition(leader=-1, in_sync=(1,)), live=(2, 3), min_in_sync=1),
    ]
    assert list(count_problems(states).items()) == [
        (Problem.LEADERLESS, 1),
        (Problem.AT_MIN_ISR, 1),
        (Problem.UNDER_REPLICATED, 1),
        (Problem.NOT_PREFERRED, 1),
    ]


def directory(total: int, usable: int, error: str | None = None) -> LogDirectoryDescription:
    return LogDirectoryDescription(
        broker_id=1, path="/d", total_bytes=total, usable_bytes=usable, replicas={}, error=error
    )


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (directory(100 * GIB, 50 * GIB), DirectoryStatus.OK),
        (directory(100 * GIB, 4 * GIB), DirectoryStatus.NEARLY_FULL),
        (directory(10_000 * GIB, 400 * GIB), DirectoryStatus.OK),
        (directory(100 * GIB, 1024**2), DirectoryStatus.FULL),
        (directory(100 * GIB, 0), DirectoryStatus.FULL),
        (directory(-1, -1), DirectoryStatus.OK),
        (directory(-1, -1, "it failed"), DirectoryStatus.FAILED),
    ],
)
def test_room_in_a_directory(found: LogDirectoryDescription, status: DirectoryStatus) -> None:
    assert directory_status(found) is status


def health(
    *states: PartitionState, brokers: tuple[BrokerHealth, ...] = (), controller_id: int | None = 1
) -> ClusterHealth:
    return ClusterHealth(
        cluster_id="c",
        controller_id=controller_id,
        is_forwarded=True,
        brokers=brokers,
        topics=1,
        partitions=len(states),
        troubled=states,
        moves={},
        groups={},
    )


def broker(
    status: BrokerStatus, *, leaders: int = 0, directories: tuple[LogDirectoryDescription, ...] = ()
) -> BrokerHealth:
    return BrokerHealth(
        id=1,
        status=status,
        address=None,
        rack=None,
        replicas=3,
        leaders=leaders,
        directories=directories,
        error="why",
    )


def test_the_verdict_is_the_worst_that_was_found() -> None:
    def state(info: PartitionInfo) -> PartitionState:
        return state_of("t", info, live=(1, 2, 3), min_in_sync=1)

    full = (directory(GIB, 0),)
    assert health().verdict is Verdict.HEALTHY
    assert health(state(partition(leader=2))).verdict is Verdict.HEALTHY
    assert health(state(partition(in_sync=(1, 2)))).verdict is Verdict.DEGRADED
    assert health(state(partition(leader=-1))).verdict is Verdict.UNHEALTHY
    assert health(controller_id=None).verdict is Verdict.UNHEALTHY
    assert health(brokers=(broker(BrokerStatus.GONE),)).verdict is Verdict.DEGRADED
    assert health(brokers=(broker(BrokerStatus.SILENT),)).verdict is Verdict.DEGRADED
    assert health(brokers=(broker(BrokerStatus.SILENT, leaders=1),)).verdict is Verdict.UNHEALTHY
    assert health(brokers=(broker(BrokerStatus.LIVE, directories=full),)).verdict is Verdict.UNHEALTHY


def test_findings_are_sentences_with_numbers_that_fit() -> None:
    found = health(
        state_of("t", partition(in_sync=(1, 2)), live=(1, 2, 3), min_in_sync=1),
        brokers=(broker(BrokerStatus.GONE),),
    )
    assert [finding.words for finding in found.findings] == [
        "broker 1 is gone, with 3 replicas",
        "1 partition under-replicated",
    ]


@pytest.mark.integration
def test_the_settings_of_many_topics_are_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configs, "CONFIG_RESOURCES_PER_REQUEST_MAX", 2)

    async def numbers(bootstrap: str) -> dict[str, int | None]:
        async with Client(bootstrap) as client:
            topics = list((await client.refresh(None)).topics.values())
            return {one.where.topic: one.min_in_sync for one in await partition_states(client, topics)}

    with odradek.testing.broker() as broker:
        for number in range(1, 6):
            broker.create_topic(f"t{number}", configs={"min.insync.replicas": str(number)})
        assert asyncio.run(numbers(broker.bootstrap)) == {f"t{number}": number for number in range(1, 6)}
