"""The synchronous `Client`: it owns the thread whose loop runs all objects of the client."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from random import Random

from odradek.client.arguments import is_client_of
from odradek.client.client import Client as AsyncClient
from odradek.client.errors import ClientClosed
from odradek.client.metadata import ClusterInfo
from odradek.client.own_loops import EngineThread
from odradek.client.sync.faces import Face, blocking, reading
from odradek.foundation.words import kind_of
from odradek.network.network import Network


class Client(Face[AsyncClient]):
    """A cluster as a client sees it. `with Client("127.0.0.1:9092") as client:` connects and closes.

    As `odradek.Client`, for programs without an event loop: each call returns when it has its result. Several threads
    may share a client and all that is made with it. A thread of the client's own does its work. So a program that runs
    an event loop may use it too, but a call blocks that loop as any other function does.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        security: Mapping[str, str] | None = None,
        client_id: str = "odradek",
        request_timeout_ms: int = 30_000,
        api_timeout_ms: int | None = None,
        connect_timeout_ms: int = 10_000,
        metadata_age_ms_max: int = 300_000,
        network: Network | None = None,
        random: Random | None = None,
    ) -> None:
        inner = AsyncClient(
            bootstrap,
            security=security,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            api_timeout_ms=api_timeout_ms,
            connect_timeout_ms=connect_timeout_ms,
            metadata_age_ms_max=metadata_age_ms_max,
            network=network,
            random=random,
        )
        engine = EngineThread("odradek client", closed_error=ClientClosed)
        super().__init__(engine, inner)
        # A client that is not closed ends with its last user, or with the program.
        self._finalizer = weakref.finalize(self, engine.close, inner.close)

    def __enter__(self) -> Client:
        try:
            self.connect()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection, and end the client's thread. Calls that wait get ClientClosed."""
        self._finalizer()

    @property
    def cluster(self) -> ClusterInfo:
        """The cached metadata, without a request."""
        return self._read(lambda inner: inner.cluster)

    connect = blocking(AsyncClient.connect)
    topics = blocking(AsyncClient.topics)
    refresh = blocking(AsyncClient.refresh)
    leaders = blocking(AsyncClient.leaders)
    invalidate = reading(AsyncClient.invalidate)
    leader_epochs = reading(AsyncClient.leader_epochs)
    finalized_level = reading(AsyncClient.finalized_level)


def blocking_client_of(given: object, user: str) -> Client:
    """As `odradek.client.client.client_of`, for the synchronous form."""
    if isinstance(given, Client):
        return given
    if is_client_of(given, "odradek.client.client"):
        raise TypeError(
            f"odradek.sync.{user} takes a Client of odradek.sync, not one of asyncio; "
            "write: from odradek.sync import Client"
        )
    name = user.lower()
    raise TypeError(
        f"{user} takes a Client, not {kind_of(given)}; write: "
        f"with Client('127.0.0.1:9092') as client, {user}(client) as {name}:"
    )
