"""Delegation tokens by Kafka's own tool, and logins with them, of Java's and of our client (KIP-48)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.client.connection import BrokerConnection
from odradek.client.errors import ConnectionFailed
from odradek.wire.protocol.api import ApiKey
from tests.compat.security.conftest import opened
from tests.support.broker_process import SecuredBroker
from tests.support.java import JavaUnavailableError, run_kafka_tool
from tests.support.peers import skip_or_fail
from tests.support.polling import eventually

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.thorough]

MODULE = "org.apache.kafka.common.security"
TOKEN = re.compile(r"^(\S{20,})\s+(\S{80,})\s", re.MULTILINE)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(
        tmp_path_factory.mktemp("tokens"),
        kinds={"CLIENTS": "SASL_PLAINTEXT", "TLS": "SSL"},
        settings={
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.clients.plain.sasl.jaas.config": (
                f'{MODULE}.plain.PlainLoginModule required user_alice="secret";'
            ),
            "delegation.token.secret.key": "a secret of the cluster",
        },
    )
    broker.start()
    yield broker
    assert broker.stop() == 0
    assert "a secret of the cluster" not in broker.log()


def properties(folder: Path, mechanism: str, module: str, user: str, password: str, more: str = "") -> Path:
    path = folder / "client.properties"
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={MODULE}.{module} required username="{user}" password="{password}"{more};\n'
    )
    return path


def tool(broker: SecuredBroker, config: Path, *arguments: str, check: bool = True) -> str:
    common = ["--bootstrap-server", broker.bootstraps["CLIENTS"], "--command-config", str(config)]
    try:
        done = run_kafka_tool(
            "org.apache.kafka.tools.DelegationTokenCommand", *common, *arguments, check=check
        )
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    return done.stdout + done.stderr


async def ended_with_its_token(broker: SecuredBroker, token_id: str, hmac: str, owner: Path) -> None:
    """A connection that is open when its token is ended is closed."""
    connection = await opened_with(broker, token_id, hmac)
    try:
        assert (await connection.request(ApiKey.LIST_GROUPS, versions=(0, 3))).error_code == 0
        ending = ("--expire", "--expiry-time-period", "-1", "--hmac", hmac)
        await asyncio.to_thread(tool, broker, owner, *ending)
        await eventually("the connection is closed", lambda: not connection.is_open)
    finally:
        await connection.close()


async def ask_with(broker: SecuredBroker, token_id: str, hmac: str, api: ApiKey) -> int:
    """The error of a request that our client sends after a login with a token."""
    connection = await opened_with(broker, token_id, hmac)
    try:
        return int((await connection.request(api, versions=(0, 3))).error_code)
    finally:
        await connection.close()


async def opened_with(broker: SecuredBroker, token_id: str, hmac: str) -> BrokerConnection:
    """A connection that is logged in with a token."""
    login = (
        f'{MODULE}.scram.ScramLoginModule required username="{token_id}" password="{hmac}" tokenauth="true";'
    )
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": login,
    }
    return await opened(broker.bootstraps["CLIENTS"], properties)


def test_a_token_of_kafkas_tool_is_a_login_until_it_ends(broker: SecuredBroker, tmp_path: Path) -> None:
    alice = properties(tmp_path, "PLAIN", "plain.PlainLoginModule", "alice", "secret")
    made = tool(broker, alice, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    found = TOKEN.search(made)
    assert found is not None, made
    token_id, hmac = found.groups()
    assert asyncio.run(ask_with(broker, token_id, hmac, ApiKey.LIST_GROUPS)) == 0
    # A token makes no tokens.
    assert asyncio.run(ask_with(broker, token_id, hmac, ApiKey.DESCRIBE_DELEGATION_TOKEN)) == 64
    with pytest.raises(ConnectionFailed, match="refuses the login of the delegation token"):
        asyncio.run(ask_with(broker, token_id, hmac[:-4] + "AAA=", ApiKey.LIST_GROUPS))
    folder = tmp_path / "by-token"
    folder.mkdir()
    by_token = properties(
        folder, "SCRAM-SHA-256", "scram.ScramLoginModule", token_id, hmac, ' tokenauth="true"'
    )
    topics = ["--bootstrap-server", broker.bootstraps["CLIENTS"], "--command-config", str(by_token)]
    run_kafka_tool("org.apache.kafka.tools.TopicCommand", *topics, "--create", "--topic", "by-token")
    tool(broker, alice, "--renew", "--renew-time-period", "-1", "--hmac", hmac)
    broker.restart()
    assert token_id in tool(broker, alice, "--describe", "--owner-principal", "User:alice")
    asyncio.run(ended_with_its_token(broker, token_id, hmac, alice))
    assert token_id not in tool(broker, alice, "--describe")
    with pytest.raises(ConnectionFailed, match="refuses the login"):
        asyncio.run(ask_with(broker, token_id, hmac, ApiKey.LIST_GROUPS))
