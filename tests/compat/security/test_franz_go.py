"""franz-go, a client in Go: its own tests of SCRAM, each kind of listener and mechanism, and delegation tokens."""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.wire.protocol.api import ApiKey
from tests.compat.security.conftest import PASSWORD, make_scram_user, opened
from tests.support.broker_process import SecuredBroker
from tests.support.programs import require_franz_go
from tests.support.tokens import AUDIENCE, ISSUER, Provider

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.thorough]

RUN = Path(__file__).parents[1] / "franz-go" / "run"
VALUES = [f"value {number}" for number in range(50)]
CLASSES = "org.apache.kafka.common.security"


def run_franz_go(*arguments: str, **environment: str) -> str:
    require_franz_go()
    done = subprocess.run(
        [sys.executable, str(RUN), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=800,
    )
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-5_000:]
    return done.stdout


@pytest.fixture(scope="module")
def program() -> str:
    return run_franz_go("--login-program").strip()


@pytest.fixture(scope="module")
def provider() -> Provider:
    return Provider("first")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[SecuredBroker]:
    """With tokens of both kinds, and a listener without a login for franz-go's own tests."""
    folder = tmp_path_factory.mktemp("franz-go")
    broker = SecuredBroker(
        folder,
        kinds={"OPEN": "PLAINTEXT", "LOGIN": "SASL_SSL", "CLEAR": "SASL_PLAINTEXT"},
        settings={
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            **{
                f"listener.name.{name}.plain.sasl.jaas.config": (
                    f'{CLASSES}.plain.PlainLoginModule required user_alice="{PASSWORD}";'
                )
                for name in ("login", "clear")
            },
            "sasl.oauthbearer.jwks.endpoint.url": provider.write(folder / "keys.json"),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "delegation.token.secret.key": "a secret of the cluster",
        },
    )
    broker.start()
    make_scram_user(broker)
    yield broker
    assert broker.stop() == 0
    for secret in (PASSWORD, "a secret of the cluster", "eyJ"):
        assert secret not in broker.log()


def logged_in(
    program: str, address: str, password: str, *arguments: str, fails: bool = False
) -> tuple[list[str], str]:
    """(the values that came back, what it said of failures)."""
    done = subprocess.run(
        [program, "-seed", address, "-topic", f"go-{uuid.uuid4().hex}", *arguments],
        env={**os.environ, "LOGIN_PASSWORD": password},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode != 0) == fails, done.stderr
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("bits", ["256", "512"])
def test_its_own_tests_of_scram_pass(broker: SecuredBroker, bits: str) -> None:
    run_franz_go(
        "--seeds",
        broker.bootstraps["OPEN"],
        "--scram",
        broker.bootstraps["CLEAR"],
        KGO_TEST_SCRAM=f"alice:{PASSWORD}:{bits}",
    )


@pytest.mark.parametrize("listener", ["LOGIN", "CLEAR"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_records_come_back_after_a_login(
    broker: SecuredBroker, program: str, provider: Provider, listener: str, mechanism: str
) -> None:
    password = provider.token() if mechanism == "OAUTHBEARER" else PASSWORD
    arguments = ["-mechanism", mechanism, "-user", "alice"]
    if listener == "LOGIN":
        arguments += ["-authority", str(broker.ca_file)]
    found, _ = logged_in(program, broker.bootstraps[listener], password, *arguments)
    assert found == VALUES
    _, said = logged_in(program, broker.bootstraps[listener], "not-the-password", *arguments, fails=True)
    # Of OAUTHBEARER franz-go shows the broker's first answer to a refused token, and reads no further.
    refused = (
        "unexpected data in oauth response" if mechanism == "OAUTHBEARER" else "SASL_AUTHENTICATION_FAILED"
    )
    assert refused in said


@pytest.mark.parametrize("listener", ["CLIENTS", "NAMED"])
def test_records_come_back_over_tls(secured: SecuredBroker, program: str, listener: str) -> None:
    arguments = ["-authority", str(secured.ca_file)]
    if listener == "NAMED":
        arguments += ["-certificate", str(secured.alice_file)]
    assert logged_in(program, secured.bootstraps[listener], "", *arguments)[0] == VALUES


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_records_come_back_after_a_login_with_a_delegation_token(
    broker: SecuredBroker, program: str, mechanism: str
) -> None:
    token_id, hmac = asyncio.run(new_token(broker))
    address = broker.bootstraps["CLEAR"]
    arguments = ["-mechanism", mechanism, "-user", token_id]
    assert logged_in(program, address, hmac, "-token", *arguments)[0] == VALUES
    # Without the extension it is the password of a user that does not exist.
    assert "SASL_AUTHENTICATION_FAILED" in logged_in(program, address, hmac, *arguments, fails=True)[1]


async def new_token(broker: SecuredBroker) -> tuple[str, str]:
    """(id, HMAC as text) of a token that alice makes."""
    module = f"{CLASSES}.plain.PlainLoginModule"
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="alice" password="{PASSWORD}";',
    }
    connection = await opened(broker.bootstraps["CLEAR"], login)
    try:
        made = await connection.request(
            ApiKey.CREATE_DELEGATION_TOKEN, versions=(2, 2), renewers=[], max_lifetime=-1
        )
    finally:
        await connection.close()
    assert int(made.error_code) == 0, made
    return str(made.token_id), base64.b64encode(made.hmac).decode()
