"""Facts of certificates beside their subject: the identity of an authority, and the end of a certificate."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from odradek.security.tls.der import certificate_fields, elements

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
_UTC_TIME: Final = 0x17
# Two digits of a year below it are of this century (RFC 5280, 4.1.2.5.1).
_PIVOT_YEAR: Final = 50


def certificates_of(pem: str) -> list[bytes]:
    """The certificates in PEM text, as DER."""
    return [
        ssl.PEM_cert_to_DER_cert(_BEGIN + part.partition(_END)[0] + _END) for part in pem.split(_BEGIN)[1:]
    ]


def authorities_of(certificates: Iterable[bytes]) -> frozenset[bytes]:
    """The subjects of certificates (DER) with their keys: a digest of each one's subject and public key.

    An authority that renews its certificate with the same key stays the same authority.
    """
    return frozenset(_authority(certificate) for certificate in certificates)


def _authority(certificate: bytes) -> bytes:
    fields = certificate_fields(certificate)
    return hashlib.sha256(bytes(fields.subject.whole) + bytes(fields.public_key.whole)).digest()


def not_after_seconds(certificate: bytes) -> float:
    """When a certificate (DER) ends, in seconds since 1970. Raises ValueError for bytes that are no certificate."""
    _, end = elements(certificate_fields(certificate).validity.content)
    text = bytes(end.content).decode("ascii")
    if end.tag == _UTC_TIME:
        text = ("20" if int(text[:2]) < _PIVOT_YEAR else "19") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
