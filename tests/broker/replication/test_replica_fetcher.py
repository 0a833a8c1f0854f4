"""A follower in trouble: damaged answers, forgotten sessions, failing disks, leaders that come and go."""

from __future__ import annotations

import asyncio
import errno
import logging
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from odradek.broker.replication.follower import Follower
from odradek.broker.replication.partition_reader import PartitionReader
from odradek.foundation.errors import OffsetOutOfRange
from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from tests.support.loop import run
from tests.support.replicas import ReplicaCluster


class Meddler:
    """Changes what a cluster's brokers answer each other."""

    def __init__(self, cluster: ReplicaCluster) -> None:
        self._carry = cluster.carry
        self.fetches: list[Any] = []
        self.change: Any = None
        cluster.carry = self.carry  # type: ignore[method-assign]

    async def carry(self, sender: Any, receiver_id: int, api: ApiKey, version: int, message: Any) -> Any:
        if api is ApiKey.FETCH:
            self.fetches.append(message)
        answer = await self._carry(sender, receiver_id, api, version, message)
        return answer if self.change is None or api is not ApiKey.FETCH else self.change(answer)


def _with_records(answer: Any, records: Any) -> Any:
    """The answer with other records, where it has some."""
    return replace(
        answer,
        responses=tuple(
            replace(
                topic,
                partitions=tuple(
                    replace(one, records=records(bytes(one.records))) if one.records else one
                    for one in topic.partitions
                ),
            )
            for topic in answer.responses
        ),
    )


async def test_records_damaged_in_transit_are_fetched_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    cluster = await ReplicaCluster.start(brokers=2, replicas=(1, 2))
    meddler = Meddler(cluster)

    def damage(answer: Any) -> Any:
        return _with_records(answer, lambda data: data[:-1] + bytes([data[-1] ^ 1]))

    meddler.change = damage
    await asyncio.sleep(1)  # The fetch that waits already is answered as it is.
    waiting = asyncio.create_task(cluster.produce(1, b"v", timeout_ms=60_000))
    await asyncio.sleep(3)
    assert not waiting.done()
    assert cluster.nodes[2].partition().log.log_end_offset == 0
    (fetcher,) = cluster.nodes[2].fetchers
    assert 10 < fetcher.failures < 40, "it is asked for again after each back-off"
    assert sum("was sent damaged" in line for line in caplog.messages) == 1
    meddler.change = None
    assert (await waiting).error_code == 0
    assert cluster.nodes[2].values() == {0: b"v"}
    assert sum("follows broker 1 again" in line for line in caplog.messages) == 1


def test_a_fault_in_one_partition_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    append = Follower.append
    is_faulty = True

    def fail_at_first(self: Follower, *args: Any, **named: Any) -> int:
        if is_faulty and self.replica.topic_partition.partition == 0 and self.replica.context.broker_id == 2:
            raise ZeroDivisionError("a fault of ours")
        return append(self, *args, **named)

    async def story() -> None:
        nonlocal is_faulty
        async with ReplicaCluster(brokers=2) as cluster:
            await cluster.create_topic(partitions=2, replicas=(1, 2))
            monkeypatch.setattr(Follower, "append", fail_at_first)
            for index in (0, 1):
                await cluster.produce(1, b"v", index=index, acks=1)
            await cluster.until(lambda: cluster.nodes[2].partition(1).log.log_end_offset == 1)
            assert (await cluster.produce(1, b"w", index=1)).error_code == 0
            assert cluster.nodes[2].partition(0).log.log_end_offset == 0
            is_faulty = False
            await cluster.until(lambda: cluster.nodes[2].partition(0).log.log_end_offset == 1)

    run(story())


