"""DeleteRecords names any offset, also one inside a batch. A replica that starts there takes the whole batch.

Each way in which a replica starts from its leader's log start has its test. So has what follows: restarts, elections,
idempotent producers, compaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.foundation.errors import InvalidRecord, KafkaStorageError
from odradek.storage.epochs import EpochEntry
from odradek.wire.protocol.api import ApiKey
from tests.support.disk import SimulatedDisk
from tests.support.logs import batch, open_log, stored_records
from tests.support.replicas import ReplicaCluster

PRODUCER: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0}
Road = Callable[[ReplicaCluster], Awaitable[None]]


async def write_and_delete(cluster: ReplicaCluster, *, offset: int = 2) -> None:
    """Offsets 0 to 4 and 5 to 6 are two batches; all records below `offset` are deleted."""
    leader_id = cluster.states[0].leader
    for base_sequence, count in ((0, 5), (5, 2)):
        values = [b"%d" % (base_sequence + number) for number in range(count)]
        answer = await cluster.produce(leader_id, *values, base_sequence=base_sequence, **PRODUCER)
        assert answer.error_code == 0
    deleted = await cluster.nodes[leader_id].ask(
        ApiKey.DELETE_RECORDS,
        2,
        timeout=5000,
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "offset": offset}]}],
    )
    (found,) = deleted.topics[0].partitions
    assert (found.error_code, found.low_watermark) == (0, offset)


async def added(cluster: ReplicaCluster) -> None:
    """Broker 3 becomes a replica by a reassignment."""
    await cluster.create_topic(replicas=(1, 2))
    await write_and_delete(cluster)
    cluster.reassign(1, 2, 3)


async def wiped(cluster: ReplicaCluster) -> None:
    """Broker 3 starts with an empty disk."""
    await cluster.create_topic(replicas=(1, 2, 3))
    await cluster.kill_node(3)
    await asyncio.sleep(0.1)
    await write_and_delete(cluster)
    cluster.disks[3] = SimulatedDisk()
    cluster.start_node(3)


async def left_behind(cluster: ReplicaCluster) -> None:
    """Broker 3 has records, all of which its leader deleted while it was away."""
    await cluster.create_topic(replicas=(1, 2, 3))
    await cluster.kill_node(3)
    await asyncio.sleep(0.1)
    await write_and_delete(cluster, offset=6)
    cluster.start_node(3)


async def truncated_to_start(cluster: ReplicaCluster) -> None:
    """Broker 3 has the first batch, and truncates its log inside it."""
    await cluster.create_topic(replicas=(1, 2, 3))
    await write_and_delete(cluster)
    await cluster.until(lambda: cluster.nodes[3].partition().log.log_start_offset == 2)
    follower = cluster.nodes[3].partition().follower
    assert follower is not None
    follower.truncate_to(3)
    log = cluster.nodes[3].partition().log
    assert (log.log_start_offset, log.log_end_offset) == (2, 2)
    cluster.elect(1, isr=(1, 2))  # It fetches from its new end.


ROADS = (added, wiped, left_behind, truncated_to_start)


@pytest.mark.parametrize("road", ROADS)
async def test_a_replica_that_starts_inside_a_batch_joins_the_in_sync_set(road: Road) -> None:
    cluster = await ReplicaCluster.start()
    await road(cluster)
    await cluster.until(lambda: 3 in cluster.states[0].isr)
    leader, replica = cluster.nodes[1].partition().log, cluster.nodes[3].partition().log
    await cluster.until(lambda: replica.log_start_offset == leader.log_start_offset)
    assert replica.log_end_offset == leader.log_end_offset == 7
    answer = await cluster.produce(1, b"7", base_sequence=7, **PRODUCER)
    assert (answer.error_code, answer.base_offset) == (0, 7)
    assert stored_records(replica) == stored_records(leader)
    assert replica.epochs.entries == leader.epochs.entries


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
async def test_such_a_replica_restarts_and_leads(road: Road, is_clean: bool) -> None:
    cluster = await ReplicaCluster.start()
    await road(cluster)
    await cluster.until(lambda: 3 in cluster.states[0].isr)
    start_offset = cluster.nodes[1].partition().log.log_start_offset
    if is_clean:
        await cluster.stop_node(3)
    else:
        await asyncio.sleep(90)  # The start offsets are written down once a minute.
        await cluster.kill_node(3)
    cluster.start_node(3)
    await cluster.until(lambda: 3 in cluster.states[0].isr)
    cluster.elect(3)
    await cluster.until(lambda: cluster.nodes[3].partition().is_leader)
    log = cluster.nodes[3].partition().log
    assert (log.log_start_offset, log.log_end_offset) == (start_offset, 7)
    read = await cluster.nodes[3].ask(
        ApiKey.FETCH,
        12,
        max_wait=0,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[
            {
                "topic": "t",
                "partitions": [
                    {"partition": 0, "fetch_offset": start_offset, "partition_max_bytes": 1 << 20}
                ],
            }
        ],
    )
    (found,) = read.responses[0].partitions
    assert (found.error_code, found.log_start_offset) == (0, start_offset)
    again = await cluster.produce(3, b"5", b"6", base_sequence=5, **PRODUCER)
    assert (again.error_code, again.base_offset) == (0, 5), "the retry of a batch that it has"
    after = await cluster.produce(3, b"7", base_sequence=7, **PRODUCER)
    assert (after.error_code, after.base_offset) == (0, 7)


def test_after_a_crash_a_retry_of_the_batch_at_the_start_is_a_duplicate() -> None:
    """The batch begins below the log's start, and its producer is known by it alone."""
    disk = SimulatedDisk()
    log = open_log(disk)
    sent = bytes(batch(b"0", b"1", b"2", base_sequence=0, **PRODUCER))
    log.append(sent, leader_epoch=0)
    log.flush()
    log.advance_log_start(1)
    disk.crash()
    log = open_log(disk, log_start_offset=1, clean=False)
    again = log.append(sent, leader_epoch=0)
    assert (again.is_duplicate, again.first_offset, log.log_end_offset) == (True, 0, 3)


