"""A source and a target of a mirror in the test's own process, on virtual time."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from odradek.cli.groups.group_resets import apply_resets, plan_resets
from odradek.client.admin.group_resets import Reset
from odradek.client.client import Client
from odradek.mirror import flow, mirror
from odradek.mirror.settings import ClusterSettings
from tests.support.mirroring import committed, entries
from tests.support.whole_cluster import PORT, WholeCluster

GROUP = "odradek-mirror.mirror.a"
# One broker has no place for more, and few partitions start sooner.
SMALL = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class TwoWholeClusters:
    """A source of two brokers, whose elections may be unclean, and a target of one."""

    def __init__(self, source: WholeCluster, target: WholeCluster) -> None:
        self.source = source
        self.target = target

    def client(self, alias: str) -> Client:
        """A client of the source, `a`, or of the target, `b`, whatever broker of it runs."""
        cluster = {"a": self.source, "b": self.target}[alias]
        hosts = [f"node-{number}-{start}.test:{PORT}" for start in range(1, 4) for number in (1, 2)]
        return Client(
            hosts,
            network=cluster.network.at("client"),
            request_timeout_ms=2_000,
            connect_timeout_ms=500,
            random=random.Random(1),
        )

    async def leader(self) -> int:
        """The broker that leads the only partition, once one of those that run does."""
        await self.source.until(lambda: self._leader() in self.source.brokers)
        return self._leader()

    def _leader(self) -> int:
        return self.source.leaders("t", seen_by=min(self.source.brokers))[0]

    async def produce(self, *values: str) -> None:
        """Write records, one batch each, to whichever broker leads."""
        leader = await self.leader()
        for value in values:
            answer = await self.source.produce(leader, "t", 0, value.encode(), acks=-1)
            assert answer.error_code == 0, answer

    async def copy_is(self, *values: str) -> bool:
        """Whether readers of the target see exactly these records. Raises AssertionError once they cannot any more."""
        async with self.client("b") as target:
            rows = (await committed(target, "a.t")).get(0, [])
        found = [(value or b"").decode() for _, _, value, _ in rows]
        assert found == list(values)[: len(found)], found
        return len(found) == len(values)

    async def begin_at(self, offset: int) -> None:
        """As an operator does after the error: all workers are stopped."""
        async with self.client("b") as target:
            await apply_resets(target, await plan_resets(target, GROUP, ["a.t:0"], Reset("offset", offset)))


@asynccontextmanager
async def clusters(patch: pytest.MonkeyPatch, *, partitions: int = 1) -> AsyncIterator[TwoWholeClusters]:
    """Both clusters, with the topic `t` on both brokers of the source."""
    settings = {"unclean.leader.election.enable": "true", **SMALL}
    source = await WholeCluster.start(brokers=2, controllers=1, entries=settings, seed=1)
    target = await WholeCluster.start(brokers=1, controllers=1, entries=SMALL, seed=2)
    both = TwoWholeClusters(source, target)

    def client_of(cluster: ClusterSettings) -> Client:
        return both.client(cluster.alias)

    patch.setattr(flow, "client_of", client_of)
    patch.setattr(mirror, "client_of", client_of)
    # Clients ask broker 1 first. Isolated while it leads, it would show them a cluster of the past for ever.
    placed = [[2 - number % 2, 1 + number % 2] for number in range(partitions)]
    assert await source.create_topic("t", assignment=placed) == 0
    yield both
    await source.stop()
    await target.stop()


def mirroring(**more: str) -> dict[str, str]:
    """The properties of a mirror of `t`."""
    return entries("unused:1", "unused:2", topics="t", **more)
