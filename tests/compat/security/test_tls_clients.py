"""Real clients over TLS, with and without a certificate of their own: records written and read back."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from tests.support.polling import wait_until
from tests.support.secured_broker import SecuredBroker

pytestmark = pytest.mark.clients

VALUES = [f"value {number}".encode() * 50 for number in range(200)]


def _with_confluent(broker: SecuredBroker, listener: str, topic: str) -> list[bytes]:
    common: dict[str, Any] = {
        "bootstrap.servers": broker.bootstraps[listener],
        "security.protocol": "SSL",
        "ssl.ca.location": str(broker.ca_file),
    }
    if listener == "NAMED":
        common |= {
            "ssl.certificate.location": str(broker.alice_file),
            "ssl.key.location": str(broker.alice_file),
        }
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


def _context(broker: SecuredBroker, listener: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(broker.ca_file))
    if listener == "NAMED":
        context.load_cert_chain(str(broker.alice_file))
    return context


def _with_kafka_python(broker: SecuredBroker, listener: str, topic: str) -> list[bytes]:
    common: dict[str, Any] = {
        "bootstrap_servers": broker.bootstraps[listener],
        "security_protocol": "SSL",
        "ssl_context": _context(broker, listener),
    }
    producer = KafkaProducer(**common)
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(30)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **common)
    found = [record.value for _, record in zip(VALUES, consumer, strict=False)]
    consumer.close()
    return found


def _with_aiokafka(broker: SecuredBroker, listener: str, topic: str) -> list[bytes]:
    common: dict[str, Any] = {
        "bootstrap_servers": broker.bootstraps[listener],
        "security_protocol": "SSL",
        "ssl_context": _context(broker, listener),
    }

    async def story() -> list[bytes]:
        async with AIOKafkaProducer(**common) as producer:
            for value in VALUES:
                await producer.send(topic, value)
            await producer.flush()
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **common) as consumer:
            return [(await asyncio.wait_for(consumer.getone(), 20)).value for _ in VALUES]

    return asyncio.run(story())


def _with_kcat(broker: SecuredBroker, listener: str, topic: str) -> list[bytes]:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed: `apt-get install kcat`")
    options = ["-X", "security.protocol=SSL", "-X", f"ssl.ca.location={broker.ca_file}"]
    if listener == "NAMED":
        options += ["-X", f"ssl.certificate.location={broker.alice_file}"]
        options += ["-X", f"ssl.key.location={broker.alice_file}"]
    kcat = ["kcat", "-b", broker.bootstraps[listener], *options, "-t", topic]
    subprocess.run([*kcat, "-P"], input=b"\n".join(VALUES), check=True, timeout=60)
    printed = subprocess.run([*kcat, "-C", "-e", "-q"], capture_output=True, check=True, timeout=60).stdout
    return printed.splitlines()


@pytest.mark.parametrize("listener", ["CLIENTS", "NAMED"])
@pytest.mark.parametrize(
    "run", [_with_confluent, _with_kafka_python, _with_aiokafka, _with_kcat], ids=lambda one: one.__name__[6:]
)
def test_records_come_back_over_tls(
    secured: SecuredBroker, run: Callable[[SecuredBroker, str, str], list[bytes]], listener: str
) -> None:
    assert run(secured, listener, f"{listener}-{uuid.uuid4().hex}") == VALUES


def test_a_client_without_a_certificate_is_refused_where_one_is_required(secured: SecuredBroker) -> None:
    producer = Producer(
        {
            "bootstrap.servers": secured.bootstraps["NAMED"],
            "security.protocol": "SSL",
            "ssl.ca.location": str(secured.ca_file),
            "log_level": 0,
        }
    )
    producer.produce("never", b"x")
    deadline = time.monotonic() + 60
    while "the peer showed no certificate, and ssl.client.auth=required" not in secured.log():
        assert time.monotonic() < deadline, secured.log()
        producer.poll(0.1)
    producer.purge()
    producer.flush(10)


def test_a_certificate_changed_on_disk_is_shown_within_seconds(tmp_path: Path) -> None:
    broker = SecuredBroker(tmp_path, kinds={"CLIENTS": "SSL"})
    broker.start()
    try:
        host, port = broker.bootstraps["CLIENTS"].split(":")

        def number() -> str:
            context = ssl.create_default_context(cafile=str(broker.ca_file))
            with (
                socket.create_connection((host, int(port)), timeout=10) as plain,
                context.wrap_socket(plain, server_hostname="localhost") as secured,
            ):
                found = secured.getpeercert()
                assert found is not None
                return str(found["serialNumber"])

        before = number()
        fresh = broker.authority.leaf("broker").write(tmp_path / "fresh.pem")
        fresh.replace(broker.server_file)
        wait_until("the certificate is another one", number, lambda seen: seen != before, pause_seconds=0.2)
        assert "has new certificates" in broker.log()
    finally:
        broker.close()