def test_a_transaction_whose_data_holds_the_start_is_open_after_a_crash() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    sent = bytes(batch(b"0", b"1", b"2", base_sequence=0, is_transactional=True, **PRODUCER))
    log.append_as_follower(sent)
    log.flush()
    log.advance_log_start(1)
    disk.crash()
    log = open_log(disk, log_start_offset=1, clean=False)
    assert log.producers.transactions.last_stable_offset(high_watermark=3) == 0


def test_an_empty_log_takes_the_batch_at_its_start_and_keeps_its_start() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    log.truncate_fully_and_start_at(2)
    first = bytes(batch(b"0", b"1", b"2", b"3", base_offset=0, leader_epoch=4))
    second = bytes(batch(b"4", base_offset=4, leader_epoch=5))
    result = log.append_as_follower(first + second)
    assert (result.first_offset, result.last_offset, result.size_bytes) == (0, 4, len(first + second))
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (2, 5, 0)
    assert [segment.base_offset for segment in log.segments.all] == [0]
    assert log.epochs.entries == [EpochEntry(4, 2), EpochEntry(5, 4)]
    log.close()
    again = open_log(disk, log_start_offset=2)
    assert (again.log_start_offset, again.log_end_offset) == (2, 5)
    assert again.epochs.entries == [EpochEntry(4, 2), EpochEntry(5, 4)]


@pytest.mark.parametrize("base_offset", [0, 1])
def test_other_batches_below_the_end_are_refused(base_offset: int) -> None:
    log = open_log(SimulatedDisk())
    log.truncate_fully_and_start_at(3)
    ends_below = bytes(batch(b"0", b"1", base_offset=base_offset, leader_epoch=0))
    with pytest.raises(InvalidRecord, match="given a batch"):
        log.append_as_follower(ends_below)
    log.append_as_follower(bytes(batch(b"3", base_offset=3, leader_epoch=0)))
    with pytest.raises(InvalidRecord, match="given a batch"):
        log.append_as_follower(bytes(batch(b"3", b"4", base_offset=3, leader_epoch=0)))
    assert (log.log_start_offset, log.log_end_offset) == (3, 4)


def test_a_full_disk_leaves_such_a_log_as_it_was() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    log.truncate_fully_and_start_at(2)
    held = bytes(batch(b"0", b"1", b"2", base_offset=0, leader_epoch=0))
    disk.capacity_bytes = 0
    with pytest.raises(KafkaStorageError):
        log.append_as_follower(held)
    assert (log.log_start_offset, log.log_end_offset) == (2, 2)
    disk.capacity_bytes = None
    log.append_as_follower(held)
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)
