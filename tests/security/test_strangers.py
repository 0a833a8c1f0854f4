"""Hostile clients at the secured listeners of a real broker: others are served all the while, and none is let in.

`ODRADEK_STRANGERS=10` makes ten times as many of them.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from odradek.security.authentication.exchange import ServerRefused
from odradek.security.authentication.scram import ScramClient, salt_password
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from tests.support.broker_process import SecuredBroker
from tests.support.certificates import Authority, Leaf
from tests.support.stories import in_real_time

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

TIMES = int(os.environ.get("ODRADEK_STRANGERS", "1"))
PASSWORD = "alice's password"
USERS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'user_admin="{PASSWORD}" user_alice="{PASSWORD}";'
)
REFUSED = 58
MEGABYTE = 1_000_000
# As sasl.server.max.receive.size, whose default it is.
FRAME_BYTES_MAX = 524_288


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    made = SecuredBroker(
        tmp_path_factory.mktemp("strangers"),
        kinds={"CLIENTS": "SSL", "NAMED": "SSL", "LOGIN": "SASL_SSL", "CLEAR": "SASL_PLAINTEXT"},
        settings={
            "listener.name.named.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.login.plain.sasl.jaas.config": USERS,
            "listener.name.clear.plain.sasl.jaas.config": USERS,
        },
    )
    made.start()
    add_scram_user(made)
    yield made
    assert made.stop() == 0
    log = made.log()
    assert "Traceback" not in log
    assert PASSWORD not in log


def address(broker: SecuredBroker, listener: str) -> tuple[str, int]:
    host, _, port = broker.bootstraps[listener].rpartition(":")
    return host, int(port)


def trusting(broker: SecuredBroker, certificate: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(broker.ca_file))
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def request(api: ApiKey, version: int, **fields: Any) -> bytes:
    return codec.encode_request(api, version, 7, "stranger", messages.request(api, version, **fields))


class Client:
    """A blocking client that speaks frames, over TLS if there is a context."""

    def __init__(self, broker: SecuredBroker, listener: str, context: ssl.SSLContext | None = None) -> None:
        plain = socket.create_connection(address(broker, listener), 30)
        self.socket: socket.socket = (
            plain if context is None else context.wrap_socket(plain, server_hostname="localhost")
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def frame(self, sent: bytes) -> bytes:
        """The answer's frame; empty where the connection is closed instead."""
        try:
            self.socket.sendall(sent)
            head = self._exactly(4)
            return self._exactly(int.from_bytes(head, "big")) if head else b""
        except OSError:
            return b""

    def _exactly(self, count: int) -> bytes:
        got = b""
        while len(got) < count:
            part = self.socket.recv(count - len(got))
            if not part:
                return b""
            got += part
        return got

    def ask(self, api: ApiKey, version: int, **fields: Any) -> Any:
        """The answer, or None where the connection is closed instead."""
        frame = self.frame(request(api, version, **fields))
        return codec.decode_response(api, version, memoryview(frame))[1] if frame else None

    def shake(self, mechanism: str) -> None:
        assert int(self.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism).error_code) == 0

    def token(self, token: bytes) -> Any:
        return self.ask(ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=token)

    def is_served(self) -> bool:
        return bool(self.frame(request(ApiKey.METADATA, 1, topics=[])))


def add_scram_user(broker: SecuredBroker) -> None:
    salted = salt_password("SCRAM-SHA-256", PASSWORD, salt=b"salt of alice", iterations=4096)
    with Client(broker, "CLEAR") as client:
        client.shake("PLAIN")
        assert int(client.token(f"\0admin\0{PASSWORD}".encode()).error_code) == 0
        answer = client.ask(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            0,
            deletions=[],
            upsertions=[
                {
                    "name": "alice",
                    "mechanism": 1,
                    "iterations": 4096,
                    "salt": b"salt of alice",
                    "salted_password": salted,
                }
            ],
        )
        assert [int(one.error_code) for one in answer.results] == [0]


def still_serves(broker: SecuredBroker) -> None:
    """A client of each kind is served."""
    with Client(broker, "CLIENTS", trusting(broker)) as client:
        assert client.is_served()
    with Client(broker, "NAMED", trusting(broker, broker.alice_file)) as client:
        assert client.is_served()
    with Client(broker, "LOGIN", trusting(broker)) as client:
        client.shake("PLAIN")
        assert int(client.token(f"\0alice\0{PASSWORD}".encode()).error_code) == 0
        assert client.is_served()


def resident(broker: SecuredBroker) -> int:
    size: int = psutil.Process(broker.pid).memory_info().rss
    return size


