"""Logins with tokens, of real clients and of ours: keys are rotated, logins end with their token and are renewed."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.abc
import kafka
import kafka.net.sasl.oauth
import pytest
from confluent_kafka import KafkaError, Producer

from odradek.client.connection import BrokerConnection
from odradek.client.errors import ConnectionFailed
from odradek.wire.protocol.api import ApiKey
from tests.compat.security.conftest import opened
from tests.support.broker_process import SecuredBroker
from tests.support.java import JavaUnavailableError, run_kafka_tool
from tests.support.peers import skip_or_fail
from tests.support.polling import wait_until
from tests.support.stories import in_real_time
from tests.support.tokens import AUDIENCE, ISSUER, Provider

pytestmark = pytest.mark.clients

CLASSES = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture(scope="module")
def provider() -> Provider:
    return Provider("first")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[SecuredBroker]:
    folder = tmp_path_factory.mktemp("oauth")
    broker = SecuredBroker(
        folder,
        kinds={"TOKENS": "SASL_PLAINTEXT", "TLS": "SSL"},
        settings={
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            # As files for Kafka have them.
            "listener.name.tokens.oauthbearer.sasl.jaas.config": f"{CLASSES}.OAuthBearerLoginModule required;",
            "listener.name.tokens.oauthbearer.sasl.server.callback.handler.class": (
                f"{CLASSES}.OAuthBearerValidatorCallbackHandler"
            ),
            "sasl.oauthbearer.jwks.endpoint.url": provider.write(folder / "keys.json"),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "inter.broker.listener.name": "TOKENS",
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": (folder / "token").as_uri(),
        },
    )
    broker.start()
    yield broker
    assert broker.stop() == 0
    assert "eyJ" not in broker.log(), "a token is in the log"


def produced(broker: SecuredBroker, token: str, *, expires: float, seconds_max: float = 20) -> Any:
    """What librdkafka says to one record: the error, or None. `expires` is in seconds since 1970."""
    errors: list[Any] = []
    delivered: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstraps["TOKENS"],
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (token, expires),
            "error_cb": errors.append,
            "log_level": 0,
        }
    )
    producer.produce(uuid.uuid4().hex, b"x", on_delivery=lambda error, _: delivered.append(error))
    ends = time.monotonic() + seconds_max
    while not (errors or delivered) and time.monotonic() < ends:
        producer.poll(0.1)
    return (errors or delivered or ["no answer"])[0]


def test_librdkafka_logs_in_with_a_good_token_only(broker: SecuredBroker, provider: Provider) -> None:
    assert produced(broker, provider.token(), expires=time.time() + 600) is None
    forged = Provider("first").token()
    assert produced(broker, forged, expires=time.time() + 600).code() == KafkaError._AUTHENTICATION


class TokenForKafkaPython(kafka.net.sasl.oauth.AbstractTokenProvider):  # type: ignore[misc]
    """What kafka-python asks for a token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


class TokenForAiokafka(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
    """What aiokafka asks for a token."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def test_python_clients_log_in_with_a_token(broker: SecuredBroker, provider: Provider) -> None:
    common = {
        "bootstrap_servers": broker.bootstraps["TOKENS"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    }

    def sent_by_kafka_python(token: str) -> None:
        producer = kafka.KafkaProducer(**common, sasl_oauth_token_provider=TokenForKafkaPython(token))
        try:
            producer.send(uuid.uuid4().hex, b"x").get(20)
        finally:
            producer.close()

    async def sent_by_aiokafka(token: str) -> None:
        login = TokenForAiokafka(token)
        async with aiokafka.AIOKafkaProducer(**common, sasl_oauth_token_provider=login) as producer:
            await producer.send_and_wait(uuid.uuid4().hex, b"x")

    sent_by_kafka_python(provider.token())
    asyncio.run(sent_by_aiokafka(provider.token()))


def test_keys_are_rotated_while_the_broker_runs(broker: SecuredBroker, provider: Provider) -> None:
    provider.add("second")
    provider.write(broker.folder / "keys.json")
    wait_until(
        "the second key is known",
        lambda: produced(broker, provider.token(key_id="second"), expires=time.time() + 600),
        lambda refusal: refusal is None,
    )


def _properties(broker: SecuredBroker, folder: Path, token: str) -> Path:
    file = folder / "token"
    file.write_text(token + "\n")
    properties = folder / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.jaas.config={CLASSES}.OAuthBearerLoginModule required;\n"
        f"sasl.login.callback.handler.class={CLASSES}.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url={file.as_uri()}\n"
    )
    return properties


@pytest.mark.thorough
@pytest.mark.java
def test_kafkas_tool_logs_in_with_a_token_of_a_file(
    broker: SecuredBroker, provider: Provider, tmp_path: Path
) -> None:
    properties = _properties(broker, tmp_path, provider.token())
    address = (tmp_path / "token").as_uri()
    try:
        done = run_kafka_tool(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", broker.bootstraps["TOKENS"], "--command-config", str(properties)),
            *("--create", "--topic", "of-java"),
            options=(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={address}",),
        )
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    assert "Created topic of-java" in done.stdout


@pytest.fixture
def endpoint(provider: Provider) -> Iterator[tuple[str, list[str]]]:
    """A token endpoint: its address, and the forms that were sent to it. Its tokens live for three seconds."""
    forms: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            forms.append(form)
            is_known = self.headers["Authorization"] == f"Basic {base64.b64encode(b'loader:s%26t').decode()}"
            self.send_response(200 if is_known else 401)
            self.end_headers()
            if is_known:
                answer = {"access_token": provider.token("loader", life_seconds=3), "token_type": "Bearer"}
                self.wfile.write(json.dumps(answer).encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing on stderr."""

    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/token", forms
    server.shutdown()
    thread.join()
    server.server_close()


async def _open(broker: SecuredBroker, address: str, secret: str) -> BrokerConnection:
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": address,
        "sasl.oauthbearer.client.credentials.client.id": "loader",
        "sasl.oauthbearer.client.credentials.client.secret": secret,
        "sasl.oauthbearer.scope": "read write",
    }
    return await opened(broker.bootstraps["TOKENS"], login)


@in_real_time
async def test_our_client_renews_its_login_on_a_connection_in_use(
    broker: SecuredBroker, endpoint: tuple[str, list[str]]
) -> None:
    """The logins end after three seconds: without renewal the broker would close the connection."""
    connection = await _open(broker, endpoint[0], "s&t")
    try:
        ends = time.monotonic() + 7
        while time.monotonic() < ends:
            asked = (
                connection.request(ApiKey.LIST_GROUPS, versions=(0, 4)),
                connection.request(ApiKey.METADATA, versions=(1, 9), topics=[]),
            )
            await asyncio.gather(*asked)
            await asyncio.sleep(0.05)
    finally:
        await connection.close()
    assert len(endpoint[1]) >= 3
    assert set(endpoint[1]) == {"grant_type=client_credentials&scope=read+write"}


def test_a_client_without_a_token_says_why(broker: SecuredBroker, endpoint: tuple[str, list[str]]) -> None:
    with pytest.raises(ConnectionFailed, match=r"no token to log in with.*HTTP status 401") as failure:
        asyncio.run(_open(broker, endpoint[0], "wrong"))
    assert "wrong" not in str(failure.value)
