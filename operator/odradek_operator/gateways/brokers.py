"""Connections to the brokers of clusters: one client for each cluster, made when first asked for, closed when unused.

The caller decides what to do with a client: `Admin` for topics, configs and groups. Brokers' admin ports
are asked elsewhere: `/can-restart` and /metrics in `cluster_admin`, `/record-times` in `record_times`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from odradek.client.admin.admin import Admin
from odradek.client.client import Client
from odradek.client.errors import ConnectionFailed
from odradek.client.secured import https_context, secured_network

CLIENTS_MAX: Final = 64
REQUEST_TIMEOUT_MS: Final = 15_000
CONNECT_TIMEOUT_MS: Final = 5_000


class BrokerClients:
    """Clients by bootstrap address; at most CLIENTS_MAX, the one unused for longest goes first."""

    def __init__(self) -> None:
        self._clients: OrderedDict[str, Client] = OrderedDict()
        self._in_use: dict[str, int] = {}
        self._properties: dict[str, Mapping[str, str]] = {}
        self._https: dict[str, ssl.SSLContext | None] = {}
        self._lock = asyncio.Lock()

    async def secure(self, bootstrap: str, properties: Mapping[str, str]) -> None:
        """Connect to this address by Kafka's client properties from now on. They hold a key, and are never shown."""
        async with self._lock:
            if self._properties.get(bootstrap) == properties:
                return
            self._properties[bootstrap] = dict(properties)
            self._https[bootstrap] = pods_context(properties)
            former = self._clients.pop(bootstrap, None)
        if former is not None:
            await former.close()

    def https_context(self, bootstrap: str) -> ssl.SSLContext | None:
        """The TLS context for the HTTP ports of this cluster; None for those without TLS."""
        return self._https.get(bootstrap)

    @asynccontextmanager
    async def connect_client(self, bootstrap: str, *, is_secured: bool = False) -> AsyncIterator[Client]:
        """A connected client for the length of a block. Raises ConnectionFailed, ClientTimeout.

        One that `is_secured` needs properties: without them the Cluster's certificates are not there yet.
        """
        if is_secured and bootstrap not in self._properties:
            raise ConnectionFailed("the operator has no certificate for this Cluster yet")
        async with self._lock:
            client = self._clients.get(bootstrap)
            if client is None:
                client = Client(
                    bootstrap,
                    client_id="odradek-operator",
                    request_timeout_ms=REQUEST_TIMEOUT_MS,
                    connect_timeout_ms=CONNECT_TIMEOUT_MS,
                    network=secured_network(
                        self._properties.get(bootstrap, {}), client_id="odradek-operator"
                    ),
                )
                self._clients[bootstrap] = client
            self._clients.move_to_end(bootstrap)
            self._in_use[bootstrap] = self._in_use.get(bootstrap, 0) + 1
            await self._make_room()
        try:
            yield client
        finally:
            self._in_use[bootstrap] -= 1
            if not self._in_use[bootstrap]:
                del self._in_use[bootstrap]

    @asynccontextmanager
    async def connect_admin(self, bootstrap: str) -> AsyncIterator[Admin]:
        """The same, as an admin client."""
        async with self.connect_client(bootstrap) as client:
            yield Admin(client)

    async def close(self) -> None:
        while self._clients:
            _, client = self._clients.popitem()
            await client.close()

    async def _make_room(self) -> None:
        for bootstrap in list(self._clients):
            if len(self._clients) <= CLIENTS_MAX:
                return
            if bootstrap not in self._in_use:
                await self._clients.pop(bootstrap).close()


def pods_context(properties: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return the TLS context for the HTTP ports of a Cluster's pods, by its brokers' properties; None without TLS.

    Pods are asked by their addresses, which no certificate has. The authority has signed for the servers of this
    Cluster and for the operator, and for nothing else.
    """
    context = https_context(properties)
    if context is not None:
        context.check_hostname = False
    return context