async def test_a_false_out_of_range_is_retried_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: PartitionReader, fetch_offset: int, *args: Any, **named: Any) -> Any:
        raise OffsetOutOfRange(f"{self._replica.topic_partition} has no {fetch_offset}")

    cluster = await ReplicaCluster.start(brokers=2, replicas=(1, 2))
    meddler = Meddler(cluster)
    with monkeypatch.context() as patch:
        patch.setattr(PartitionReader, "read_for_follower", refuse)
        await cluster.produce(1, b"v", acks=1)
        await asyncio.sleep(5)
    assert 10 < len(meddler.fetches) < 100, "once in each back-off"
    await cluster.until(lambda: cluster.nodes[2].partition().log.log_end_offset == 1)


async def test_a_leader_that_learns_late_of_a_topic_is_retried_soon() -> None:
    cluster = await ReplicaCluster.start(brokers=2, replica_fetch_backoff_ms="5000")
    deliver, loop = cluster._deliver, asyncio.get_running_loop()

    def deliver_late(node: Any, image: Any) -> None:
        loop.call_later(0.1 if node.id == 1 else 0.0, deliver, node, image)

    cluster._deliver = deliver_late  # type: ignore[method-assign]
    await cluster.create_topic(replicas=(1, 2))
    assert (await cluster.produce(1, b"v", timeout_ms=500)).error_code == 0


async def test_a_leader_with_another_registration_is_asked_without_a_pause() -> None:
    """The request to the registration that has ended fails, and says nothing about the new one."""
    cluster = await ReplicaCluster.start(brokers=2, replica_fetch_backoff_ms="5000", replicas=(1, 2))
    node = cluster.nodes[2]
    (fetcher,) = node.fetchers
    # Wait for a fetch that waits for records.
    await asyncio.sleep(1)
    old = node.images.current
    registration = old.brokers[1]._replace(epoch=old.brokers[1].epoch + 100)
    node.images.replace(replace(old, brokers={**old.brokers, 1: registration}))
    node.interrupt(1)
    assert (await cluster.produce(1, b"v", timeout_ms=500)).error_code == 0
    assert fetcher.failures == 0
    node.interrupt(1)
    await asyncio.sleep(0.1)
    assert fetcher.failures == 1, "nothing has changed this time"
    assert (await cluster.produce(1, b"w", timeout_ms=500)).error_code != 0


async def test_a_partition_added_while_a_request_fails_waits_no_longer() -> None:
    cluster = await ReplicaCluster.start(
        brokers=2, replica_fetch_backoff_ms="5000", partitions=2, replicas=(1, 2)
    )
    node = cluster.nodes[2]
    (fetcher,) = node.fetchers
    await asyncio.sleep(1)
    fetcher.add(node.partition(1))
    node.interrupt(1)
    assert (await cluster.produce(1, b"v", index=1, timeout_ms=500)).error_code == 0
    assert fetcher.failures == 0


async def test_a_torn_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    cluster = await ReplicaCluster.start(brokers=2, replicas=(1, 2))
    cluster.disconnect(1, 2)
    for number in range(5):
        await cluster.produce(1, b"%d" % number * 100, acks=1)
    meddler = Meddler(cluster)
    meddler.change = lambda answer: _with_records(answer, lambda data: data[: min(len(data), 400)])
    cluster.heal()
    await cluster.until(lambda: cluster.nodes[2].partition().log.log_end_offset == 5)
    assert cluster.nodes[2].values() == cluster.nodes[1].values()


async def test_a_leader_that_refuses_every_new_session_is_asked_after_a_pause() -> None:
    cluster = await ReplicaCluster.start(brokers=2, replicas=(1, 2))
    await asyncio.sleep(2)
    carry, refused = cluster.carry, 0

    async def refuse(sender: Any, receiver_id: int, api: ApiKey, version: int, message: Any) -> Any:
        nonlocal refused
        if api is not ApiKey.FETCH:
            return await carry(sender, receiver_id, api, version, message)
        refused += 1
        await asyncio.sleep(0.001)
        code = ErrorCode.fetch_session_id_not_found
        return messages.response(api, version, error_code=code, session_id=0, responses=())

    cluster.carry = refuse  # type: ignore[method-assign]
    await asyncio.sleep(10)
    assert 10 < refused < 150, "once in each back-off"
    cluster.carry = carry  # type: ignore[method-assign]
    assert (await cluster.produce(1, b"v")).error_code == 0


