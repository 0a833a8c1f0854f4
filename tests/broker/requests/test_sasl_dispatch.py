"""Logins frame by frame, in front of a dispatcher that counts what it is given."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import struct
from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.requests.sasl_dispatch import SaslDispatcher
from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.errors import InvalidRequest, SettingError
from odradek.foundation.settings.broker_settings import Settings
from odradek.network.connection import Connection
from odradek.network.pending import Pending
from odradek.security.authentication.listener import listener_sasl
from odradek.security.authentication.scram import ScramCredential, salt_password
from odradek.security.authentication.scram_users import credentials_of
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from tests.support.whole_broker import WholeBroker

JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="x" '
    'user_admin="x" user_alice="al\\"ice;" user_Ä="ß";'
)
SALT = b"a salt of some bytes"
NEVER = 10**9


def settings(**more: str) -> Settings:
    return Settings(
        {
            "listeners": "L://127.0.0.1:0",
            "listener.security.protocol.map": "L:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.l.plain.sasl.jaas.config": JAAS,
            "connection.failed.authentication.delay.ms": "100",
            **{key.replace("__", "-").replace("_", "."): text for key, text in more.items()},
        }
    )


class Stranger(Connection):
    """A connection whose close is noted."""

    def __init__(self) -> None:
        super().__init__(id=1, listener_name="L")
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Stage:
    """A listener's logins, and one client of it."""

    def __init__(self, **more: str) -> None:
        self.seconds = 100.0
        self.passed: list[bytes] = []
        self.users = {
            ClientEntity(user="bob"): {
                name: ScramCredential.of_password(name, "pencil", salt=SALT).text
                for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            },
            ClientEntity(user="weak"): {
                "SCRAM-SHA-256": ScramCredential.of_password(
                    "SCRAM-SHA-256", "pencil", salt=SALT, iterations=4095
                ).text
            },
        }
        sasl = listener_sasl(settings(**more), "L", credentials_of(lambda: self.users))
        self.logins = SaslDispatcher(self._dispatched, sasl, now=lambda: self.seconds)
        self.client = Stranger()

    def _dispatched(self, connection: Connection, frame: memoryview) -> bytes:
        self.passed.append(bytes(frame))
        api_key, version = struct.unpack_from(">hh", frame)
        code = 35 if api_key == ApiKey.API_VERSIONS and version > 4 else 0
        return struct.pack(">iih", 6, 7, code)

    async def frame(self, data: bytes) -> Any:
        answer: Any = self.logins(self.client, memoryview(bytearray(data)))
        if isinstance(answer, Pending):
            settled: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            answer.when_settled(lambda one: settled.set_result(one.result()))
            return await settled
        return answer

    async def ask(self, api: ApiKey, version: int, **fields: Any) -> Any:
        message = messages.request(api, version, **fields)
        answer = await self.frame(codec.encode_request(api, version, 7, "c", message)[4:])
        return None if answer is None else codec.decode_response(api, version, memoryview(answer)[4:])[1]

    async def versions(self, version: int = 0) -> bytes:
        return bytes(await self.frame(struct.pack(">hhih", ApiKey.API_VERSIONS, version, 7, -1)))

    async def shake(self, mechanism: str, version: int = 1) -> Any:
        return await self.ask(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)

    async def token(self, token: bytes, version: int = 2) -> Any:
        return await self.ask(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=token)

    async def plain(self, user: str, password: str, authorization: str = "") -> Any:
        assert int((await self.shake("PLAIN")).error_code) == 0
        return await self.token(f"{authorization}\0{user}\0{password}".encode())


