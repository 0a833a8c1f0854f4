"""SimpleConsumer for programs without an event loop: each call runs in the thread that makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.client.classic.message_sets import ByteBufferMessageSet
from odradek.client.classic.simple_consumer import FetchRequest
from odradek.client.classic.simple_consumer import SimpleConsumer as AsyncSimpleConsumer
from odradek.client.own_loops import CallerLoop
from odradek.network.network import Network


class SimpleConsumer:
    """`with SimpleConsumer("127.0.0.1", 9092) as consumer: for message in consumer.fetch(request): …`.

    As `odradek.classic.aio.SimpleConsumer`, and several threads may share it. It connects with the first call, and
    again when the connection is lost.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        so_timeout_ms: int = 30_000,
        client_id: str = "odradek",
        fetch_wait_ms_max: int = 0,
        fetch_bytes_min: int = 1,
        is_read_committed: bool = False,
        properties: Mapping[str, object] | None = None,
        network: Network | None = None,
    ) -> None:
        self._consumer = AsyncSimpleConsumer(
            host,
            port,
            so_timeout_ms=so_timeout_ms,
            client_id=client_id,
            fetch_wait_ms_max=fetch_wait_ms_max,
            fetch_bytes_min=fetch_bytes_min,
            is_read_committed=is_read_committed,
            properties=properties,
            network=network,
        )
        self._loop = CallerLoop(f"a SimpleConsumer of {host}:{port}")

    def __enter__(self) -> SimpleConsumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if not self._loop.is_closed:
            self._loop.run(self._consumer.close)
            self._loop.close()

    def fetch(self, request: FetchRequest) -> ByteBufferMessageSet:
        """The messages from one offset on. Raises OutOfRangeException, NotLeaderOrFollower, ConnectionFailed, …"""
        return self._loop.run(lambda: self._consumer.fetch(request))

    def multifetch(self, requests: Sequence[FetchRequest]) -> list[ByteBufferMessageSet]:
        """One message set for each request, in their order; see the asyncio face."""
        return self._loop.run(lambda: self._consumer.multifetch(requests))

    def get_offsets_before(
        self, topic: str, partition: int, time: int, max_num_offsets: int = 1
    ) -> list[int]:
        """Up to `max_num_offsets` offsets, descending; see the asyncio face."""
        return self._loop.run(
            lambda: self._consumer.get_offsets_before(topic, partition, time, max_num_offsets)
        )
