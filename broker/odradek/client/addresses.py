"""Bootstrap addresses as users write them: `host`, `host:9092`, `10.0.0.1:9092`, `[::1]:9092`, several with commas.

An address has no scheme, path or password. Only `PLAINTEXT://` is allowed before it, as in a broker's listeners. Every
other scheme names another protocol, or security that this client lacks, and is refused. The default port is 9092, as in
rpk and kcat (Kafka's own tools require a port). Names are not resolved here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

PORT_DEFAULT = 9092
_PLAIN = "plaintext"
_SECURE = ("ssl", "sasl_ssl", "sasl_plaintext")
# Letters of any language (internationalised names are resolved), digits, and the characters that join parts of names.
_HOST = re.compile(r"[\w.-]+\Z")


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(given: str | Iterable[str]) -> tuple[Address, ...]:
    """The addresses in the order given, each once. Raises TypeError, and ValueError naming the wrong part."""
    texts: list[object] = (
        [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    )
    parts: list[str] = []
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"bootstrap has to be a str like '127.0.0.1:9092', not {given!r}")
        parts += text.split(",")
    addresses = tuple(dict.fromkeys(_parse(part.strip()) for part in parts if part.strip()))
    if not addresses:
        raise ValueError("no broker address given; write it like 127.0.0.1:9092")
    return addresses


def _parse(text: str) -> Address:
    address = _without_scheme(text)
    before, slash, path = address.partition("/")
    if slash:
        raise ValueError(
            f"{text!r} has a path ({slash + path!r}); a broker's address has none: write {before!r}"
        )
    if "@" in address:
        # The address is not shown: it may contain a password.
        without_user = address.rpartition("@")[2]
        raise ValueError(f"a broker's address has no user before an '@'; write {without_user!r}")
    if address.startswith("["):
        return _ipv6(address, text)
    if address.count(":") > 1:
        raise ValueError(f"{text!r} is not an address; write IPv6 in brackets, like [::1]:{PORT_DEFAULT}")
    host, colon, port = address.partition(":")
    if not host:
        raise ValueError(f"{text!r} names no host; write it like 127.0.0.1:{PORT_DEFAULT}")
    if not _HOST.match(host):
        raise ValueError(f"{text!r} is not an address: {host!r} is not the name of a host; write HOST:PORT")
    return Address(host, _port(port, text) if colon else PORT_DEFAULT)


def _without_scheme(text: str) -> str:
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() == _PLAIN:
        return rest if separator else text
    if scheme.lower() in _SECURE:
        raise ValueError(
            f"{text!r} has a protocol, and an address has none; write {rest or 'HOST:PORT'!r}, and set "
            f"security.protocol to {scheme.upper()}"
        )
    host = rest.partition("/")[0]
    written = host if ":" in host else f"{host or 'HOST'}:{PORT_DEFAULT}"
    raise ValueError(
        f"{text!r} is a URL, and a broker speaks Kafka's protocol, not {scheme!r}; write {written!r} "
        "if that is the broker's port"
    )


def _ipv6(address: str, text: str) -> Address:
    import ipaddress  # rarely needed, and the command line starts faster without it

    host, bracket, rest = address[1:].partition("]")
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        bracket = ""
    if not bracket or (rest and not rest.startswith(":")):
        raise ValueError(f"{text!r} is not an address; write IPv6 like [::1]:{PORT_DEFAULT}")
    return Address(host, _port(rest[1:], text) if rest else PORT_DEFAULT)


def _port(digits: str, text: str) -> int:
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits[:6]) < 65536):
        raise ValueError(f"{text!r} has no port between 1 and 65535; write it like 127.0.0.1:{PORT_DEFAULT}")
    return int(digits)
