"""The identity of an authority, and the end of a certificate."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from odradek.foundation.settings.broker_settings import Settings
from odradek.security.tls.listener import (
    ListenerTls,
    authorities_of,
    certificates_of,
    listener_tls,
    not_after_seconds,
)
from tests.support.certificates import Authority

CA = Authority("Root")
MIDDLE = Authority("Middle", issuer=CA)


@pytest.mark.parametrize("days", [1, 365, 365 * 20, 365 * 60])
def test_the_end_is_that_of_the_certificate(days: int) -> None:
    # Beyond 2049 the date is written in another form.
    leaf = CA.leaf(days=days)
    assert not_after_seconds(leaf.der) == leaf.certificate.not_valid_after_utc.timestamp()


def test_bytes_that_are_no_certificate_are_refused() -> None:
    for data in (b"", b"\x30", b"\x30\x02\x30\x00", CA.leaf().der[:200]):
        with pytest.raises(ValueError, match="certificate"):
            not_after_seconds(data)
        with pytest.raises(ValueError, match="certificate"):
            authorities_of([data])


def test_an_authority_that_renews_its_certificate_stays_itself() -> None:
    now = datetime.datetime.now(datetime.UTC)
    renewed = (
        x509.CertificateBuilder()
        .subject_name(CA.subject)
        .issuer_name(CA.subject)
        .public_key(CA.private_key.public_key())
        .serial_number(77)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=9))
        .sign(CA.private_key, hashes.SHA256())
    )
    der = renewed.public_bytes(serialization.Encoding.DER)
    assert authorities_of([der]) == authorities_of(certificates_of(CA.pem))
    assert authorities_of([der]).isdisjoint(authorities_of(certificates_of(Authority("Root").pem)))


def test_trust_rests_on_any_certificate_of_the_chain() -> None:
    chain = [MIDDLE.leaf("alice").der, *certificates_of(MIDDLE.pem), *certificates_of(CA.pem)]

    def trusts(*authorities: Authority) -> bool:
        server = CA.leaf("broker")
        given = {
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": server.key,
            "ssl.keystore.certificate.chain": server.chain,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": "".join(one.pem for one in authorities),
        }
        tls = ListenerTls(listener_tls(Settings(given), "SSL", is_sasl=False))
        return tls.still_trusts(tls.authorities(chain))

    assert trusts(CA)
    assert trusts(MIDDLE)
    assert trusts(Authority("Other"), CA)
    assert not trusts(Authority("Other"))
    assert not trusts(Authority("Middle"), Authority("Root"))
