"""A broker's log says which clients it refused and why, and which client created a topic: a real process, and real
clients."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.wire.protocol.framing import request_header
from tests.support.broker_process import Broker
from tests.support.local_process import running
from tests.support.polling import wait_until

pytestmark = pytest.mark.integration

WAIT_SECONDS = 30


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("broker")
    settings = {"max.connections.per.ip.overrides": "127.0.0.2:0"}
    with running(Broker(folder, settings=settings)) as broker:
        yield broker


def _wait_for_line(broker: Broker, *words: str) -> str:
    def line() -> str:
        lines = broker.log().splitlines()
        return next((line for line in lines if all(word in line for word in words)), "")

    return wait_until(f"a line with {words}", line, more=broker.log)


def _ends(broker: Broker, talk: Callable[[socket.socket], None], *, source: str = "127.0.0.1") -> None:
    """Connect, talk, and wait until the broker ends the connection."""
    address = ("127.0.0.1", broker.port)
    with socket.create_connection(address, timeout=WAIT_SECONDS, source_address=(source, 0)) as connection:
        talk(connection)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""


def test_a_client_that_speaks_tls_is_told_of_with_what_to_do(broker: Broker) -> None:
    context = ssl.create_default_context()
    with (
        socket.create_connection(("127.0.0.1", broker.port), timeout=WAIT_SECONDS) as plain,
        pytest.raises((ssl.SSLError, OSError)),
    ):
        context.wrap_socket(plain, server_hostname="localhost")
    _wait_for_line(broker, "WARNING", "127.0.0.1", "begins a TLS handshake", "security.protocol=PLAINTEXT")


def test_a_client_that_speaks_http_is_told_of(broker: Broker) -> None:
    _ends(broker, lambda connection: connection.sendall(b"GET / HTTP/1.1\r\n\r\n"))
    _wait_for_line(broker, "WARNING", "speaks HTTP")


@pytest.mark.parametrize(
    ("api", "version", "words"),
    [
        (1, 3, ("FETCH version 3 is not served", "versions 4 to 18 are")),
        (22, 99, ("INIT_PRODUCER_ID version 99 is not served",)),
        (55, 0, ("DESCRIBE_QUORUM is not served",)),
    ],
)
def test_a_request_that_is_not_served_is_told_of_with_the_client(
    broker: Broker, api: int, version: int, words: tuple[str, ...]
) -> None:
    client = f"client-{api}"
    header = request_header(api_key=api, api_version=version, correlation_id=1, client_id=client)

    def talk(connection: socket.socket) -> None:
        connection.sendall(len(header).to_bytes(4, "big") + header)

    _ends(broker, talk)
    _wait_for_line(broker, "WARNING", f"(client '{client}')", *words)


def test_a_connection_beyond_a_limit_is_told_of(broker: Broker) -> None:
    _ends(broker, lambda connection: None, source="127.0.0.2")
    _wait_for_line(broker, "WARNING", "127.0.0.2", "max.connections.per.ip")


def test_topics_are_told_of_with_the_client_that_asked(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "client.id": "billing"})
    admin.create_topics([NewTopic("orders", 3, 1)])["orders"].result(WAIT_SECONDS)
    _wait_for_line(broker, "INFO", "topic orders was made for client 'billing' at 127.0.0.1: partitions=3")
    admin.delete_topics(["orders"])["orders"].result(WAIT_SECONDS)
    _wait_for_line(broker, "INFO", "topic orders was deleted for client 'billing' at 127.0.0.1")
