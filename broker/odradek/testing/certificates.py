"""A certificate for 127.0.0.1 and localhost, and the authority that has signed it.

This module is loaded with the first certificate: a broker without TLS needs no cryptography.
"""

from __future__ import annotations

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_DAYS = 30


def make_certificates() -> tuple[bytes, bytes]:
    """The authority's certificate, and the broker's key with its certificate; both as PEM, valid for 30 days."""
    authority_key, broker_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    key_id = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    signs = dict.fromkeys(
        (
            "digital_signature",
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    authority = (
        _certificate_of("odradek.testing", authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**signs, key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(key_id, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    broker = (
        _certificate_of("localhost", broker_key)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        # Python 3.13 asks for it.
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key = broker_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return authority.public_bytes(pem), key + broker.public_bytes(pem)


def _certificate_of(name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    """A certificate of this name that the authority is to sign."""
    now = datetime.datetime.now(datetime.UTC)

    def make_name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    return (
        x509.CertificateBuilder()
        .subject_name(make_name(name))
        .issuer_name(make_name("odradek.testing"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
    )
