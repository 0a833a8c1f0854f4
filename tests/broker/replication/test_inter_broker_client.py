"""The connections that fetchers use: to the address that the image names, replaced when lost or when a broker
returned."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from odradek.broker.replication.broker_transport import MessageRequest
from odradek.broker.replication.inter_broker_client import InterBrokerClient, InterBrokerClientPool
from odradek.foundation.errors import BrokerNotAvailable, FrameError, RequestTimedOut
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.image.image import BrokerImage, ClusterImage, ImageHolder
from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from tests.support.network import ChangesAfterConnect
from tests.support.whole_broker import WholeBroker


def _images(broker: WholeBroker, epoch: int = 1, listener: str = "PLAINTEXT") -> ImageHolder:
    address = ("broker.test", broker.broker.listeners[0].port)
    return ImageHolder(ClusterImage(brokers={1: BrokerImage(1, {listener: address}, None, epoch)}))


def _client(broker: WholeBroker, images: ImageHolder, **entries: str) -> InterBrokerClient:
    settings = Settings({key.replace("_", "."): value for key, value in entries.items()})
    return InterBrokerClient(
        images=images,
        network=broker.network.at("follower.test"),
        client_id="broker-2",
        current_settings=lambda: settings,
    )


async def _ask(client: InterBrokerClient) -> int:
    request = MessageRequest(ApiKey.METADATA, 9, messages.request(ApiKey.METADATA, 9, topics=[]))
    return len((await client.send(1, request)).brokers)


async def test_lost_connections_and_returned_brokers_get_new_ones() -> None:
    broker = await WholeBroker.start()
    images = _images(broker)
    client = _client(broker, images)
    assert await _ask(client) == 1 and await _ask(client) == 1
    assert len(broker.network.connections) == 2, "one connection has two ends"
    broker.network.reset("broker.test")
    await asyncio.sleep(1)
    assert await _ask(client) == 1
    before = list(broker.network.connections)
    returned = images.current.brokers[1]._replace(epoch=2)
    images.replace(replace(images.current, brokers={1: returned}))
    assert await _ask(client) == 1
    assert not set(before) & set(broker.network.connections)
    await client.close()


async def test_an_unreachable_broker_is_named_in_the_error() -> None:
    broker = await WholeBroker.start()
    with pytest.raises(BrokerNotAvailable, match="not registered"):
        await _ask(_client(broker, ImageHolder()))
    with pytest.raises(BrokerNotAvailable, match="has no listener PLAINTEXT"):
        await _ask(_client(broker, _images(broker, listener="EXTERNAL")))
    named = _client(broker, _images(broker, listener="INSIDE"), replica_socket_timeout_ms="500")
    with pytest.raises(BrokerNotAvailable):
        await _ask(named)
    parted = _client(broker, _images(broker), replica_socket_timeout_ms="500")
    assert await _ask(parted) == 1
    broker.network.part("follower.test", "broker.test")
    with pytest.raises(RequestTimedOut):
        await _ask(parted)
    with pytest.raises(TimeoutError, match=r"broker.test:\d+ answered nothing within 500 ms"):
        await _ask(parted)
    broker.network.heal()
    assert await _ask(parted) == 1
    await parted.close()


class _Unreadable(NamedTuple):
    """A request whose answer makes its reader fail."""

    request: MessageRequest
    failure: Exception

    def pack(self, correlation_id: int, client_id: str) -> bytes:
        return self.request.pack(correlation_id, client_id)

    def parse(self, frame: memoryview) -> None:
        raise self.failure


@pytest.mark.parametrize(
    "failure",
    [ValueError("30000 is no error"), KeyError(7), OverflowError("too long"), FrameError("damaged")],
)
async def test_an_unreadable_answer_is_a_frame_error_and_ends_the_connection(
    failure: Exception,
) -> None:
    broker = await WholeBroker.start()
    client = _client(broker, _images(broker))
    assert await _ask(client) == 1
    before = set(broker.network.connections)
    asked = MessageRequest(ApiKey.METADATA, 9, messages.request(ApiKey.METADATA, 9, topics=[]))
    with pytest.raises(
        FrameError, match=str(failure) if isinstance(failure, FrameError) else "cannot be read"
    ):
        await client.send(1, _Unreadable(asked, failure))
    assert await _ask(client) == 1
    assert not before & set(broker.network.connections)
    await client.close()


async def test_each_number_has_a_client_of_its_own() -> None:
    broker = await WholeBroker.start()
    images = _images(broker)
    clients = InterBrokerClientPool(lambda: _client(broker, images))
    for number in (0, 1, 0):
        assert await _ask(clients.client(number)) == 1
    assert len(broker.network.connections) == 4
    await clients.close()
    await asyncio.sleep(1)
    assert not broker.network.connections


DEAD = {"PLAINTEXT": ("dead.test", 9092)}


def _change(images: ImageHolder, **changes: Any) -> None:
    """Another registration of broker 1 becomes known."""
    registration = images.current.brokers[1]._replace(**changes)
    images.replace(replace(images.current, brokers={**images.current.brokers, 1: registration}))


async def test_an_attempt_to_reach_a_dead_host_is_given_up_on_demand() -> None:
    broker = await WholeBroker.start()
    images = _images(broker)
    broker.network.part("follower.test", "dead.test")
    _change(images, endpoints=DEAD)
    client = _client(broker, images)
    asking = asyncio.create_task(_ask(client))
    await asyncio.sleep(1)
    client.interrupt(1)
    with pytest.raises(ConnectionError, match=r"dead.test:9092 was cancelled"):
        await asking
    await client.close()


async def test_an_old_address_is_given_up_when_a_broker_returns() -> None:
    broker = await WholeBroker.start()
    images = _images(broker)
    here = images.current.brokers[1].endpoints
    broker.network.part("follower.test", "dead.test")
    _change(images, endpoints=DEAD)
    client = _client(broker, images)
    asking = asyncio.create_task(_ask(client))
    await asyncio.sleep(1)
    images.replace(
        replace(images.current, brokers={**images.current.brokers, 2: BrokerImage(2, DEAD, None, 5)})
    )
    await asyncio.sleep(1)
    assert not asking.done(), "another broker has nothing to do with it"
    returned_at = asyncio.get_running_loop().time()
    _change(images, endpoints=here, epoch=2)
    with pytest.raises(ConnectionError, match=r"dead.test:9092 was cancelled"):
        await asking
    assert asyncio.get_running_loop().time() == returned_at
    assert await _ask(client) == 1
    await client.close()


@pytest.mark.parametrize("is_back", [True, False])
async def test_a_request_to_an_ended_registration_waits_no_longer(is_back: bool) -> None:
    """The host lost power: no answer comes, and no reset either. It may be back at the same address."""
    broker = await WholeBroker.start()
    images = _images(broker)
    client = _client(broker, images)
    assert await _ask(client) == 1
    broker.network.part("follower.test", "broker.test")
    asking = asyncio.create_task(_ask(client))
    await asyncio.sleep(1)
    ended_at = asyncio.get_running_loop().time()
    if is_back:
        _change(images, epoch=2)
    else:
        images.replace(replace(images.current, brokers={}))
    with pytest.raises(ConnectionError):
        await asking
    assert asyncio.get_running_loop().time() == ended_at
    broker.network.heal()
    if not is_back:
        with pytest.raises(BrokerNotAvailable):
            await _ask(client)
        images.replace(_images(broker, epoch=3).current)
    assert await _ask(client) == 1
    await client.close()


async def test_a_connection_made_as_a_registration_ends_is_not_used() -> None:
    broker = await WholeBroker.start()
    images = _images(broker)
    client = _client(broker, images)
    client._network = ChangesAfterConnect(
        broker.network, "follower.test", [lambda: _change(images, epoch=2), lambda: None]
    )
    with pytest.raises(ConnectionError, match=r"no longer registered as it was at broker\.test"):
        await _ask(client)
    assert await _ask(client) == 1
    await asyncio.sleep(1)
    assert len(broker.network.connections) == 2, "the first connection is closed"
    await client.close()


async def test_requests_that_begin_at_once_share_a_connection() -> None:
    broker = await WholeBroker.start()
    client = _client(broker, _images(broker))
    assert await asyncio.gather(*(_ask(client) for _ in range(3))) == [1, 1, 1]
    assert len(broker.network.connections) == 2, "one connection has two ends"
    await client.close()
    await asyncio.sleep(1)
    assert not broker.network.connections
