"""Which broker is asked for the default numbers of a topic, where the cluster cannot choose them itself."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from odradek.client.addresses import Address
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.metadata import NO_LEADER, BrokerInfo, ClusterInfo
from odradek.foundation.errors import LeaderNotAvailable
from tests.support.loop import run


class Registering(Client):
    """A cluster whose brokers register while its metadata is asked for."""

    def __init__(self, *seen: ClusterInfo) -> None:
        super().__init__("127.0.0.1:9092")
        self._seen = list(seen)

    async def refresh(self, names: Sequence[str] | None, *, allow_creation: bool = False) -> ClusterInfo:
        self._cluster = self._seen.pop(0) if len(self._seen) > 1 else self._seen[0]
        return self._cluster


def seen(*ids: int, controller: int = NO_LEADER) -> ClusterInfo:
    brokers = {number: BrokerInfo(number, Address("127.0.0.1", 9092 + number), None) for number in ids}
    return ClusterInfo("cluster", controller, brokers)


def test_it_is_the_controller_or_a_broker_that_has_registered() -> None:
    async def asked(*pictures: ClusterInfo) -> int:
        client = Registering(*pictures)
        return await client.with_retries(TopicAdmin(client)._choose_broker)

    assert run(asked(seen(3, 4, controller=4))) == 4
    assert run(asked(seen(3, 4))) == 3
    assert run(asked(seen(), seen(controller=7), seen(7, 8, controller=8))) == 8


def test_without_brokers_it_says_so() -> None:
    async def asked() -> int:
        client = Registering(seen())
        return await client.with_retries(TopicAdmin(client)._choose_broker)

    with pytest.raises(LeaderNotAvailable, match="no broker of the cluster is registered at the moment"):
        run(asked())
