"""Our own client and command line on each kind of listener, with Kafka's client properties."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from odradek import sync
from odradek.client.client import Client
from odradek.client.errors import ConnectionFailed
from odradek.foundation.event_loop import run
from tests.compat.security.conftest import PASSWORD
from tests.support.broker_process import CHECKOUT, SecuredBroker
from tests.support.stories import in_real_time

pytestmark = pytest.mark.clients

LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def properties(broker: SecuredBroker, listener: str, password: str = PASSWORD) -> dict[str, str]:
    """What a client.properties has for a listener."""
    tls = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(broker.ca_file)}
    login = {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{LOGIN_MODULE} username="alice" password="{password}";',
    }
    named = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(broker.alice_file)}
    return {
        "CLIENTS": {"security.protocol": "SSL", **tls},
        "NAMED": {"security.protocol": "SSL", **tls, **named},
        "LOGIN": {"security.protocol": "SASL_SSL", **tls, **login},
        "CLEAR": {"security.protocol": "SASL_PLAINTEXT", **login},
    }[listener]


def odradek(
    broker: SecuredBroker,
    listener: str,
    config: dict[str, str],
    folder: Path,
    *arguments: str,
    stdin: str = "",
) -> subprocess.CompletedProcess[str]:
    path = folder / "client.properties"
    path.write_text("".join(f"{key}={text}\n" for key, text in config.items()))
    return subprocess.run(
        [
            sys.executable, "-m", "odradek", "--bootstrap", broker.bootstraps[listener],
            "--command-config", str(path), *arguments,
        ],
        input=stdin, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "broker")},
    )  # fmt: skip


@pytest.mark.parametrize("listener", ["CLIENTS", "NAMED", "LOGIN", "CLEAR"])
def test_the_command_line_writes_and_reads(secured: SecuredBroker, tmp_path: Path, listener: str) -> None:
    topic = f"{listener}-{uuid.uuid4().hex}"
    config = properties(secured, listener)
    wrote = odradek(secured, listener, config, tmp_path, "produce", topic, stdin="one\ntwo\n")
    assert wrote.returncode == 0, wrote.stderr
    read = odradek(secured, listener, config, tmp_path, "consume", topic, "--from-beginning", "--max", "2")
    assert read.returncode == 0, read.stderr
    assert "one" in read.stdout
    assert "two" in read.stdout
    assert PASSWORD not in wrote.stderr + read.stderr + read.stdout


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ssl.truststore.location": None}, "certificate is refused"),
        ({"password": "wrong"}, "refuses the login of 'alice'"),
        ({"sasl.mechanism": "GSSAPI"}, "cannot be used; choose from"),
        ({"security.protocol": "PLAINTEXT"}, "security.protocol is PLAINTEXT, which uses none of them"),
        ({"sasl.login.class": "a.B"}, "does not have: sasl.login.class"),
    ],
)
def test_what_fails_says_why_without_a_secret(
    secured: SecuredBroker, tmp_path: Path, change: dict[str, str | None], words: str
) -> None:
    config: dict[str, str | None] = dict(properties(secured, "LOGIN"))
    if "password" in change:
        config |= properties(secured, "LOGIN", "not-" + PASSWORD)
    config |= {key: text for key, text in change.items() if key != "password"}
    given = {key: text for key, text in config.items() if text is not None}
    done = odradek(secured, "LOGIN", given, tmp_path, "topics", "list", "--timeout", "5")
    assert done.returncode != 0
    assert words in done.stderr.replace("\n", " ")
    assert PASSWORD not in done.stderr


@in_real_time
async def test_a_certificate_for_another_host_is_refused(secured: SecuredBroker) -> None:
    port = secured.bootstraps["CLIENTS"].rpartition(":")[2]
    asked = properties(secured, "CLIENTS")
    # Another name of 127.0.0.1, which the certificate does not have.
    with pytest.raises(ConnectionFailed, match="certificate is refused"):
        async with Client(f"127.1:{port}", security=asked, api_timeout_ms=3000):
            pass
    anyone = asked | {"ssl.endpoint.identification.algorithm": ""}
    async with Client(f"127.1:{port}", security=anyone) as client:
        assert client.cluster.brokers


@pytest.mark.parametrize("listener", ["CLIENTS", "NAMED", "LOGIN", "CLEAR"])
def test_both_forms_log_in_with_properties(secured: SecuredBroker, listener: str) -> None:
    """Also one after another, as each has a network of its own."""
    security = properties(secured, listener)
    with sync.Client(secured.bootstraps[listener], security=security) as client:
        assert sync.Admin(client).topics.list() is not None

    async def ask() -> None:
        async with Client(secured.bootstraps[listener], security=security) as client:
            assert client.cluster.brokers

    run(ask())
