"""The hosts that a certificate is for, as clients judge them."""

from __future__ import annotations

import ssl

import pytest

from odradek.security.tls.names import is_for_host
from tests.support.certificates import Authority

LEAF = Authority().leaf(
    names=("Events-Bootstrap", "*.brokers.default.svc", "broker-1.example.org", "192.0.2.7", "2001:db8::7")
)


@pytest.mark.parametrize(
    ("host", "is_for"),
    [
        ("events-bootstrap", True),
        ("BROKER-1.example.org.", True),
        ("b-0.brokers.default.svc", True),
        ("192.0.2.7", True),
        ("2001:db8:0::7", True),
        ("broker-2.example.org", False),
        ("brokers.default.svc", False),
        ("a.b.brokers.default.svc", False),
        ("192.0.2.8", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_a_host_is_found_in_the_names_or_not(host: str, is_for: bool) -> None:
    assert is_for_host(LEAF.der, host) is is_for


def test_a_certificate_without_names_and_broken_bytes_are_for_no_host() -> None:
    assert not is_for_host(ssl.PEM_cert_to_DER_cert(Authority("localhost").pem), "localhost")
    assert not is_for_host(b"", "localhost")
    for end in range(0, len(LEAF.der), 7):
        assert not is_for_host(LEAF.der[:end], "192.0.2.7")
