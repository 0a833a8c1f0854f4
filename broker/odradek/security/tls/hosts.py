"""The hosts that a certificate is for: the names and addresses of its extension subjectAltName (RFC 5280, 4.2.1.6).

    to be signed    SEQUENCE { …, [3] SEQUENCE { extension… } }
    extension       SEQUENCE { type, [critical], OCTET STRING { value } }
    value           SEQUENCE { [2] name | [7] address | … }

It is read as the subject is in `names`, and for the reasons there. A `*` stands for the whole first part of a name
(RFC 6125, 6.4.3).
"""

from __future__ import annotations

import ipaddress
from typing import Final

from odradek.security.tls.names import SEQUENCE, element, elements

_EXTENSIONS: Final = 0xA3
_ALTERNATIVE_NAMES: Final = bytes((0x55, 0x1D, 0x11))  # 2.5.29.17
_OCTET_STRING: Final = 0x04
_NAME: Final = 0x82
_ADDRESS: Final = 0x87


def is_for_host(certificate: bytes, host: str) -> bool:
    """Whether clients that check the host take a certificate (DER). False for bytes that are no certificate."""
    try:
        names, addresses = _hosts(certificate)
    except ValueError:
        return False
    try:
        return ipaddress.ip_address(host).packed in addresses
    except ValueError:
        pass
    name = host.lower().rstrip(".")
    _, dot, parent = name.partition(".")
    return name in names or (bool(dot) and f"*.{parent}" in names)


def _hosts(certificate: bytes) -> tuple[set[str], set[bytes]]:
    """Names in small letters, and addresses of 4 or 16 bytes."""
    names: set[str] = set()
    addresses: set[bytes] = set()
    to_be_signed = elements(element(element(memoryview(certificate)).content).content)
    for outer in to_be_signed:
        if outer.tag != _EXTENSIONS:
            continue
        for extension in elements(element(outer.content).content):
            parts = elements(extension.content) if extension.tag == SEQUENCE else []
            if not parts or bytes(parts[0].content) != _ALTERNATIVE_NAMES or parts[-1].tag != _OCTET_STRING:
                continue
            for one in elements(element(parts[-1].content).content):
                if one.tag == _NAME:
                    names.add(bytes(one.content).decode("ascii").lower())
                elif one.tag == _ADDRESS:
                    addresses.add(bytes(one.content))
    return names, addresses