def client_hello(broker: SecuredBroker) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = trusting(broker).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


# --- handshakes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["nothing", "half a hello", "a hello"])
def test_handshakes_that_stall_hold_nobody_up(broker: SecuredBroker, part: str) -> None:
    """More than may be open at once: the oldest are given up for those that come."""
    still_serves(broker)
    before = resident(broker)
    hello = client_hello(broker)
    sent = {"nothing": b"", "half a hello": hello[: len(hello) // 2], "a hello": hello}[part]
    stalled: list[socket.socket] = []
    try:
        for _ in range(600 * TIMES):
            stalled.append(socket.create_connection(address(broker, "LOGIN"), 30))
            stalled[-1].sendall(sent)
        still_serves(broker)
        assert resident(broker) - before < 100 * MEGABYTE
        # The first ones were given up.
        stalled[0].settimeout(30)
        assert is_over(stalled[0])
    finally:
        for one in stalled:
            one.close()
    still_serves(broker)


def is_over(stalled: socket.socket) -> bool:
    try:
        while stalled.recv(65_536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_slow_handshakes_do_not_slow_others(broker: SecuredBroker) -> None:
    """A byte at a time, from many at once."""
    hello = client_hello(broker)
    slow = [socket.create_connection(address(broker, "CLIENTS"), 30) for _ in range(50 * TIMES)]
    try:
        for position in range(40):
            for one in slow:
                one.sendall(hello[position : position + 1])
            if position % 10 == 0:
                still_serves(broker)
    finally:
        for one in slow:
            one.close()
    still_serves(broker)


def test_renegotiation_is_refused(broker: SecuredBroker) -> None:
    host, port = address(broker, "CLIENTS")
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"{host}:{port}", "-tls1_2", "-CAfile", str(broker.ca_file)],
        input=b"R\n",
        capture_output=True,
        timeout=60,
        check=False,
    )
    said = done.stdout + done.stderr
    assert b"RENEGOTIATING" in said
    assert b"no renegotiation" in said.lower()
    still_serves(broker)


WRONG: dict[str, Any] = {
    "expired": lambda trusted: trusted.leaf("alice", since_days=-9, days=-1),
    "not valid yet": lambda trusted: trusted.leaf("alice", since_days=1, days=9),
    "of another authority": lambda trusted: Authority("Stranger").leaf("alice"),
    "of an authority of the same name": lambda trusted: Authority("Test CA").leaf("alice"),
    "signed by a client's own certificate": lambda trusted: signed_by_leaf(trusted),
    "for servers only": lambda trusted: trusted.leaf("alice", usages=[ExtendedKeyUsageOID.SERVER_AUTH]),
}


def signed_by_leaf(trusted: Authority) -> Leaf:
    """A client makes itself an authority."""
    mallory = trusted.leaf("mallory")
    forger = Authority("mallory")
    forger.private_key, forger.subject = mallory.private_key, mallory.certificate.subject
    forged = forger.leaf("alice")
    forged.chain += mallory.chain
    return forged


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_certificates_are_refused(broker: SecuredBroker, tmp_path: Path, kind: str) -> None:
    path = WRONG[kind](broker.authority).write(tmp_path / "wrong.pem")
    try:
        with Client(broker, "NAMED", trusting(broker, path)) as client:
            assert not client.is_served()
    except ssl.SSLError:
        pass
    still_serves(broker)


def test_no_certificate_is_refused(broker: SecuredBroker) -> None:
    try:
        with Client(broker, "NAMED", trusting(broker)) as client:
            assert not client.is_served()
    except ssl.SSLError:
        pass


# --- logins ----------------------------------------------------------------------------------------------


def recorded_login(broker: SecuredBroker) -> tuple[bytes, bytes]:
    """The two messages of a client with the right password."""
    scram = ScramClient("SCRAM-SHA-256", "alice", PASSWORD)
    with Client(broker, "CLEAR") as client:
        client.shake("SCRAM-SHA-256")
        first = scram.answer(b"")
        assert first is not None
        final = scram.answer(bytes(client.token(first).auth_bytes))
        assert final is not None
        answer = client.token(final)
        assert int(answer.error_code) == 0
        assert scram.answer(bytes(answer.auth_bytes)) is None
        assert client.is_served()
    return first, final


def test_a_replayed_login_is_refused(broker: SecuredBroker) -> None:
    first, final = recorded_login(broker)
    for messages_sent in ((first, final), (final,), (first, first), (first, final, final)):
        with Client(broker, "CLEAR") as client:
            client.shake("SCRAM-SHA-256")
            answers = [client.token(token) for token in messages_sent]
            assert REFUSED in [int(one.error_code) for one in answers if one is not None]
            assert not client.is_served()
    recorded_login(broker)


@in_real_time
async def test_mangled_logins_are_refused(broker: SecuredBroker) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)

    async def attempt() -> None:
        reader, writer = await asyncio.open_connection(*address(broker, "CLEAR"))

        async def ask(sent: bytes) -> bytes:
            writer.write(sent)
            try:
                size = int.from_bytes(await reader.readexactly(4), "big")
                return await reader.readexactly(size)
            except (asyncio.IncompleteReadError, ConnectionError):
                return b""

        def token(content: bytes) -> bytes:
            return request(ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=content)

        scram = ScramClient("SCRAM-SHA-256", "alice", PASSWORD)
        await ask(request(ApiKey.SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-256"))
        first = scram.answer(b"") or b""
        spoils_first = chance.random() < 0.3
        frame = await ask(token(spoilt(chance, first) if spoils_first else first))
        answer: Any = codec.decode_response(ApiKey.SASL_AUTHENTICATE, 1, memoryview(frame))[1]
        try:
            final = scram.answer(bytes(answer.auth_bytes)) if int(answer.error_code) == 0 else None
        except ServerRefused:
            # The server answers with another nonce, since it read another.
            final = None
        if final is not None:
            frame = await ask(token(final if spoils_first else spoilt(chance, final)))
            answer = codec.decode_response(ApiKey.SASL_AUTHENTICATE, 1, memoryview(frame))[1]
            assert int(answer.error_code) == REFUSED, "a mangled login is let in"
            assert await ask(request(ApiKey.METADATA, 1, topics=[])) == b""
        await leave(writer)

    for _ in range(4 * TIMES):
        await asyncio.gather(*(attempt() for _ in range(50)))
    recorded_login(broker)


async def leave(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


def spoilt(chance: random.Random, message: bytes) -> bytes:
    """`message` with one byte changed, left out or added; the last digits of a proof hold bits without a meaning."""
    at = chance.randrange(len(message) - 2)
    kind = chance.randrange(3)
    if kind == 0:
        return message[:at] + bytes([message[at] ^ 1 << chance.randrange(7)]) + message[at + 1 :]
    return message[:at] + message[at + 1 :] if kind == 1 else message[:at] + b"x" + message[at:]


@in_real_time
async def test_a_thousand_wrong_passwords(broker: SecuredBroker) -> None:
    """All fail alike, names that exist and names that do not, and others log in at the same time."""
    texts: set[str] = set()

    async def guess(number: int) -> None:
        reader, writer = await asyncio.open_connection(*address(broker, "CLEAR"))
        user = ("alice", "admin", f"nobody-{number}")[number % 3]
        writer.write(request(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"))
        writer.write(request(ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=f"\0{user}\0guess {number}".encode()))
        frames = [
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big")) for _ in range(2)
        ]
        answer: Any = codec.decode_response(ApiKey.SASL_AUTHENTICATE, 1, memoryview(frames[1]))[1]
        assert int(answer.error_code) == REFUSED
        texts.add(str(answer.error_message))
        assert await reader.read() == b""
        await leave(writer)

    for round_number in range(10 * TIMES):
        guesses = [guess(100 * round_number + number) for number in range(100)]
        await asyncio.gather(asyncio.to_thread(still_serves, broker), *guesses)

    before = resident(broker)
    assert len(texts) == 1
    assert resident(broker) - before < 50 * MEGABYTE


# --- sizes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [FRAME_BYTES_MAX + 1, 100 * MEGABYTE, 2**31 - 1, -1])
def test_frames_over_the_bound_end_the_connection_before_a_login(broker: SecuredBroker, size: int) -> None:
    with Client(broker, "CLEAR") as client:
        assert client.frame(struct.pack(">i", size) + b"x" * 100) == b""
    with Client(broker, "CLEAR") as client:
        client.shake("PLAIN")
        assert client.frame(struct.pack(">i", size) + b"x" * 100) == b""
    still_serves(broker)


def test_large_frames_that_never_end_hold_bounded_memory(broker: SecuredBroker) -> None:
    before = resident(broker)
    claimed: list[socket.socket] = []
    try:
        for _ in range(200 * TIMES):
            claimed.append(socket.create_connection(address(broker, "CLEAR"), 30))
            claimed[-1].sendall(struct.pack(">i", FRAME_BYTES_MAX) + b"x" * 1000)
        still_serves(broker)
        assert resident(broker) - before < 200 * TIMES * FRAME_BYTES_MAX / 4
    finally:
        for one in claimed:
            one.close()
    still_serves(broker)
