"""Real clients over TLS, with and without a certificate, and with logins by each mechanism: records come back."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import ssl
import subprocess
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer

from tests.compat.security.conftest import PASSWORD
from tests.support.broker_process import SecuredBroker
from tests.support.polling import wait_until

pytestmark = pytest.mark.clients

VALUES = [f"value {number}".encode() * 50 for number in range(200)]
PROTOCOLS = {"CLIENTS": "SSL", "NAMED": "SSL", "LOGIN": "SASL_SSL", "CLEAR": "SASL_PLAINTEXT"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def _librdkafka(broker: SecuredBroker, listener: str, mechanism: str) -> dict[str, Any]:
    protocol = PROTOCOLS[listener]
    options: dict[str, Any] = {
        "bootstrap.servers": broker.bootstraps[listener],
        "security.protocol": protocol,
    }
    if protocol.startswith("SASL"):
        options |= {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": PASSWORD}
    if protocol.endswith("SSL"):
        options["ssl.ca.location"] = str(broker.ca_file)
    if listener == "NAMED":
        options |= dict.fromkeys(("ssl.certificate.location", "ssl.key.location"), str(broker.alice_file))
    return options


def _with_confluent(broker: SecuredBroker, listener: str, mechanism: str, topic: str) -> list[bytes]:
    common = _librdkafka(broker, listener, mechanism)
    producer = Producer(common)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = Consumer(common | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    try:
        while len(found) < len(VALUES):
            message = consumer.poll(20)
            assert message is not None
            assert message.error() is None, message.error()
            found.append(message.value() or b"")
    finally:
        consumer.close()
    return found


def _python_options(broker: SecuredBroker, listener: str, mechanism: str) -> dict[str, Any]:
    protocol = PROTOCOLS[listener]
    options: dict[str, Any] = {
        "bootstrap_servers": broker.bootstraps[listener],
        "security_protocol": protocol,
    }
    if protocol.startswith("SASL"):
        login = {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}
        options |= {"sasl_mechanism": mechanism, **login}
    if protocol.endswith("SSL"):
        context = options["ssl_context"] = ssl.create_default_context(cafile=str(broker.ca_file))
        if listener == "NAMED":
            context.load_cert_chain(str(broker.alice_file))
    return options


def _with_kafka_python(broker: SecuredBroker, listener: str, mechanism: str, topic: str) -> list[bytes]:
    common = _python_options(broker, listener, mechanism)
    producer = KafkaProducer(**common)
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(30)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **common)
    found = [record.value for _, record in zip(VALUES, consumer, strict=False)]
    consumer.close()
    return found


def _with_aiokafka(broker: SecuredBroker, listener: str, mechanism: str, topic: str) -> list[bytes]:
    common = _python_options(broker, listener, mechanism)

    async def story() -> list[bytes]:
        async with AIOKafkaProducer(**common) as producer:
            for value in VALUES:
                await producer.send(topic, value)
            await producer.flush()
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **common) as consumer:
            return [(await asyncio.wait_for(consumer.getone(), 20)).value for _ in VALUES]

    return asyncio.run(story())


def _with_kcat(broker: SecuredBroker, listener: str, mechanism: str, topic: str) -> list[bytes]:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed: `apt-get install kcat`")
    options = [
        word
        for key, value in _librdkafka(broker, listener, mechanism).items()
        for word in ("-X", f"{key}={value}")
    ]
    kcat = ["kcat", *options, "-t", topic]
    subprocess.run([*kcat, "-P"], input=b"\n".join(VALUES), check=True, timeout=60)
    printed = subprocess.run([*kcat, "-C", "-e", "-q"], capture_output=True, check=True, timeout=60).stdout
    return printed.splitlines()


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [("CLIENTS", ""), ("NAMED", ""), *itertools.product(("LOGIN", "CLEAR"), MECHANISMS)],
)
@pytest.mark.parametrize(
    "run", [_with_confluent, _with_kafka_python, _with_aiokafka, _with_kcat], ids=lambda one: one.__name__[6:]
)
def test_records_come_back(
    secured: SecuredBroker,
    run: Callable[[SecuredBroker, str, str, str], list[bytes]],
    listener: str,
    mechanism: str,
) -> None:
    assert run(secured, listener, mechanism, f"{listener}-{uuid.uuid4().hex}") == VALUES


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_an_authentication_error_to_the_client(
    secured: SecuredBroker, mechanism: str
) -> None:
    errors: list[KafkaError] = []
    options = _librdkafka(secured, "CLEAR", mechanism) | {
        "sasl.password": "not-the-password",
        "error_cb": errors.append,
        "log_level": 0,
    }
    producer = Producer(options)
    wait_until("the client has an error", lambda: [producer.poll(0.2), errors][1])
    assert KafkaError._AUTHENTICATION in {error.code() for error in errors}


def test_a_long_connection_renews_its_login(secured: SecuredBroker) -> None:
    """Logins at this listener last three seconds: librdkafka 2.x renews them, and no record is lost."""
    topic = uuid.uuid4().hex
    failures: list[Any] = []
    producer = Producer(_librdkafka(secured, "CLEAR", "SCRAM-SHA-256"))
    for _ in range(40):
        producer.produce(topic, b"x", on_delivery=lambda error, _: failures.append(error) if error else None)
        producer.flush(10)
        time.sleep(0.1)
    assert failures == []
