"""Certificates of a Cluster's own authorities, as PEM: made, renewed, issued and read. The time is an argument.

Keys are P-256: a handshake with one takes 0.5 ms, with RSA-2048 1.2 ms. An authority that is renewed keeps its key and
subject, so certificates and trust of before continue to hold together.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ORGANIZATION: Final = "odradek.io"
"""Part of the subjects of brokers and operators. Users' certificates have a name only, so none can be taken for one."""

_CLOCKS_DIFFER: Final = timedelta(hours=1)
_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")


class KeyPair(NamedTuple):
    """A certificate and its private key (PKCS#8), as PEM. The key is never shown."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        return f"KeyPair({len(self.certificate)} characters)"


class CertificateFacts(NamedTuple):
    """The facts of a certificate. `names` are hosts and addresses, `common_name` is of its subject."""

    common_name: str
    not_after: datetime
    names: frozenset[str]


def make_authority(common_name: str, *, days: int, now: datetime) -> KeyPair:
    """An authority that signs itself. Its subject is its own: authorities of one name would be taken for each other."""
    key = ec.generate_private_key(ec.SECP256R1())
    number = x509.random_serial_number() % 2**48
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64]),
            x509.NameAttribute(NameOID.SERIAL_NUMBER, f"{number:012x}"),
        ]
    )
    return _sign_by_itself(subject, key, days=days, now=now)


def renew_authority(authority: KeyPair, *, days: int, now: datetime) -> KeyPair:
    """The same authority for a longer time."""
    return _sign_by_itself(_load(authority.certificate).subject, _load_key(authority.key), days=days, now=now)


def issue(
    authority: KeyPair,
    common_name: str,
    *,
    names: Iterable[str] = (),
    organization: str | None = None,
    days: int,
    now: datetime,
) -> KeyPair:
    """A certificate for a server that has these host names and addresses, or without any for a client alone.

    It ends with its authority at the latest.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    issuer, issuer_key = _load(authority.certificate), _load_key(authority.key)
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    until = min(now + timedelta(days=days), issuer.not_valid_after_utc)
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = _builder(subject, issuer.subject, key, now=now, until=until)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    if names := sorted(set(names)):
        usages.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_general_name(one) for one in names]), critical=False
        )
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
    )
    pair = _pair(builder.sign(issuer_key, hashes.SHA256()), key)
    if issuer.issuer == issuer.subject:
        return pair
    # A client may know only what is above the issuer.
    return pair._replace(certificate=pair.certificate + split_certificates(authority.certificate)[0])


def read_authority(certificates: str, key: str) -> KeyPair:
    """An authority of others: the first of its certificates, and its key. Raises ValueError with what is wrong."""
    try:
        first = split_certificates(certificates)[0]
        found = _load(first)
    except (IndexError, ValueError):
        raise ValueError("tls.crt has no certificate in PEM") from None
    try:
        private = _load_key(key)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("tls.key has no private key in PEM, or one with a password") from None
    if not isinstance(private, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ValueError("tls.key is neither of RSA nor of an elliptic curve (ECDSA)")
    if private.public_key() != found.public_key():
        raise ValueError("tls.key is not the key of tls.crt")
    try:
        is_authority = found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    if not is_authority:
        raise ValueError("tls.crt is not of an authority (isCA: true of cert-manager)")
    return KeyPair(first, key)


def split_certificates(text: str) -> tuple[str, ...]:
    """The certificates of a text in PEM, each with a line end. What stands between them is left out."""
    return tuple(f"{one}\n" for one in _CERTIFICATE.findall(text))


def has_same_key(certificate: str, other: str) -> bool:
    """Whether two certificates are of one key."""
    return bool(_load(certificate).public_key() == _load(other).public_key())


def facts_of(certificate: str) -> CertificateFacts:
    """Return the facts of a certificate. Raises ValueError for a text that is none."""
    found = _load(certificate)
    try:
        alternative = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = frozenset(
            [*alternative.get_values_for_type(x509.DNSName)]
            + [str(one) for one in alternative.get_values_for_type(x509.IPAddress)]
        )
    except x509.ExtensionNotFound:
        names = frozenset()
    common = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return CertificateFacts(str(common[0].value) if common else "", found.not_valid_after_utc, names)


def is_issued_by(certificate: str, authority: str) -> bool:
    """Whether the authority's key has signed this certificate; False too where one of them is none."""
    try:
        _load(certificate).verify_directly_issued_by(_load(authority))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def pkcs12_of(pair: KeyPair, authority: str, *, name: str, password: str) -> bytes:
    """Key, certificate and authority in one file for Java and others. No two are the same bytes."""
    return pkcs12.serialize_key_and_certificates(
        name.encode(),
        _load_key(pair.key),
        _load(pair.certificate),
        [_load(authority)],
        BestAvailableEncryption(password.encode()),
    )


def _sign_by_itself(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, days: int, now: datetime
) -> KeyPair:
    builder = _builder(subject, subject, key, now=now, until=now + timedelta(days=days))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    builder = builder.add_extension(usage, critical=True)
    return _pair(builder.sign(key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    *,
    now: datetime,
    until: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM).decode(), text.decode())


def _load(certificate: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(certificate.encode())


def _load_key(key: str) -> Any:
    return serialization.load_pem_private_key(key.encode(), password=None)
