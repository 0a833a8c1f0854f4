"""Connecting says what is wrong: refused, unresolved, silent, another protocol, or broken off."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from odradek.client.client import Client
from odradek.client.errors import ClientTimeout, ConnectionFailed, UnsupportedByBroker
from odradek.foundation.errors import CoordinatorLoadInProgress
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.framing import parse_request_header
from tests.support.broker_process import free_port
from tests.support.stories import in_real_time

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def connect_to(serve: Serve, *, timeout_ms: int = 5_000) -> None:
    """Connect a client to a server that does `serve` with each connection."""

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, Client(f"127.0.0.1:{port}", connect_timeout_ms=timeout_ms):
            pass

    asyncio.run(main())


async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
    await writer.wait_closed()


def answering(data: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(data)
        await writer.drain()
        await reader.read()
        writer.close()

    return serve


def connect(bootstrap: str) -> None:
    async def main() -> None:
        async with Client(bootstrap, connect_timeout_ms=5_000):
            pass

    asyncio.run(main())


def test_refused() -> None:
    with pytest.raises(ConnectionFailed, match=r"nothing listens at 127.0.0.1:.*start a broker"):
        connect(f"127.0.0.1:{free_port()}")


def test_a_name_that_does_not_resolve() -> None:
    with pytest.raises(ConnectionFailed, match=r"'no-such-host.invalid' cannot be resolved"):
        connect("no-such-host.invalid:9092")


def test_every_address_is_tried_and_named() -> None:
    ports = [free_port(), free_port()]
    with pytest.raises(ConnectionFailed) as caught:
        connect(",".join(f"127.0.0.1:{port}" for port in ports))
    assert all(str(port) in str(caught.value) for port in ports)


@pytest.mark.parametrize(
    ("serve", "words"),
    [
        (answering(b"HTTP/1.1 400 Bad Request\r\n\r\n"), r"is an HTTP server, not a Kafka broker"),
        (answering(b"\x15\x03\x01\x00\x02\x02\x46"), r"expects TLS"),
        (answering(b"\xff" * 20), r"another protocol than Kafka's"),
        (closing, r"closed the connection without an answer"),
    ],
    ids=["http", "tls", "another", "closes"],
)
def test_what_is_no_broker_is_named(serve: Serve, words: str) -> None:
    with pytest.raises(ConnectionFailed, match=words):
        connect_to(serve)


def test_a_server_that_says_nothing() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    with pytest.raises(ClientTimeout, match=r"did not|not answer"):
        connect_to(silent, timeout_ms=200)


# --- a scripted broker ----------------------------------------------------------------------------------------------


class ScriptedBroker:
    """Answers ApiVersions and Metadata; everything else as `answer` says (None: close the connection)."""

    def __init__(
        self, answer: Callable[[int, int], dict[str, Any] | None], apis: dict[int, tuple[int, int]]
    ) -> None:
        self._answer = answer
        self._apis = {18: (0, 4), 3: (0, 12), **apis}
        self.port = 0
        self.brokers = [1]
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                header = parse_request_header(memoryview(await reader.readexactly(size)))
                fields = self._fields(header.api_key, header.api_version)
                if fields is None:
                    break
                message = messages.response(header.api_key, header.api_version, **fields)
                writer.write(
                    codec.encode_response(header.api_key, header.api_version, header.correlation_id, message)
                )
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    def _fields(self, api_key: int, version: int) -> dict[str, Any] | None:
        if api_key == 18:
            return {
                "error_code": 0,
                "api_keys": [
                    {"api_key": key, "min_version": low, "max_version": high}
                    for key, (low, high) in self._apis.items()
                ],
                "throttle_time": 0,
            }
        if api_key == 3:
            return {
                "throttle_time": 0,
                "brokers": [
                    {"node_id": number, "host": "127.0.0.1", "port": self.port, "rack": None}
                    for number in self.brokers
                ],
                "cluster_id": "c",
                "controller_id": 1,
                "topics": [],
            }
        return self._answer(api_key, version)


def with_scripted(broker: ScriptedBroker, work: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
        broker.port = server.sockets[0].getsockname()[1]
        async with server, Client(f"127.0.0.1:{broker.port}", request_timeout_ms=2_000) as client:
            await work(client)

    asyncio.run(main())


HEARTBEAT: dict[str, Any] = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}


@pytest.mark.parametrize(
    ("apis", "words"),
    [
        ({}, r"does not offer HEARTBEAT"),
        ({12: (5, 6)}, r"offers HEARTBEAT in the versions 5 to 6.*supports 1 to 4"),
    ],
)
def test_an_api_that_the_broker_lacks_or_has_in_other_versions(
    apis: dict[int, tuple[int, int]], words: str
) -> None:
    async def work(client: Client) -> None:
        connection = await client.any_broker()
        with pytest.raises(UnsupportedByBroker, match=words):
            await connection.request(ApiKey.HEARTBEAT, versions=(1, 4), **HEARTBEAT)

    with_scripted(ScriptedBroker(lambda *_: None, apis), work)


def test_the_newest_common_version_is_used() -> None:
    seen: list[int] = []

    def answer(api_key: int, version: int) -> dict[str, Any]:
        seen.append(version)
        return {"throttle_time": 0, "error_code": 0}

    async def work(client: Client) -> None:
        connection = await client.any_broker()
        await connection.request(ApiKey.HEARTBEAT, versions=(1, 4), **HEARTBEAT)

    with_scripted(ScriptedBroker(answer, {12: (0, 3)}), work)
    assert seen == [3]


def test_a_connection_that_breaks_fails_what_is_under_way_and_is_replaced() -> None:
    broker = ScriptedBroker(lambda *_: None, {12: (0, 4)})

    async def work(client: Client) -> None:
        connection = await client.any_broker()
        with pytest.raises(ConnectionFailed, match=r"was lost"):
            await connection.request(ApiKey.HEARTBEAT, versions=(1, 4), **HEARTBEAT)
        assert not connection.is_open
        assert (await client.any_broker()) is not connection

    with_scripted(broker, work)
    assert broker.connections == 2


def test_an_unreachable_advertised_address_is_explained() -> None:
    broker = ScriptedBroker(lambda *_: None, {})
    dead_port = free_port()

    async def work(client: Client) -> None:
        broker.port = dead_port
        await client.refresh(())
        with pytest.raises(ConnectionFailed, match=r"advertises: .*correct advertised.listeners"):
            await client.broker(1)

    with_scripted(broker, work)


@in_real_time
async def test_ipv6_loopback() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    broker = ScriptedBroker(lambda *_: None, {})
    try:
        server = await asyncio.start_server(broker.serve, "::1", 0)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    broker.port = server.sockets[0].getsockname()[1]
    async with server, Client(f"[::1]:{broker.port}") as client:
        assert client.cluster.cluster_id == "c"


def test_a_broker_that_came_later_is_found() -> None:
    """While it restarts it is in no picture of the cluster; what is asked of it then goes to it once it is back."""
    scripted = ScriptedBroker(lambda *_: None, {})

    async def work(client: Client) -> None:
        with pytest.raises(ConnectionFailed, match="broker 2 is not part of the cluster at the moment"):
            await client.broker(2)
        scripted.brokers = [1, 2]
        assert await client.broker(2)

    with_scripted(scripted, work)


def test_it_connects_on_uvloop_too() -> None:
    """Its transports are no subclasses of asyncio's; the operator's process runs on it."""
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        server = await asyncio.start_server(answering(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            with pytest.raises(ConnectionFailed, match="is an HTTP server"):
                async with Client(f"127.0.0.1:{port}", connect_timeout_ms=5_000):
                    pass

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize(("api_timeout_ms", "tries"), [(1, 1), (None, 2), (60_000, 2)])
def test_a_call_with_its_retries_has_a_time_of_its_own(api_timeout_ms: int | None, tries: int) -> None:
    tried: list[int] = []

    async def attempt() -> None:
        tried.append(1)
        if len(tried) == 1:
            raise CoordinatorLoadInProgress("not yet")

    client = Client("127.0.0.1:1", request_timeout_ms=60_000, api_timeout_ms=api_timeout_ms)
    with suppress(CoordinatorLoadInProgress):
        asyncio.run(client.with_retries(attempt))
    assert len(tried) == tries