class ScramClient:
    """The client's side, written apart from the product's."""

    def __init__(self, mechanism: str = "SCRAM-SHA-256", user: str = "bob", password: str = "pencil") -> None:
        self.digest = mechanism[6:].replace("-", "").lower()
        self.mechanism, self.password = mechanism, password
        self.header = "n,,"
        self.bare = f"n={user},r=fyko+d2lbbFgONRv9qkxdawL"
        self.binding = "biws"
        self.change: Callable[[str], str] = lambda text: text

    def first(self) -> bytes:
        return (self.header + self.bare).encode()

    def final(self, server_first: bytes) -> bytes:
        fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
        salted = salt_password(
            self.mechanism, self.password, salt=base64.b64decode(fields["s"]), iterations=int(fields["i"])
        )
        without = self.change(f"c={self.binding},r={fields['r']}")
        messages = f"{self.bare},{server_first.decode()},{without}".encode()
        client_key = hmac.digest(salted, b"Client Key", self.digest)
        stored = hashlib.new(self.digest, client_key).digest()
        proof = bytes(
            a ^ b for a, b in zip(client_key, hmac.digest(stored, messages, self.digest), strict=True)
        )
        self.server = b"v=" + base64.b64encode(
            hmac.digest(hmac.digest(salted, b"Server Key", self.digest), messages, self.digest)
        )
        return f"{without},p={base64.b64encode(proof).decode()}".encode()


def code(answer: Any) -> int:
    return int(answer.error_code)


async def test_plain_logs_in_and_requests_pass() -> None:
    stage = Stage()
    assert (await stage.versions())[8:10] == b"\0\0"
    answer = await stage.plain("alice", 'al"ice;')
    assert code(answer) == 0
    assert stage.client.principal == "User:alice"
    assert int(answer.session_lifetime.total_seconds() * 1000) == 0
    await stage.frame(struct.pack(">hhih", ApiKey.METADATA, 1, 7, -1) + bytes(4))
    assert len(stage.passed) == 2
    assert stage.logins.counters.of("PLAIN").successful == 1


async def test_names_and_passwords_that_are_not_ascii() -> None:
    stage = Stage()
    assert code(await stage.plain("Ä", "ß", authorization="Ä")) == 0
    assert stage.client.principal == "User:Ä"


@pytest.mark.parametrize(
    ("user", "password", "authorization"),
    [
        ("alice", "wrong", ""),
        ("nobody", "wrong", ""),
        ("nobody", "", ""),
        ("", "x", ""),
        ("alice", 'al"ice;', "admin"),
        ("alice", 'al"ice;\0more', ""),
        ("alice", 'al"ice;?', ""),
    ],
)
async def test_wrong_passwords_are_alike_and_late(user: str, password: str, authorization: str) -> None:
    stage = Stage()
    loop = asyncio.get_running_loop()
    began = loop.time()
    answer = await stage.plain(user, password, authorization)
    assert code(answer) == 58
    assert str(answer.error_message) == "Authentication failed: invalid credentials or user"
    assert loop.time() - began >= 0.1
    assert stage.client.is_closed
    assert stage.client.principal == "User:ANONYMOUS"
    assert await stage.frame(struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 7, -1)) is None
    assert stage.passed == []


async def test_only_a_second_good_api_versions_is_a_fault() -> None:
    stage = Stage()
    assert (await stage.versions(99))[8:10] == b"\0\x23"
    await stage.versions()
    with pytest.raises(InvalidRequest):
        await stage.versions()


@pytest.mark.parametrize("api", [ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.SASL_AUTHENTICATE, 1000, -1])
async def test_another_request_before_the_handshake_is_refused(api: int) -> None:
    stage = Stage()
    with pytest.raises(InvalidRequest):
        await stage.frame(struct.pack(">h", api))
    with pytest.raises(InvalidRequest):
        await stage.frame(b"")
    assert stage.passed == []


async def test_an_unknown_mechanism_is_answered_with_those_that_are_enabled() -> None:
    stage = Stage()
    answer = await stage.shake("GSSAPI")
    assert code(answer) == 33
    assert list(answer.mechanisms) == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert stage.client.is_closed


