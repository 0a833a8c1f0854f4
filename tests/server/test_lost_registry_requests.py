"""Starts of brokers and controllers during which the registry loses one request, its answer, or the session.

Each request of a start is the lost one in turn. Whether a write was done is then unknown, so it must do no harm twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from odradek.foundation.registry_errors import StoreConnectionLost, StoreError, StoreSessionExpired
from odradek.metadata.registry.node_tree import Answer
from odradek.metadata.registry.store import SessionState
from tests.support.memory_registry import MemoryRegistry, MemoryStore
from tests.support.whole_cluster import SESSION_SECONDS, WholeCluster

pytestmark = pytest.mark.thorough

SILENCE_SECONDS = 1.0


class LosingStore(MemoryStore):
    """Request number `lost` is lost.

    By `what`, the connection ends before the request is done ("request") or before its answer ("answer"). Or the
    session ends with the answer ("session"), or it seems to end and its nodes live on for its timeout ("nodes").
    """

    def __init__(
        self, registry: MemoryRegistry, *, lost: int, what: str, session_timeout_seconds: float
    ) -> None:
        super().__init__(registry, session_timeout_seconds=session_timeout_seconds)
        self.requests = 0
        self._lost = lost
        self._what = what

    async def _read(self, work: Callable[[], Answer]) -> Answer:
        self.requests += 1
        if self.requests != self._lost:
            return await super()._read(work)
        if self._what != "request":
            with suppress(StoreError):
                await super()._read(work)
        raise self._lose()

    def _lose(self) -> StoreError:
        loop = asyncio.get_running_loop()
        if self._what == "session":
            self.expire()
            return StoreSessionExpired("the session ended with the answer")
        if self._what == "nodes":
            loop.call_later(SESSION_SECONDS, self.registry.end, self.session_id)
            self._listeners.change(SessionState.EXPIRED)
            return StoreSessionExpired("the session ended with the answer")
        self.sever()
        loop.call_later(SILENCE_SECONDS, self.mend)
        return StoreConnectionLost("the connection ended with the request")


def lose(cluster: WholeCluster, request: int, what: str) -> None:
    """The next process of the cluster loses that request, counted from 1."""
    cluster.make_store = partial(LosingStore, lost=request, what=what)


def requests_at(cluster: WholeCluster, host: str) -> int:
    """How many requests the process there has sent."""
    store = cluster.stores[host]
    assert isinstance(store, LosingStore)
    return store.requests


@pytest.mark.parametrize("what", ["request", "answer", "session", "nodes"])
async def test_a_broker_starts_whichever_request_it_loses(what: str) -> None:
    cluster = await WholeCluster.start(brokers=0, controllers=1)
    lost, sent = 0, 1
    while lost < sent:
        lost += 1
        lose(cluster, lost, what)
        async with asyncio.timeout(SESSION_SECONDS / 2):
            broker = await cluster.start_broker(lost)
        sent = requests_at(cluster, cluster.host(lost))
        assert not broker.control.membership.is_fenced
        assert cluster.image(lost).brokers[lost].epoch == broker.control.membership.epoch
        if what == "nodes":
            await asyncio.sleep(SESSION_SECONDS + 1)
            assert not broker.control.membership.is_fenced
    assert lost > 8
    assert not cluster.refused


@pytest.mark.parametrize("what", ["request", "answer", "session", "nodes"])
async def test_a_controller_starts_and_decides_whichever_request_it_loses(what: str) -> None:
    async def requests_of_a_start(lost: int) -> int:
        cluster = WholeCluster({}, seed=lost)
        lose(cluster, lost, what)
        await cluster.start_controller(100)
        await cluster.until(lambda: cluster.active is not None, seconds_max=SESSION_SECONDS)
        sent = requests_at(cluster, cluster.host(100))
        if what == "nodes":
            await asyncio.sleep(SESSION_SECONDS + 1)
            assert cluster.active is not None
        await cluster.start_broker(1)
        assert await cluster.create_topic("t") == 0
        await cluster.stop()
        return sent

    lost = 1
    while lost <= await requests_of_a_start(lost):
        lost += 1
    assert lost > 8
