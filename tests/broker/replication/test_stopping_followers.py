"""A follower that the controller does not take into the in-sync set, as one that is about to stop."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from odradek.metadata.controller import leader_election
from tests.support.loop import run
from tests.support.replicas import ReplicaCluster, follower_states


@pytest.mark.thorough
async def test_it_is_proposed_regularly_and_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    cluster = await ReplicaCluster.start(brokers=3, partitions=5, replicas=(1, 2, 3))
    cluster.stopping.add(2)
    cluster._change(lambda state: leader_election.before_shutdown(state, 2, live={1, 3}))
    await cluster.until(lambda: all(state.isr == (1, 3) for state in cluster.states))
    cluster.proposals.clear()
    caplog.clear()
    began = asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() < began + 4:
        for index in range(5):
            assert (await cluster.produce(1, b"v", index=index)).error_code == 0
    proposed = sum(2 in proposal.isr for _, proposal in cluster.proposals)
    assert 5 <= proposed <= 5 * 10, "each partition's twice a second"
    lines = [one for one in caplog.messages if "not taken" in one]
    assert 0 < len(lines) < proposed
    # It continues after all, as after a new controller's election.
    cluster.stopping.clear()
    await cluster.until(lambda: all(2 in state.isr for state in cluster.states))


async def test_as_another_registration_it_is_proposed_at_once() -> None:
    cluster = await ReplicaCluster.start(brokers=2, replicas=(1, 2))
    follower = follower_states(cluster.nodes[1].partition()).known[2]
    now = cluster.nodes[1].clock.monotonic_seconds()
    follower.back_off(now=now)
    assert follower.is_backing_off(now=now)
    follower.broker_epoch += 1
    assert not follower.is_backing_off(now=now)


def test_a_fault_in_asking_ends_nothing() -> None:
    async def story() -> None:
        async with ReplicaCluster(brokers=2, replica_lag_time_max_ms="1000") as cluster:
            await cluster.create_topic(replicas=(1, 2))
            alter_partition, faults = cluster.alter_partition, 2

            async def fail_at_first(node: Any, proposals: Any) -> Any:
                nonlocal faults
                faults -= 1
                if faults >= 0:
                    raise ZeroDivisionError("a fault of ours")
                return await alter_partition(node, proposals)

            cluster.alter_partition = fail_at_first  # type: ignore[method-assign]
            cluster.disconnect(1, 2)
            await cluster.produce(1, b"v", acks=1)
            await cluster.until(lambda: cluster.states[0].isr == (1,))
            cluster.heal()
            await cluster.until(lambda: cluster.states[0].isr == (1, 2))

    run(story())