async def test_another_request_among_the_tokens_is_answered() -> None:
    stage = Stage()
    await stage.shake("PLAIN")
    answer = await stage.ask(ApiKey.LIST_GROUPS, 4, states_filter=[])
    assert code(answer) == 34
    assert stage.client.is_closed
    assert stage.passed == []


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("is_raw", [False, True])
async def test_scram_proves_both_ends(mechanism: str, is_raw: bool) -> None:
    stage, client = Stage(), ScramClient(mechanism)
    await stage.shake(mechanism, version=0 if is_raw else 1)

    async def send(token: bytes) -> bytes:
        if is_raw:
            return bytes((await stage.frame(token))[4:])
        answer = await stage.token(token)
        assert code(answer) == 0
        return bytes(answer.auth_bytes)

    assert await send(client.final(await send(client.first()))) == client.server
    assert stage.client.principal == "User:bob"


def _nonce_of_another(client: ScramClient) -> None:
    client.change = lambda text: text[:-4] + "AAAA"


def _other_binding(client: ScramClient) -> None:
    client.binding = base64.b64encode(b"y,,").decode()


def _other_user(client: ScramClient) -> None:
    client.header = "n,a=admin,"


def _channel_binding(client: ScramClient) -> None:
    client.header = "p=tls-unique,,"


def _y(client: ScramClient) -> None:
    client.header = "y,,"


def _token(client: ScramClient) -> None:
    client.bare += ",tokenauth=true"


def _bad_escape(client: ScramClient) -> None:
    client.bare = client.bare.replace("n=bob", "n=b=ob")


def _wrong_password(client: ScramClient) -> None:
    client.password = "pen"


def _unknown(client: ScramClient) -> None:
    client.bare = client.bare.replace("n=bob", "n=nobody")


def _weak(client: ScramClient) -> None:
    client.bare = client.bare.replace("n=bob", "n=weak")


@pytest.mark.parametrize(
    "spoil",
    [
        _nonce_of_another, _other_binding, _other_user, _channel_binding, _y, _token, _bad_escape, _wrong_password,
        _unknown, _weak,
    ],
)  # fmt: skip
async def test_spoilt_scram_is_refused(spoil: Callable[[ScramClient], None]) -> None:
    stage, client = Stage(), ScramClient()
    spoil(client)
    await stage.shake("SCRAM-SHA-256")
    answer = await stage.token(client.first())
    if code(answer) == 0:
        answer = await stage.token(client.final(bytes(answer.auth_bytes)))
    assert code(answer) == 58
    assert stage.client.is_closed
    assert stage.client.principal == "User:ANONYMOUS"


async def test_a_recorded_exchange_is_refused_on_another_connection() -> None:
    stage, client = Stage(), ScramClient()
    await stage.shake("SCRAM-SHA-256")
    final = client.final(bytes((await stage.token(client.first())).auth_bytes))
    assert code(await stage.token(final)) == 0
    stage.client = Stranger()
    await stage.shake("SCRAM-SHA-256")
    await stage.token(client.first())
    assert code(await stage.token(final)) == 58


async def test_unknown_users_look_like_known_ones_each_time() -> None:
    salts = set()
    for _ in range(2):
        stage, client = Stage(), ScramClient(user="nobody")
        await stage.shake("SCRAM-SHA-256")
        salts.add(bytes((await stage.token(client.first())).auth_bytes).split(b",")[1])
    assert len(salts) == 1


async def test_a_user_deleted_between_the_messages_is_refused() -> None:
    stage, client = Stage(), ScramClient()
    await stage.shake("SCRAM-SHA-256")
    first = await stage.token(client.first())
    stage.users.clear()
    assert code(await stage.token(client.final(bytes(first.auth_bytes)))) == 58
    stage.client = Stranger()
    await stage.shake("SCRAM-SHA-256")
    first = await stage.token(client.first())
    assert code(await stage.token(client.final(bytes(first.auth_bytes)))) == 58


