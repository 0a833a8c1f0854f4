"""Real clients that log in, by each mechanism, over TLS and in clear: records written and read back."""

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
from tests.support.secured_broker import SecuredBroker

pytestmark = pytest.mark.clients

VALUES = [f"value {number}".encode() for number in range(50)]
PROTOCOLS = {"LOGIN": "SASL_SSL", "CLEAR": "SASL_PLAINTEXT"}


def _librdkafka(broker: SecuredBroker, listener: str, mechanism: str) -> dict[str, Any]:
    options: dict[str, Any] = {
        "security.protocol": PROTOCOLS[listener],
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
    }
    if listener == "LOGIN":
        options["ssl.ca.location"] = str(broker.ca_file)
    return options


def _with_confluent(broker: SecuredBroker, listener: str, mechanism: str, topic: str) -> list[bytes]:
    common = {"bootstrap.servers": broker.bootstraps[listener], **_librdkafka(broker, listener, mechanism)}
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
    options: dict[str, Any] = {
        "bootstrap_servers": broker.bootstraps[listener],
        "security_protocol": PROTOCOLS[listener],
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": PASSWORD,
    }
    if listener == "LOGIN":
        options["ssl_context"] = ssl.create_default_context(cafile=str(broker.ca_file))
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
    kcat = ["kcat", "-b", broker.bootstraps[listener], *options, "-t", topic]
    subprocess.run([*kcat, "-P"], input=b"\n".join(VALUES), check=True, timeout=60)
    printed = subprocess.run([*kcat, "-C", "-e", "-q"], capture_output=True, check=True, timeout=60).stdout
    return printed.splitlines()


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    list(itertools.product(PROTOCOLS, ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"))),
)
@pytest.mark.parametrize(
    "run", [_with_confluent, _with_kafka_python, _with_aiokafka, _with_kcat], ids=lambda one: one.__name__[6:]
)
def test_records_come_back_after_a_login(
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
        "bootstrap.servers": secured.bootstraps["CLEAR"],
        "sasl.password": "not-the-password",
        "error_cb": errors.append,
        "log_level": 0,
    }
    producer = Producer(options)
    deadline = time.monotonic() + 20
    while not errors and time.monotonic() < deadline:
        producer.poll(0.2)
    assert KafkaError._AUTHENTICATION in {error.code() for error in errors}


def test_a_long_connection_renews_its_login(secured: SecuredBroker) -> None:
    """Logins at this listener last three seconds: librdkafka 2.x renews them, and no record is lost."""
    topic = uuid.uuid4().hex
    options = _librdkafka(secured, "CLEAR", "SCRAM-SHA-256") | {
        "bootstrap.servers": secured.bootstraps["CLEAR"]
    }
    failures: list[Any] = []
    producer = Producer(options)
    for _ in range(40):
        producer.produce(topic, b"x", on_delivery=lambda error, _: failures.append(error) if error else None)
        producer.flush(10)
        time.sleep(0.1)
    assert failures == []
