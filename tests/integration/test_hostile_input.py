"""Bytes from hostile clients: each costs one connection, and the broker keeps serving all others."""

from __future__ import annotations

import random
import resource
import socket
import struct
import time
from collections.abc import Iterator

import psutil
import pytest

from odradek.wire.protocol.api import ApiKey
from tests.integration.conftest import MakeBroker
from tests.support.broker_process import Broker
from tests.support.plain_client import PlainClient

pytestmark = pytest.mark.integration

IDLE_CONNECTIONS = 10_000
MEGABYTE = 1_000_000


def still_serves(broker: Broker) -> bool:
    with PlainClient(broker.port) as client:
        return int(client.ask(ApiKey.API_VERSIONS, 0).error_code) == 0


def resident(broker: Broker) -> int:
    size: int = psutil.Process(broker.pid).memory_info().rss
    return size


def send_and_drain(broker: Broker, data: bytes, *, wait_seconds: float = 0.5) -> bytes:
    """What comes back before the connection is closed, or falls silent."""
    answered = b""
    with socket.create_connection(("127.0.0.1", broker.port), 5) as connection:
        connection.settimeout(wait_seconds)
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                answered += part
        except (TimeoutError, ConnectionError):
            pass
    return answered


def test_wrong_sizes_and_headers_close_the_connection_only(make_broker: MakeBroker) -> None:
    broker = make_broker()
    before = resident(broker)
    for data in (
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 2**31 - 1) + b"x" * 1000,
        struct.pack(">i", 3) + b"abc",
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        struct.pack(">ihhih", 10, ApiKey.METADATA, 999, 1, -1),
        struct.pack(">ihhih", 10, -1, -1, 1, -1),
        struct.pack(">ihhih", 10, ApiKey.PRODUCE, 9, 1, 32767),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500,
    ):
        send_and_drain(broker, data)
        assert still_serves(broker)
    assert resident(broker) - before < 20 * MEGABYTE


def test_random_bytes_in_every_api_do_no_harm(make_broker: MakeBroker) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    broker = make_broker()
    with PlainClient(broker.port) as client:
        client.create_topic("victim")
        client.produce("victim", [b"kept"])
        served = [
            (one.api_key, one.min_version, one.max_version)
            for one in client.ask(ApiKey.API_VERSIONS, 0).api_keys
        ]
    before = resident(broker)
    for api_key, lowest, highest in served:
        for version in range(lowest, highest + 1):
            body = struct.pack(">hhih", api_key, version, 1, -1) + chance.randbytes(chance.randrange(200))
            send_and_drain(broker, struct.pack(">i", len(body)) + body, wait_seconds=0.05)
    assert still_serves(broker)
    with PlainClient(broker.port) as client:
        assert client.fetch_all("victim") == [b"kept"]
    assert resident(broker) - before < 60 * MEGABYTE
    assert broker.is_running


def test_a_reader_that_never_reads_is_bounded(make_broker: MakeBroker) -> None:
    """It asks for megabytes again and again and takes none: the broker must not pile up answers."""
    broker = make_broker()
    with PlainClient(broker.port) as client:
        client.create_topic("large")
        for _ in range(20):
            assert client.produce("large", [b"x" * 900_000])[0] == 0
        before = resident(broker)
        body = struct.pack(">hhih", ApiKey.FETCH, 4, 1, -1) + struct.pack(">iiiib", -1, 0, 1, 50_000_000, 0)
        body += struct.pack(">ih5siiqi", 1, 5, b"large", 1, 0, 0, 50_000_000)
        with socket.create_connection(("127.0.0.1", broker.port), 5) as slow:
            slow.setblocking(False)
            frame = struct.pack(">i", len(body)) + body
            sent = 0
            for _ in range(2000):
                try:
                    sent += slow.send(frame)
                except BlockingIOError:
                    break
            assert client.ask(ApiKey.API_VERSIONS, 0).error_code == 0
            time.sleep(0.5)  # what it would pile up, it has piled up now
            assert resident(broker) - before < 150 * MEGABYTE
            assert client.ask(ApiKey.API_VERSIONS, 0).error_code == 0


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for ten thousand sockets on this side."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = IDLE_CONNECTIONS + 2000
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"this user may open {hard} files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("many_files")
def test_ten_thousand_idle_connections_cost_bounded_memory(make_broker: MakeBroker) -> None:
    broker = make_broker()
    before = resident(broker)
    idle: list[socket.socket] = []
    try:
        for number in range(IDLE_CONNECTIONS):
            connection = socket.socket()
            # Ports of one source address run out: spread over several of the loopback's.
            connection.bind((f"127.0.0.{2 + number % 8}", 0))
            connection.connect(("127.0.0.1", broker.port))
            idle.append(connection)
        assert still_serves(broker)
        per_connection = (resident(broker) - before) / IDLE_CONNECTIONS
        print(f"{per_connection:.0f} bytes for each idle connection")
        assert per_connection < 15_000
        used = psutil.Process(broker.pid).cpu_times()
        time.sleep(1)
        now = psutil.Process(broker.pid).cpu_times()
        assert now.user + now.system - used.user - used.system < 0.3, "idle connections keep the broker busy"
    finally:
        for connection in idle:
            connection.close()
    assert still_serves(broker)