async def test_a_login_that_ends_is_renewed_by_the_same_user_or_cut() -> None:
    stage = Stage(listener_name_l_plain_connections_max_reauth_ms="10000")
    answer = await stage.plain("alice", 'al"ice;')
    assert answer.session_lifetime.total_seconds() == 10
    stage.seconds += 9
    assert code(await stage.plain("alice", 'al"ice;')) == 0
    stage.seconds += 9
    await stage.versions()
    assert len(stage.passed) == 1
    stage.seconds += 1.5
    assert await stage.frame(struct.pack(">hhih", ApiKey.METADATA, 1, 7, -1)) is None
    assert stage.client.is_closed
    assert stage.logins.counters.of("PLAIN").expired == 1
    assert stage.logins.counters.of("PLAIN").renewals == 1


async def test_a_renewal_by_another_user_or_mechanism_is_refused() -> None:
    stage = Stage()
    await stage.plain("alice", 'al"ice;')
    stage.seconds += 2
    assert code(await stage.plain("admin", "x")) == 58
    assert stage.client.principal == "User:alice"
    stage = Stage()
    await stage.plain("alice", 'al"ice;')
    stage.seconds += 2
    assert code(await stage.shake("SCRAM-SHA-256")) == 0
    assert await stage.token(b"n,,n=alice,r=abc") is None
    assert stage.client.is_closed


async def test_a_second_renewal_too_soon_is_an_ordinary_request() -> None:
    """Kafka bounds the renewals by one a second, and does not count the first login."""
    stage = Stage()
    await stage.plain("alice", 'al"ice;')
    assert code(await stage.plain("alice", 'al"ice;')) == 0
    stage.seconds += 0.5
    message = messages.request(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    await stage.frame(codec.encode_request(ApiKey.SASL_HANDSHAKE, 1, 7, "c", message)[4:])
    assert len(stage.passed) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sasl_enabled_mechanisms": "GSSAPI"}, "has GSSAPI, which is not served"),
        ({"sasl_enabled_mechanisms": ""}, "is empty"),
        ({"listener_name_l_plain_sasl_jaas_config": ""}, "no users"),
        ({"listener_name_l_plain_sasl_jaas_config": JAAS[:-1]}, "end with a semicolon"),
        ({"listener_name_l_plain_sasl_jaas_config": JAAS.replace("required", "")}, "must stand required"),
        ({"listener_name_l_plain_sasl_jaas_config": JAAS.replace("PlainLogin", "JndiLogin")}, "no classes are loaded"),
        ({"listener_name_l_plain_sasl_jaas_config": JAAS.replace('user_admin="x"', "user_admin=")}, "must look like"),
        ({"listener_name_l_plain_sasl_jaas_config": JAAS.replace('"x" user_alice', '"x user_alice')}, ""),
        ({"listener_name_l_scram__sha__256_sasl_jaas_config": JAAS}, "ScramLoginModule"),
        ({"connection_failed_authentication_delay_ms": str(NEVER)}, "must be below"),
        ({"sasl_jaas_config": JAAS}, "give it for a mechanism, as listener.name.l.plain.sasl.jaas.config"),
        ({"listener_name_l_sasl_jaas_config": JAAS}, "has no effect at listener L"),
        ({"sasl_enabled_mechanisms": "OAUTHBEARER"}, "no keys to check tokens with"),
    ],
)  # fmt: skip
def test_what_cannot_serve_is_refused_without_a_secret(changes: dict[str, str], words: str) -> None:
    with pytest.raises(SettingError) as refusal:
        Stage(**changes)
    assert words in str(refusal.value)
    assert "ice" not in str(refusal.value).replace("service", "")


@pytest.mark.parametrize(
    ("api", "fields"),
    [(ApiKey.SASL_HANDSHAKE, {"mechanism": "PLAIN"}), (ApiKey.SASL_AUTHENTICATE, {"auth_bytes": b""})],
)
async def test_a_listener_without_logins_answers_that(
    api: ApiKey, fields: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    broker = await WholeBroker.start()
    assert code(await broker.ask(api, 1, **fields)) == 34
    await broker.broker.stop()
    assert "Set security.protocol=PLAINTEXT or SSL at the client" in caplog.text
