"""The coordinator of a transactional id moves at each step of a transaction, on a whole cluster in memory."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.foundation.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from odradek.foundation.transaction_errors import ConcurrentTransactions
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.errors import codes_of
from tests.support.polling import eventually
from tests.support.whole_cluster import WholeCluster

BUSY = codes_of(ConcurrentTransactions, CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)
ENTRIES = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "replica.lag.time.max.ms": "3000",
}


class Story:
    """One producer of a cluster of three brokers, which asks again as clients do."""

    def __init__(self, cluster: WholeCluster) -> None:
        self.cluster = cluster

    def alive(self) -> int:
        return min(self.cluster.brokers)

    async def coordinator(self) -> int:
        """The broker that serves the id now."""

        async def look() -> int:
            answer = await self.cluster.ask(
                self.alive(), ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["tx"]
            )
            found = answer.coordinators[0]
            return -1 if int(found.error_code) else int(found.node_id)

        return await eventually("a coordinator", look, lambda found: found in self.cluster.brokers)

    async def ask(self, api: ApiKey, version: int, **fields: Any) -> Any:
        async def answer() -> Any:
            return await self.cluster.ask(await self.coordinator(), api, version, **fields)

        def is_served(answer: Any) -> bool:
            codes = {int(getattr(answer, "error_code", 0))}
            for one in getattr(answer, "results_by_transaction", ()):
                codes |= {
                    int(p.partition_error_code) for t in one.topic_results for p in t.results_by_partition
                }
            return not codes & BUSY

        return await eventually(f"{api.name} is served", answer, is_served)

    async def initialize(self) -> tuple[int, int]:
        answer = await self.ask(
            ApiKey.INIT_PRODUCER_ID, 5, transactional_id="tx", transaction_timeout=600_000
        )
        assert answer.error_code == 0, answer
        return answer.producer_id, answer.producer_epoch

    async def add(self, producer: tuple[int, int]) -> None:
        named = {"transactional_id": "tx", "producer_id": producer[0], "producer_epoch": producer[1]}
        topics = [{"name": "t", "partitions": [0, 1, 2]}]
        answer = await self.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN, 5, transactions=[{**named, "verify_only": False, "topics": topics}]
        )
        (one,) = answer.results_by_transaction
        assert {int(p.partition_error_code) for p in one.topic_results[0].results_by_partition} == {0}

    async def end(self, producer: tuple[int, int]) -> tuple[int, int]:
        answer = await self.ask(
            ApiKey.END_TXN,
            5,
            transactional_id="tx",
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=True,
        )
        assert answer.error_code == 0, answer
        return answer.producer_id, answer.producer_epoch

    async def state(self) -> str:
        answer = await self.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["tx"])
        return str(answer.transaction_states[0].transaction_state)

    async def move(self, *, crash: bool) -> None:
        """Take the coordinator away, and bring the broker back once another one serves the id."""
        home = await self.coordinator()
        await (self.cluster.kill_broker(home) if crash else self.cluster.stop_broker(home))
        assert await self.coordinator() != home
        await self.cluster.start_broker(home)


@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "crashed"])
async def test_a_transaction_goes_on_where_its_coordinator_moves_at_each_step(crash: bool) -> None:
    cluster = await WholeCluster.start(brokers=3, controllers=1, entries=ENTRIES)
    assert await cluster.create_topic("t", partitions=3, replicas=3) == 0
    one = Story(cluster)
    producer = await one.initialize()
    await one.move(crash=crash)
    await one.add(producer)
    await one.move(crash=crash)
    assert await one.state() == "Ongoing"
    following = await one.end(producer)
    assert following == (producer[0], producer[1] + 1)
    await one.move(crash=crash)
    assert await one.end(producer) == following, "a retry at the next coordinator"
    assert await one.state() == "CompleteCommit"
    await one.move(crash=crash)
    await one.add(following)
    assert await one.end(following) == (producer[0], producer[1] + 2)