async def test_a_session_that_the_leader_forgot_is_reopened() -> None:
    cluster = await ReplicaCluster.start(brokers=2, partitions=5, replicas=(1, 2))
    await asyncio.sleep(2)
    meddler = Meddler(cluster)
    await asyncio.sleep(2)
    assert all(not message.topics for message in meddler.fetches), "nothing new to say"
    sessions = cluster.nodes[1].parts.fetch.fetch_sessions
    (session_id,) = {message.session_id for message in meddler.fetches}
    meddler.fetches.clear()
    sessions.remove(session_id)
    answer = await cluster.produce(1, b"v", index=3)
    assert answer.error_code == 0
    named = [sum(len(topic.partitions) for topic in message.topics) for message in meddler.fetches]
    assert 5 in named and len(sessions) == 1


async def test_a_partition_whose_disk_fails_holds_up_no_other() -> None:
    cluster = await ReplicaCluster.start(
        brokers=2, replica_lag_time_max_ms="2000", log_dirs="/logs,/more", partitions=2, replicas=(1, 2)
    )
    node = cluster.nodes[2]
    lost = next(index for index in range(2) if node.partition(index).log.parent_directory == "/more")
    kept = 1 - lost
    node.disk.fail_path("/more", errno.EIO)
    late = asyncio.create_task(cluster.produce(1, b"v", index=lost))
    assert (await cluster.produce(1, b"v", index=kept)).error_code == 0
    assert (await late).error_code == 0, "the broken replica leaves the in-sync set"
    assert cluster.states[lost].isr == (1,) and cluster.states[kept].isr == (1, 2)
    node.disk.failing_paths.clear()


async def test_followers_flush_before_the_next_fetch_by_flush_messages() -> None:
    cluster = await ReplicaCluster.start(brokers=2)
    await cluster.create_topic(replicas=(1, 2), flush_messages="1")
    for number in range(5):
        assert (await cluster.produce(1, b"%d" % number)).error_code == 0
        for node in cluster.nodes.values():
            assert node.partition().log.recovery_point > number, "flushed where it counts"
    await cluster.kill_node(1, power_loss=True)
    cluster.disks[2].crash()
    await cluster.nodes[2].die()
    cluster.start_node(2)
    assert len(cluster.nodes[2].values()) == 5


