"""Certificates: one that a client has to show and does not, and the broker's own, changed on disk."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.broker_process import SecuredBroker
from tests.support.polling import wait_until

pytestmark = pytest.mark.clients


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
    wait_until(
        "the broker says why",
        lambda: (producer.poll(0.1), secured.log())[1],
        lambda log: "the peer showed no certificate, and ssl.client.auth=required" in log,
    )
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
