"""TLS at a listener, over real sockets on asyncio's loop and on uvloop: bytes, certificates, half handshakes."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.foundation.settings.broker_settings import Settings
from odradek.network import handshake_turns
from odradek.network.connection import Connection
from odradek.network.flow_control import Admission
from odradek.network.listener import Listener
from odradek.network.login_bounds import LoginBounds
from odradek.network.network import SystemNetwork
from odradek.security.tls.listener import ListenerTls, listener_tls
from odradek.storage.files import FileSlice, SystemDisk
from tests.network.support import framed, started
from tests.support.certificates import Authority, Leaf
from tests.support.loops import on_each_loop

CA = Authority("Root")
SERVER = CA.leaf("broker")
ALICE = CA.leaf("alice")
STRANGER = Authority("Another root").leaf("alice")


def tls(**entries: str) -> ListenerTls:
    given = {
        "listeners": "CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": SERVER.key,
        "ssl.keystore.certificate.chain": SERVER.chain,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CA.pem,
        **{key.replace("_", "."): text for key, text in entries.items()},
    }
    return ListenerTls(listener_tls(Settings(given), "CLIENTS", is_sasl=False))


def listen(
    dispatch: Callable[[Connection, memoryview], Any], security: ListenerTls | None = None, **more: Any
) -> Listener:
    return Listener(
        name="CLIENTS",
        host="127.0.0.1",
        port=0,
        network=SystemNetwork(),
        dispatch=dispatch,
        admission=Admission(connections_max=2_000, connections_per_ip_max=2_000),
        tls=security or tls(),
        **more,
    )


def echo(connection: Connection, frame: memoryview) -> Any:
    return framed(bytes(frame))


def client_context(leaf: Leaf | None = None, *, folder: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=CA.pem)
    if leaf is not None:
        assert folder is not None
        context.load_cert_chain(leaf.write(folder / "client.pem"))
    return context


async def connect(
    listener: Listener, context: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = listener.addresses[0]
    return await asyncio.open_connection(
        host, port, ssl=context or client_context(), server_hostname="localhost"
    )


async def frame_of(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return await reader.readexactly(size)


@on_each_loop
async def test_frames_of_all_sizes_are_echoed() -> None:
    listener = await started(listen(echo))
    reader, writer = await connect(listener)
    bodies = [os.urandom(size) for size in (0, 1, 100, 16_384, 65_535, 65_536, 200_000, 3_000_000, 5)]
    writer.write(b"".join(map(framed, bodies)))
    assert [await frame_of(reader) for _ in bodies] == bodies
    writer.close()
    await listener.close()
    assert not listener.connections


@on_each_loop
async def test_a_client_that_does_not_read_holds_bounded_memory() -> None:
    listener = await started(listen(lambda connection, frame: framed(bytes(50_000))))
    reader, writer = await connect(listener)
    writer.write(framed(b"x") * 400)
    for _ in range(50):
        await asyncio.sleep(0)
    (connection,) = listener.connections
    held = connection._transport.get_write_buffer_size()
    assert held < 4_000_000
    for _ in range(400):
        assert len(await frame_of(reader)) == 50_000
    assert connection.requests == 400
    writer.close()


@on_each_loop
async def test_no_byte_of_a_file_leaves_in_clear(tmp_path: Path) -> None:
    """A slice that the kernel would send to a plain socket: what is on the wire is looked at."""
    secret = b"the record's value" * 20_000
    (tmp_path / "segment").write_bytes(secret)
    file = SystemDisk().open(str(tmp_path / "segment"))
    header = len(secret).to_bytes(4, "big")
    listener = await started(
        listen(lambda connection, frame: [header, FileSlice(file, 0, len(secret))], sendfile=True)
    )
    wire = bytearray()
    loop = asyncio.get_running_loop()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.socket() as opened:
        opened.setblocking(False)
        await loop.sock_connect(opened, listener.addresses[0])

        async def step(call: Callable[[], Any]) -> Any:
            while True:
                try:
                    result = call()
                except ssl.SSLWantReadError:
                    result = None
                if outgoing.pending:
                    await loop.sock_sendall(opened, outgoing.read())
                if result is not None:
                    return result
                data = await loop.sock_recv(opened, 65_536)
                assert data
                wire.extend(data)
                incoming.write(data)

        def shake_hands() -> bool:
            client.do_handshake()
            return True

        await step(shake_hands)
        await step(lambda: client.write(framed(b"fetch")))
        clear = bytearray()
        while len(clear) < len(secret) + 4:
            clear += await step(lambda: client.read(65_536))
    assert bytes(clear[4:]) == secret
    assert len(wire) > len(secret)
    assert b"record's" not in wire
    await listener.close()
    file.close()


@pytest.mark.parametrize(
    ("auth", "leaf", "principal"),
    [
        ("none", None, "User:ANONYMOUS"),
        ("none", ALICE, "User:ANONYMOUS"),
        ("requested", None, "User:ANONYMOUS"),
        ("requested", ALICE, "User:CN=alice"),
        ("requested", STRANGER, None),
        ("required", ALICE, "User:CN=alice"),
        ("required", None, None),
        ("required", STRANGER, None),
        ("required", CA.leaf("late", days=-0.5), None),
        ("required", CA.leaf("early", days=9, since_days=3), None),
        ("required", Authority("Intermediate", issuer=CA).leaf("below"), "User:CN=below"),
    ],
)
@on_each_loop
async def test_a_client_is_named_by_its_certificate(
    tmp_path: Path, auth: str, leaf: Leaf | None, principal: str | None
) -> None:
    names: list[str] = []

    def note(connection: Connection, frame: memoryview) -> Any:
        names.append(connection.principal)
        return framed(b"")

    listener = await started(listen(note, tls(ssl_client_auth=auth)))
    try:
        reader, writer = await connect(listener, client_context(leaf, folder=tmp_path))
        writer.write(framed(b"who am I"))
        await frame_of(reader)
        writer.close()
    except (OSError, asyncio.IncompleteReadError):
        assert principal is None
    assert names == ([] if principal is None else [principal])
    assert listener.handshakes_failed == (1 if principal is None else 0)
    await listener.close()
    assert listener._admission.connections == 0


@on_each_loop
async def test_a_sibling_of_the_trusted_authority_is_refused(tmp_path: Path) -> None:
    trusted, sibling = Authority("One", issuer=CA), Authority("Two", issuer=CA)
    listener = await started(
        listen(echo, tls(ssl_client_auth="required", ssl_truststore_certificates=trusted.pem))
    )
    for leaf, is_served in ((trusted.leaf("a"), True), (sibling.leaf("a"), False)):
        served = False
        try:
            reader, writer = await connect(listener, client_context(leaf, folder=tmp_path))
            writer.write(framed(b""))
            await frame_of(reader)
            served = True
            writer.close()
        except (OSError, asyncio.IncompleteReadError):
            pass
        assert served == is_served


@on_each_loop
async def test_a_client_that_no_rule_names_is_refused(tmp_path: Path) -> None:
    rules = "RULE:^CN=(b.*)$/$1/"
    listener = await started(listen(echo, tls(ssl_client_auth="required", ssl_principal_mapping_rules=rules)))
    with pytest.raises((OSError, asyncio.IncompleteReadError)):
        reader, writer = await connect(listener, client_context(ALICE, folder=tmp_path))
        try:
            await frame_of(reader)
        finally:
            writer.transport.abort()
    assert listener.handshakes_failed == 1
    await listener.close()
    assert listener._admission.connections == 0


@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01"])
@on_each_loop
async def test_half_handshakes_do_not_hold_up_others_or_the_stop(
    monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    listener = await started(listen(echo))
    assert listener._handshakes is not None
    listener._handshakes._open_max = 20
    loop = asyncio.get_running_loop()
    halves = []
    for _ in range(50):
        half = socket.socket()
        half.setblocking(False)
        await loop.sock_connect(half, listener.addresses[0])
        await loop.sock_sendall(half, begun)
        halves.append(half)
    reader, writer = await connect(listener)
    writer.write(framed(b"served"))
    assert await frame_of(reader) == b"served"
    assert len(listener._handshakes) <= 20
    writer.close()
    await asyncio.wait_for(listener.close(), 5)
    assert len(listener._handshakes) == 0
    assert listener._admission.connections == 0
    for half in halves:
        half.close()


@on_each_loop
async def test_a_handshake_has_a_time_limit() -> None:
    listener = await started(listen(echo))
    listener._handshakes = handshake_turns.Handshakes(seconds_max=0.05)
    reader, writer = await asyncio.open_connection(*listener.addresses[0])
    assert await reader.read() == b""
    writer.close()
    assert listener.handshakes_failed == 1
    assert listener._admission.connections == 0


@on_each_loop
async def test_a_failed_handshake_leaves_no_login_behind(caplog: pytest.LogCaptureFixture) -> None:
    """A health probe connects and closes. Later the time for its login was over, and nothing was there to be closed."""
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    listener = await started(listen(echo, login=LoginBounds(frame_bytes_max=1000, seconds_max=0.05)))
    _, writer = await asyncio.open_connection(*listener.addresses[0])
    writer.close()
    reader, writer = await connect(listener)
    # Its own time begins with the end of the handshake.
    assert await reader.read() == b""
    writer.close()
    assert listener.handshakes_failed == 1
    await listener.close()
    assert failures == []
    assert caplog.text.count("did not log in in time") == 1


@on_each_loop
async def test_plain_text_is_refused_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    listener = await started(listen(echo))
    reader, writer = await asyncio.open_connection(*listener.addresses[0])
    writer.write(framed(b"\x00\x12\x00\x04 a Kafka client without TLS"))
    await reader.read()
    writer.close()
    await listener.close()
    assert "set security.protocol=SSL" in caplog.text


@on_each_loop
async def test_old_versions_and_weak_suites_are_refused() -> None:
    listener = await started(listen(echo))
    changes: list[dict[str, Any]] = [
        {"minimum_version": 0x0302, "maximum_version": 0x0302},
        {"maximum_version": ssl.TLSVersion.TLSv1_2, "ciphers": "AES256-SHA:ECDHE-ECDSA-AES256-SHA"},
    ]
    for change in changes:
        context = client_context()
        context.set_ciphers(f"{change.pop('ciphers', 'DEFAULT')}:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            for key, value in change.items():
                setattr(context, key, value)
        with pytest.raises(OSError):
            await connect(listener, context)
    context = client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    reader, writer = await connect(listener, context)
    writer.write(framed(b"1.2"))
    assert await frame_of(reader) == b"1.2"
    writer.close()


@on_each_loop
async def test_changed_bytes_end_the_connection() -> None:
    listener = await started(listen(echo))
    loop = asyncio.get_running_loop()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.socket() as opened:
        opened.setblocking(False)
        await loop.sock_connect(opened, listener.addresses[0])
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                await loop.sock_sendall(opened, outgoing.read())
                incoming.write(await loop.sock_recv(opened, 65_536))
        client.write(framed(b"body"))
        changed = bytearray(outgoing.read())
        changed[-3] ^= 1
        await loop.sock_sendall(opened, changed)
        while await loop.sock_recv(opened, 65_536):
            pass
    await asyncio.sleep(0)
    assert listener.totals()[0] == 0
