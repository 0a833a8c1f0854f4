"""A broker's way to the active controller, as that moves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.process.controller_channel import ControllerChannel
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.nodes import ControllerAddress
from odradek.network.outbound import OutboundConnection
from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from tests.support.network import ChangesAfterConnect
from tests.support.whole_broker import WholeBroker
from tests.support.whole_cluster import WholeCluster


async def test_a_silent_controller_is_left_as_soon_as_another_is_elected() -> None:
    cluster = await WholeCluster.start(brokers=1)
    first = cluster.active
    assert first is not None
    subscription = cluster.brokers[1].control.subscription
    # The broker has given its connection up and tries to make another when the next one is elected.
    cluster.network.part(cluster.host(1), cluster.host(first.id))
    cluster.network.reset(cluster.host(1))
    await asyncio.sleep(1)
    cluster.stores[cluster.host(first.id)].sever()
    await cluster.until(lambda: cluster.active is not None and cluster.active is not first)
    active = cluster.active
    assert active is not None and active.active_controller is not None
    term = active.active_controller.term.epoch
    await cluster.until(lambda: subscription.controller_epoch == term, seconds_max=1)
    cluster.network.heal()


class _Location:
    """Where the controller is, as a test says."""

    def __init__(self, address: ControllerAddress) -> None:
        self.address: ControllerAddress | None = address
        self._callbacks: list[Callable[[], None]] = []

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def note_answer(self) -> None:
        """It is there."""

    def change(self, address: ControllerAddress | None) -> None:
        self.address = address
        for callback in self._callbacks:
            callback()


async def _brokers(channel: ControllerChannel) -> int:
    """What a process that answers is asked here: how many brokers it knows."""

    async def exchange(connection: OutboundConnection) -> Any:
        asked = messages.request(ApiKey.METADATA, 9, topics=[])
        return await connection.send(ApiKey.METADATA, 9, asked, timeout_ms=25_000)

    answer = await channel.ask(exchange, is_refused=lambda _: False, wait_ms_max=25_000)
    return len(answer.brokers)


def _channel(network: Any, location: _Location) -> ControllerChannel:
    return ControllerChannel(location, network, client_id="test", rng=random.Random(1))  # type: ignore[arg-type]


def test_the_address_of_a_restarted_controller_is_another() -> None:
    first, second = (
        nodes.read_controller_address(
            paths.CONTROLLER,
            nodes.write_controller(1, wall_ms=0, identity=identity, host="host.test", port=9093),
        )
        for identity in ("1-a", "1-b")
    )
    assert first == ControllerAddress(1, "host.test", 9093, "1-a") != second


@pytest.mark.parametrize("is_seen_away", [True, False])
async def test_a_request_to_a_controller_that_restarted_is_sent_again(is_seen_away: bool) -> None:
    """Its host lost power, so no reset arrives, and it is active again at the same address."""
    process = await WholeBroker.start()
    first = ControllerAddress(1, "broker.test", process.broker.listeners[0].port, "1-a")
    location = _Location(first)
    channel = _channel(process.network.at("follower.test"), location)
    assert await _brokers(channel) == 1
    before = set(process.network.connections)
    process.network.part("follower.test", "broker.test")
    asking = asyncio.create_task(_brokers(channel))
    await asyncio.sleep(1)
    if is_seen_away:
        location.change(None)
    location.change(first._replace(identity="1-b"))
    await asyncio.sleep(0.1)
    assert not before & set(process.network.connections)
    process.network.heal()
    assert await asking == 1
    await channel.close()


async def test_a_connection_made_as_another_controller_is_elected_is_not_used() -> None:
    process = await WholeBroker.start()
    second = ControllerAddress(2, "broker.test", process.broker.listeners[0].port, "2-a")
    location = _Location(second._replace(id=1, identity="1-a"))
    network = ChangesAfterConnect(
        process.network, "follower.test", [lambda: location.change(second), lambda: None]
    )
    channel = _channel(network, location)
    assert await _brokers(channel) == 1
    assert not network.changes, "it has connected twice"
    await asyncio.sleep(1)
    assert len(process.network.connections) == 2, "the first connection is closed"
    await channel.close()
