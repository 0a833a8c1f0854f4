"""The parts of a certificate that are needed here, read from its DER after OpenSSL has checked it (RFC 5280).

Certificate     SEQUENCE { to be signed, algorithm, signature }
to be signed    SEQUENCE { [0] version, serial, algorithm, issuer, validity, subject, public key, … }
"""

from __future__ import annotations

from typing import Final, NamedTuple

SEQUENCE: Final = 0x30
_INTEGER: Final = 0x02
_VERSION: Final = 0xA0


class Element(NamedTuple):
    """One element of DER: its tag, its content, its whole bytes, and where the next begins."""

    tag: int
    content: memoryview
    whole: memoryview
    end: int


def element(data: memoryview, position: int = 0) -> Element:
    """The element that begins at `position`. Raises ValueError when `data` ends before the element does."""
    try:
        tag, size = data[position], data[position + 1]
        start = position + 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[start : start + count], "big")
            start += count
    except IndexError:
        raise ValueError("the certificate's bytes end too early") from None
    end = start + size
    if end > len(data):
        raise ValueError("the certificate's bytes end too early")
    return Element(tag, data[start:end], data[position:end], end)


def elements(data: memoryview) -> list[Element]:
    """The elements that stand one behind the other in `data`. Raises ValueError as `element`."""
    found: list[Element] = []
    position = 0
    while position < len(data):
        found.append(element(data, position))
        position = found[-1].end
    return found


class CertificateFields(NamedTuple):
    """Parts of a certificate, as in its DER."""

    validity: Element
    subject: Element
    public_key: Element


def certificate_fields(certificate: bytes) -> CertificateFields:
    """The parts of a certificate in DER. Raises ValueError for bytes that are no certificate."""
    to_be_signed = elements(element(element(memoryview(certificate)).content).content)
    # The version is optional.
    fields = to_be_signed[1:] if to_be_signed and to_be_signed[0].tag == _VERSION else to_be_signed
    if len(fields) < 6 or fields[0].tag != _INTEGER or fields[4].tag != SEQUENCE:
        raise ValueError("the bytes are no certificate")
    return CertificateFields(validity=fields[3], subject=fields[4], public_key=fields[5])
