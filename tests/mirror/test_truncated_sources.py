"""A source that loses records which the mirror has copied: its partition stops, says so, and nothing is lost silently.

Both clusters run in this process on virtual time, since a log loses records only at an unclean election.
"""

from __future__ import annotations

import pytest

from odradek.client.admin.topics import TopicAdmin
from odradek.foundation.ids import TopicPartition
from odradek.mirror.counters import FlowCounters, FlowError
from odradek.mirror.errors import DAMAGED
from odradek.mirror.mirror import Mirror
from tests.mirror.virtual_clusters import GROUP, TwoWholeClusters, clusters, mirroring
from tests.support.mirroring import committed, running, until
from tests.support.polling import eventually

KEY = TopicPartition("t", 0)


async def stopped(mirror: Mirror) -> FlowError:
    """Why the partition stopped, once it has."""
    counters = mirror.flows[0].counters
    of = await eventually(
        "the partition stopped",
        lambda: counters.partitions.get(KEY),
        lambda of: of is not None and of.stopped is not None,
        pause_seconds=0.1,
    )
    assert of is not None and of.stopped is not None
    assert of.lag_records is None and of.lag_ms(counters.wall_ms()) is None, "its lag means nothing"
    return of.stopped


async def without_the_follower(both: TwoWholeClusters) -> int:
    """Leave the leader alone. Returns the other broker, which has what was written before and no more."""
    leader = await both.leader()
    await both.source.kill_broker(3 - leader)
    await both.source.until(lambda: both.source.image(leader).topics["t"].partitions[0].isr == (leader,))
    return 3 - leader


async def replaced(both: TwoWholeClusters, follower: int) -> None:
    """Kill the leader; the other broker is elected although it lacks records."""
    await both.source.kill_broker(3 - follower)
    await both.source.start_broker(follower)
    assert await both.leader() == follower


