"""Certificates for tests: an authority, and leaves that it signs, as PEM. Each takes a millisecond (P-256)."""

from __future__ import annotations

import datetime
import ipaddress
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_numbers = itertools.count(1)
_SIGNS: Final = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def name(common_name: str, *more: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    """A subject whose most general part comes first, as certificates have it."""
    parts = [*more, (NameOID.COMMON_NAME, common_name)]
    return x509.Name([x509.NameAttribute(oid, text) for oid, text in parts])


class Leaf:
    """A key and its certificate, with the certificates between it and the root."""

    def __init__(
        self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, between: Sequence[str] = ()
    ) -> None:
        self.private_key = key
        self.certificate = certificate
        self.chain = certificate.public_bytes(serialization.Encoding.PEM).decode() + "".join(between)
        self.key = self.key_pem()

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    def key_pem(self, password: str | None = None) -> str:
        encryption = (
            serialization.BestAvailableEncryption(password.encode())
            if password
            else serialization.NoEncryption()
        )
        return self.private_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        ).decode()

    def pkcs12(self, password: str) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            b"leaf",
            self.private_key,
            self.certificate,
            None,
            serialization.BestAvailableEncryption(password.encode()),
        )

    def write(self, path: Path, *, password: str | None = None) -> Path:
        """Key and chain in one file of PEM."""
        path.write_text(self.key_pem(password) + self.chain)
        return path


class Authority:
    """Signs leaves and other authorities. Times are in days from now."""

    def __init__(self, common_name: str = "Test CA", *, issuer: Authority | None = None) -> None:
        self.private_key = ec.generate_private_key(ec.SECP256R1())
        self.subject = name(common_name)
        self._between: list[str] = []
        signer = issuer or self
        builder = _builder(self.subject, signer.subject, self.private_key, days=3650, since_days=-1)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(self.private_key.public_key()), critical=False
        )
        builder = builder.add_extension(_SIGNS, critical=True).add_extension(
            _issued_by(signer), critical=False
        )
        self.certificate = builder.sign(signer.private_key, hashes.SHA256())
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM).decode()
        if issuer is not None:
            self._between = [self.pem, *issuer._between]

    def leaf(
        self,
        common_name: str = "localhost",
        *,
        subject: x509.Name | None = None,
        names: Sequence[str] = ("localhost", "127.0.0.1", "::1"),
        days: float = 30,
        since_days: float = -1,
        usages: Sequence[x509.ObjectIdentifier] = (
            ExtendedKeyUsageOID.SERVER_AUTH,
            ExtendedKeyUsageOID.CLIENT_AUTH,
        ),
    ) -> Leaf:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject or name(common_name), self.subject, key, days=days, since_days=since_days)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        builder = builder.add_extension(_issued_by(self), critical=False)
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_alternative(one) for one in names]), critical=False
        )
        return Leaf(key, builder.sign(self.private_key, hashes.SHA256()), self._between)

    def write(self, path: Path) -> Path:
        path.write_text(self.pem)
        return path


def _issued_by(authority: Authority) -> x509.AuthorityKeyIdentifier:
    """Python 3.13 asks for it by default, and for an authority's key usage (RFC 5280)."""
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.private_key.public_key())


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    *,
    days: float,
    since_days: float,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(next(_numbers) + (int(now.timestamp()) << 32))
        .not_valid_before(now + datetime.timedelta(days=since_days))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _alternative(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
