"""What a TLS connection costs in memory, also after it received much: a thousand of them are no tenth of a gigabyte."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from tests.support.broker_process import SecuredBroker
from tests.support.whole_broker import batch

pytestmark = pytest.mark.thorough

KIB_PER_CONNECTION_MAX = 100
CONNECTIONS = 100
# Before it counts, the process has what it needs once.
FIRST_CONNECTIONS = 20
VALUE_BYTES = 900_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SecuredBroker]:
    made = SecuredBroker(tmp_path, kinds={"CLIENTS": "SSL"})
    made.start()
    yield made
    assert made.stop() == 0


def test_a_connection_that_received_much_keeps_little(broker: SecuredBroker) -> None:
    context = ssl.create_default_context(cafile=str(broker.ca_file))
    request = large_request()
    opened: list[ssl.SSLSocket] = []
    try:
        while len(opened) < FIRST_CONNECTIONS:
            opened.append(used(broker, context, request))
        before = anonymous_kib(broker)
        while len(opened) < FIRST_CONNECTIONS + CONNECTIONS:
            opened.append(used(broker, context, request))
        each = (anonymous_kib(broker) - before) / CONNECTIONS
        print(f"{each:.1f} KiB for each connection")
        assert each < KIB_PER_CONNECTION_MAX
    finally:
        for one in opened:
            one.close()


def large_request() -> bytes:
    """A Produce of nearly a megabyte, to a topic that is not there."""
    records = [{"index": 0, "records": batch([b"x" * VALUE_BYTES])}]
    fields = messages.request(
        ApiKey.PRODUCE,
        9,
        transactional_id=None,
        acks=1,
        timeout=30_000,
        topic_data=[{"name": "missing", "partition_data": records}],
    )
    return codec.encode_request(ApiKey.PRODUCE, 9, 1, "test", fields)


def used(broker: SecuredBroker, context: ssl.SSLContext, request: bytes) -> ssl.SSLSocket:
    """A connection whose large request was answered."""
    connection = context.wrap_socket(
        socket.create_connection(("127.0.0.1", broker.port), 30), server_hostname="localhost"
    )
    connection.sendall(request)
    size = int.from_bytes(exactly(connection, 4), "big")
    answer = codec.decode_response(ApiKey.PRODUCE, 9, memoryview(exactly(connection, size)))[1]
    assert int(answer.responses[0].partition_responses[0].error_code) == 3, answer
    return connection


def exactly(connection: ssl.SSLSocket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        assert part, "the broker closed the connection"
        found += part
    return found


def anonymous_kib(broker: SecuredBroker) -> int:
    """Memory of the process that is in no file."""
    lines = Path(f"/proc/{broker.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