@pytest.mark.parametrize("is_running", [True, False], ids=["while it runs", "while it is stopped"])
@pytest.mark.parametrize("grown", [(), ("x",), ("x", "y", "z")], ids=["shorter", "as long", "longer"])
async def test_a_leader_without_copied_records_stops_it(
    grown: tuple[str, ...], is_running: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with clusters(monkeypatch) as both:
        await both.produce("a", "b")
        follower = await without_the_follower(both)
        await both.produce("lost")

        async def lose() -> None:
            await replaced(both, follower)
            await both.produce(*grown)

        async with running(mirroring()) as mirror:
            await until(lambda: both.copy_is("a", "b", "lost"))
            if is_running:
                await lose()
                await stopped(mirror)
        if not is_running:
            await lose()
        # Another worker stops as well: nothing of this depends on what one has in memory.
        async with running(mirroring()) as mirror:
            error = await stopped(mirror)
            assert error.kind == "truncated"
            for part in (
                "partition t-0 was truncated at the source to offset 2",
                "had read up to offset 3",
                "--to-offset 2",
                f"{GROUP} --topic a.t:0",
            ):
                assert part in error.text, error.text
            assert await both.copy_is("a", "b", "lost")
        await both.begin_at(2)
        async with running(mirroring()):
            await both.produce("after")
            await until(lambda: both.copy_is("a", "b", "lost", *grown, "after"))


@pytest.mark.parametrize("is_running", [True, False], ids=["while it runs", "while it is stopped"])
@pytest.mark.parametrize("how", ["truncated", "recreated"])
async def test_heartbeats_have_nothing_to_lose_and_begin_again(
    how: str, is_running: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker of the source gets a new volume, or the topic is made again: no reason to look after the mirror."""
    async with clusters(monkeypatch) as both:
        source = both.source
        assert await source.create_topic("heartbeats", assignment=[[2, 1]]) == 0

        async def beat(*values: str) -> None:
            leader = source.leaders("heartbeats", seen_by=min(source.brokers))[0]
            for value in values:
                answer = await source.produce(leader, "heartbeats", 0, value.encode(), acks=-1)
                assert answer.error_code == 0

        async def shows(value: str) -> bool:
            async with both.client("b") as target:
                rows = (await committed(target, "a.heartbeats")).get(0, [])
            return bool(rows) and rows[-1][2] == value.encode()

        async def lose() -> None:
            if how == "truncated":
                await replaced(both, follower)
                await source.until(lambda: source.leaders("heartbeats", seen_by=follower) == [follower])
            else:
                async with both.client("a") as client:
                    await TopicAdmin(client).delete("heartbeats")
                    await TopicAdmin(client).create("heartbeats", partitions=1, replication_factor=1)
                await source.until(lambda: "heartbeats" in source.image(min(source.brokers)).topics)

        async with running(mirroring()) as mirror:
            await beat("1")
            follower = await without_the_follower(both)
            await beat("2", "3", "4")
            await until(lambda: shows("4"))
            if is_running:
                await lose()
                await beat("5")
                await until(lambda: shows("5"))
                assert not any(of.stopped for of in mirror.flows[0].counters.partitions.values())
        if not is_running:
            await lose()
            await beat("5")
            async with running(mirroring()) as mirror:
                await until(lambda: shows("5"))
                assert not any(of.stopped for of in mirror.flows[0].counters.partitions.values())


async def test_heartbeats_with_a_damaged_batch_stop_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """To begin again would lead to the same batch, with a rebalance each time."""
    async with clusters(monkeypatch) as both:
        assert await both.source.create_topic("heartbeats", assignment=[[2, 1]]) == 0
        async with running(mirroring()) as mirror:
            worker = mirror.flows[0]._worker
            await until(lambda: worker._copying is not None)
            worker.stop_partition(TopicPartition("heartbeats", 0), DAMAGED, "the batch at 3 is damaged")
            stopped = mirror.flows[0].counters.partitions[TopicPartition("heartbeats", 0)].stopped
            assert stopped is not None and stopped.kind == DAMAGED


async def with_an_isolated_leader(both: TwoWholeClusters) -> tuple[int, int]:
    """Isolate the leader from its cluster. Returns it, and its successor; clients still reach both."""
    source, first = both.source, await both.leader()
    second = 3 - first
    for host in (source.host(second), source.host(100)):
        source.network.part(source.host(first), host)
    store = source.stores[source.host(first)]
    store.sever()
    store.expire()
    await source.until(lambda: source.leaders("t", seen_by=second) == [second])
    return first, second


async def test_records_of_an_older_leader_do_not_hide_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first leader is isolated and writes one record. So does the second one, which is mirrored. Then the second
    one is lost, and the first one is elected with its own record at that offset.
    """
    async with clusters(monkeypatch) as both:
        source = both.source
        await both.produce("a")
        first, second = await with_an_isolated_leader(both)
        assert (await source.produce(first, "t", 0, b"never seen")).error_code == 0
        assert (await source.produce(second, "t", 0, b"lost")).error_code == 0
        await source.kill_broker(first)
        async with running(mirroring()) as mirror:
            await until(lambda: both.copy_is("a", "lost"))
            await source.kill_broker(second)
            await source.start_broker(first)
            assert await both.leader() == first
            error = await stopped(mirror)
            assert error.kind == "truncated"
            assert "its leader lacks the record before offset 2" in error.text
        await both.begin_at(1)
        async with running(mirroring()):
            await until(lambda: both.copy_is("a", "lost", "never seen"))


async def test_an_isolated_leader_is_no_truncated_log(monkeypatch: pytest.MonkeyPatch) -> None:
    async def _has_failed(counters: FlowCounters, kind: str) -> bool:
        return counters.errors[KEY, kind] > 0

    async with clusters(monkeypatch) as both:
        source = both.source
        await both.produce("a")
        _, second = await with_an_isolated_leader(both)
        await source.produce(second, "t", 0, b"b")
        async with running(mirroring()):
            await until(lambda: both.copy_is("a", "b"))
        # The next worker finds the old leader alone, which knows nothing of the epoch of its position.
        source.network.part("client", source.host(second))
        source.network.reset(source.host(second))
        async with running(mirroring()) as mirror:
            counters = mirror.flows[0].counters
            await until(lambda: _has_failed(counters, "UnknownTopicOrPartition"))
            source.network.heal()
            await source.produce(second, "t", 0, b"c")
            await until(lambda: both.copy_is("a", "b", "c"))
            assert counters.partitions[KEY].stopped is None


async def test_a_topic_made_again_while_it_is_mirrored_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    async with clusters(monkeypatch) as both, both.client("a") as source:
        await both.produce("a", "b")
        async with running(mirroring()) as mirror:
            await until(lambda: both.copy_is("a", "b"))
            await TopicAdmin(source).delete("t")
            await both.source.until(lambda: "t" not in both.source.image(1).topics)
            assert await both.source.create_topic("t", partitions=1, replicas=2) == 0
            await both.produce("x", "y", "z")
            error = await stopped(mirror)
            assert error.kind == "topic-recreated" and "deleted and created again" in error.text
            assert await both.copy_is("a", "b")
        await both.begin_at(0)
        async with running(mirroring()):
            await until(lambda: both.copy_is("a", "b", "x", "y", "z"))