@pytest.mark.parametrize("fetchers", [1, 3])
async def test_partitions_are_spread_over_a_leaders_fetchers(fetchers: int) -> None:
    cluster = await ReplicaCluster.start(num_replica_fetchers=str(fetchers))
    await cluster.create_topic(partitions=12, replicas=(1, 2, 3))
    node = cluster.nodes[3]
    assert [len(fetcher) for fetcher in node.fetchers] == [12 // fetchers] * fetchers
    for index in range(6):
        cluster.elect(2, index)
    await asyncio.sleep(0.1)
    count = {leader: sum(len(f) for f in node.fetchers if f.leader == leader) for leader in (1, 2)}
    assert count == {1: 6, 2: 6}
    answers = await asyncio.gather(
        *(cluster.produce(2 if index < 6 else 1, b"v", index=index) for index in range(12))
    )
    assert all(answer.error_code == 0 for answer in answers)


async def test_a_follower_that_was_offline_for_long_reads_in_bounded_pieces() -> None:
    cluster = await ReplicaCluster.start(
        brokers=2,
        replica_fetch_max_bytes="3000",
        replica_fetch_response_max_bytes="5000",
        partitions=3,
        replicas=(1, 2),
    )
    cluster.disconnect(1, 2)
    for number in range(60):
        await cluster.produce(1, bytes([65 + number % 26]) * 500, index=number % 3, acks=1)
    sizes: list[int] = []

    def weigh(answer: Any) -> Any:
        sizes.append(sum(len(one.records or b"") for topic in answer.responses for one in topic.partitions))
        return answer

    Meddler(cluster).change = weigh
    cluster.heal()
    for index in range(3):
        await cluster.until(
            lambda index=index: cluster.nodes[2].partition(index).log.log_end_offset == 20  # type: ignore[misc]
        )
        assert cluster.nodes[2].values(index) == cluster.nodes[1].values(index)
    assert max(sizes) <= 5000


async def test_a_leader_that_learns_late_that_it_leads_is_retried_at_once() -> None:
    """Its producers wait for the follower, which is in sync: they would wait for a second's pause, too."""
    cluster = await ReplicaCluster.start(brokers=3, replica_fetch_backoff_ms="20000", replicas=(1, 2, 3))
    await asyncio.sleep(1)
    cluster.image_delay_seconds = (0.05, 0.05)
    late, early = cluster.nodes[2], cluster.nodes[3]
    state = cluster.states[0]._replace(leader=2, leader_epoch=1, partition_epoch=1)
    early.partition().take_role(state)
    await asyncio.sleep(0.04)
    late.partition().take_role(state)
    cluster.nodes[1].partition().take_role(state)
    began = asyncio.get_running_loop().time()
    assert (await cluster.produce(2, b"v", timeout_ms=60_000)).error_code == 0
    assert asyncio.get_running_loop().time() - began < 0.2


async def test_a_partition_that_is_added_does_not_wait_for_a_question_on_its_way() -> None:
    cluster = await ReplicaCluster.start(
        brokers=2, replica_fetch_wait_max_ms="5000", partitions=2, replicas=(1, 2)
    )
    cluster.elect(2, index=1)
    await asyncio.sleep(2)  # 2 asks 1 for partition 0 alone by now, and is kept waiting
    cluster.elect(1, index=1)
    await cluster.until(lambda: cluster.nodes[1].partition(1).is_leader)
    began = asyncio.get_running_loop().time()
    assert (await cluster.produce(1, b"v", index=1, timeout_ms=60_000)).error_code == 0
    assert asyncio.get_running_loop().time() - began < 0.5
    (fetcher,) = (one for one in cluster.nodes[2].fetchers if one.leader == 1)
    assert fetcher.failures == 0, "to give up a question is no failure"


async def test_a_leader_that_returned_is_retried_at_once() -> None:
    cluster = await ReplicaCluster.start(
        brokers=2, replica_fetch_backoff_ms="20000", partitions=2, replicas=(1, 2)
    )
    cluster.elect(2, index=1)
    await asyncio.sleep(2)
    cluster.disconnect(1, 2)
    await asyncio.sleep(2)
    cluster.heal()
    cluster.elect(1, index=1)
    await cluster.until(lambda: cluster.nodes[1].partition(1).is_leader)
    began = asyncio.get_running_loop().time()
    for index in range(2):
        assert (await cluster.produce(1, b"v", index=index, timeout_ms=60_000)).error_code == 0
    assert asyncio.get_running_loop().time() - began < 0.5


async def test_a_role_that_comes_while_the_broker_stops_starts_no_fetcher() -> None:
    """The cluster's image changes until the broker has left it."""
    cluster = await ReplicaCluster.start(brokers=3, replicas=(1, 2, 3))
    await asyncio.sleep(1)
    stopping = cluster.nodes[2]
    before = list(stopping.fetchers)
    await stopping.fetchers.stop()
    stopping.partition().take_role(cluster.states[0]._replace(leader=3, leader_epoch=1, partition_epoch=1))
    assert stopping.partition().follower is not None
    assert list(stopping.fetchers) == before
