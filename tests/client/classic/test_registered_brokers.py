"""The addresses of brokers in ZooKeeper's registry, for clients that speak neither TLS nor SASL."""

from __future__ import annotations

import json
from typing import Any

import pytest

from odradek.client.classic.brokers import find_registered_brokers
from odradek.client.classic.errors import NoBrokersForPartitionException
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.image import BrokerImage
from tests.support.memory_registry import MemoryRegistry, MemoryStore

SECURED = {"INTERNAL": ("broker", 9092)}
BOTH = SECURED | {"CLIENTS": ("broker", 9094)}
PROTOCOLS = {"INTERNAL": "SASL_SSL", "CLIENTS": "PLAINTEXT"}


def registered(endpoints: dict[str, tuple[str, int]], protocols: dict[str, str]) -> bytes:
    broker = BrokerImage(id=1, epoch=1, endpoints=endpoints, rack=None)
    return nodes.write_broker(broker, protocols=protocols, wall_ms=0)


async def addresses_of(*registrations: bytes) -> list[str]:
    store = MemoryStore(MemoryRegistry())
    for path in ("/brokers", paths.BROKER_IDS):
        await store.create(path)
    for number, data in enumerate(registrations):
        await store.create(paths.broker(number), data)
    return await find_registered_brokers(store, "PLAINTEXT")


async def test_the_listener_without_tls_and_login_is_taken_whatever_its_name_is() -> None:
    node = registered(BOTH, PROTOCOLS)
    assert await addresses_of(node) == ["broker:9094"]
    of_kafka: dict[str, Any] = json.loads(node)
    # Kafka's own consumers read these two, as Kafka writes them.
    assert (of_kafka["host"], of_kafka["port"]) == ("broker", 9094)


async def test_an_older_registration_has_host_and_port_alone() -> None:
    assert await addresses_of(b'{"host":"::1","port":9092}') == ["[::1]:9092"]
    assert await addresses_of(b'{"endpoints":["SSL://a:9093","PLAINTEXT://a:9092"]}') == ["a:9092"]


async def test_brokers_that_are_all_secured_are_named_as_such() -> None:
    node = registered(SECURED, PROTOCOLS)
    assert json.loads(node)["host"] is None
    with pytest.raises(
        NoBrokersForPartitionException, match=r"none of the 1 brokers .* has a listener of PLAINTEXT"
    ):
        await addresses_of(node)
    with pytest.raises(NoBrokersForPartitionException, match="no broker is registered"):
        await addresses_of()
