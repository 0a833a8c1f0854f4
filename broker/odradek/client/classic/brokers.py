"""Where a client finds its brokers: a list of addresses, or ZooKeeper's registry (`/brokers/ids/[0...N]`)."""

from __future__ import annotations

import json
from typing import Any

from odradek.client.classic.errors import InvalidConfigException, NoBrokersForPartitionException
from odradek.client.classic.properties import Properties
from odradek.client.properties import PLAINTEXT
from odradek.metadata.registry.registries import open_registry
from odradek.metadata.registry.store import Store, children_or_none

BROKER_IDS = "/brokers/ids"


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
        return ",".join(await find_registered_brokers(store, properties.security.protocol))
    except BaseException:
        await store.close()
        raise


async def open_session(properties: Properties) -> Store:
    """A session of its own with ZooKeeper. Raises StoreConnectionLost, SettingError."""
    names = ("zookeeper.session.timeout.ms", "zookeeper.connection.timeout.ms")
    return await open_registry(
        f"zookeeper:{properties['zookeeper.connect']}",
        entries={name: str(properties[name]) for name in names} | properties.security.zookeeper,
    )


async def find_registered_brokers(store: Store, protocol: str) -> list[str]:
    """The addresses of this security protocol, of the brokers that are up.

    Raises NoBrokersForPartitionException for none.
    """
    names = await children_or_none(store, BROKER_IDS)
    nodes = await store.get_many([f"{BROKER_IDS}/{name}" for name in names])
    there = [node for node in nodes if node is not None]
    addresses = [address for node in there for address in _addresses(node.data, protocol)]
    if not there:
        raise NoBrokersForPartitionException(
            "no broker is registered in ZooKeeper below /brokers/ids; check zookeeper.connect and its chroot"
        )
    if not addresses:
        raise NoBrokersForPartitionException(
            f"none of the {len(there)} brokers in ZooKeeper has a listener of {protocol}; set security.protocol to "
            f"that of a listener, or give brokers one with {protocol}"
        )
    return addresses


def without_ids(brokers: str) -> str:
    """`HOST:PORT,…`, also of 0.7's `ID:HOST:PORT,…`."""
    addresses = []
    for part in brokers.split(","):
        number, colon, rest = part.strip().partition(":")
        addresses.append(rest if colon and number.isdecimal() and rest.count(":") == 1 else part.strip())
    return ",".join(addresses)


def _addresses(data: bytes, protocol: str) -> list[str]:
    """Of a registration: its endpoints of this protocol, else the host and port of before 0.9."""
    try:
        node: Any = json.loads(data)
        protocols: dict[str, str] = node.get("listener_security_protocol_map") or {}
        found = []
        for endpoint in node.get("endpoints") or ():
            listener, _, address = str(endpoint).partition("://")
            if protocols.get(listener, listener) == protocol:
                found.append(address)
        if not found and protocol == PLAINTEXT and node.get("host") and int(node.get("port", -1)) > 0:
            host = str(node["host"])
            found.append(f"[{host}]:{node['port']}" if ":" in host else f"{host}:{node['port']}")
    except (ValueError, AttributeError, TypeError):
        return []
    return found
