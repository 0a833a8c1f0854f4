"""Where a client finds its brokers: a list of addresses, or ZooKeeper's registry (`/brokers/ids/[0...N]`)."""

from __future__ import annotations

import json
from typing import Any

from odradek.client.classic.errors import InvalidConfigException, NoBrokersForPartitionException
from odradek.client.classic.properties import Properties
from odradek.metadata.registry.registries import open_registry
from odradek.metadata.registry.store import Store, children_or_none

BROKER_IDS = "/brokers/ids"
_PLAINTEXT = "PLAINTEXT"


def check_one_source(properties: Properties) -> None:
    """Raises InvalidConfigException unless exactly one of broker.list and zk.connect is given, as in 0.7."""
    given = [name for name in ("metadata.broker.list", "zookeeper.connect") if properties[name]]
    if len(given) != 1:
        raise InvalidConfigException(
            "give either broker.list (metadata.broker.list) or zk.connect (zookeeper.connect), "
            f"not {'both' if given else 'neither'}"
        )


async def find_bootstrap(properties: Properties, store: Store | None) -> str:
    """Addresses with commas, from ZooKeeper if there is a session, which is closed without any.

    Raises NoBrokersForPartitionException.
    """
    if store is None:
        return without_ids(properties["metadata.broker.list"])
    try:
        return ",".join(await find_registered_brokers(store))
    except BaseException:
        await store.close()
        raise


async def open_session(properties: Properties) -> Store:
    """A session of its own with ZooKeeper. Raises StoreConnectionLost, SettingError."""
    names = ("zookeeper.session.timeout.ms", "zookeeper.connection.timeout.ms")
    return await open_registry(
        f"zookeeper:{properties['zookeeper.connect']}",
        entries={name: str(properties[name]) for name in names},
    )


async def find_registered_brokers(store: Store) -> list[str]:
    """The plaintext addresses of the brokers that are up. Raises NoBrokersForPartitionException for none."""
    names = await children_or_none(store, BROKER_IDS)
    nodes = await store.get_many([f"{BROKER_IDS}/{name}" for name in names])
    there = [node for node in nodes if node is not None]
    addresses = [address for node in there if (address := _address(node.data))]
    if not there:
        raise NoBrokersForPartitionException(
            "no broker is registered in ZooKeeper below /brokers/ids; check zookeeper.connect and its chroot"
        )
    if not addresses:
        raise NoBrokersForPartitionException(
            f"none of the {len(there)} brokers in ZooKeeper has a listener without TLS and login, which this client "
            "needs; give brokers one with the protocol PLAINTEXT"
        )
    return addresses


def without_ids(brokers: str) -> str:
    """`HOST:PORT,…`, also of 0.7's `ID:HOST:PORT,…`."""
    addresses = []
    for part in brokers.split(","):
        number, colon, rest = part.strip().partition(":")
        addresses.append(rest if colon and number.isdecimal() and rest.count(":") == 1 else part.strip())
    return ",".join(addresses)


def _address(data: bytes) -> str | None:
    """Of a registration: an endpoint without TLS and login, else its host and port (0.8)."""
    try:
        node: Any = json.loads(data)
        protocols = node.get("listener_security_protocol_map") or {}
        for endpoint in node.get("endpoints") or ():
            name, _, address = endpoint.partition("://")
            # Before listeners had names, the protocol was the name.
            if protocols.get(name, name) == _PLAINTEXT:
                return str(address)
        if node.get("host") and int(node.get("port", -1)) > 0:
            host = str(node["host"])
            return f"[{host}]:{node['port']}" if ":" in host else f"{host}:{node['port']}"
    except (ValueError, AttributeError, TypeError):
        return None
    return None
