"""Bootstrap addresses as people write them: `host`, `host:9092`, `10.0.0.1:9092`, `[::1]:9092`, several by commas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

PORT_DEFAULT = 9092


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(given: str | Iterable[str]) -> tuple[Address, ...]:
    """The addresses in the order given, each once. Raises ValueError naming the part that is wrong."""
    parts = (
        given.split(",") if isinstance(given, str) else [part for text in given for part in text.split(",")]
    )
    addresses = tuple(dict.fromkeys(_parse(part.strip()) for part in parts if part.strip()))
    if not addresses:
        raise ValueError("no broker address given; write it like 127.0.0.1:9092")
    return addresses


def _parse(text: str) -> Address:
    without_scheme = text.partition("://")[2] or text
    if without_scheme.startswith("["):
        host, bracket, rest = without_scheme[1:].partition("]")
        if not bracket or not host or (rest and not rest.startswith(":")):
            raise ValueError(f"{text!r} is no address; write IPv6 like [::1]:9092")
        return Address(host, _port(rest[1:], text) if rest else PORT_DEFAULT)
    if without_scheme.count(":") > 1:
        raise ValueError(f"{text!r} is no address; write IPv6 in brackets, like [::1]:9092")
    host, colon, port = without_scheme.partition(":")
    if not host:
        raise ValueError(f"{text!r} names no host; write it like 127.0.0.1:9092")
    return Address(host, _port(port, text) if colon else PORT_DEFAULT)


def _port(digits: str, text: str) -> int:
    if not digits.isdigit() or not 0 < int(digits) < 65536:
        raise ValueError(f"{text!r} has no port between 1 and 65535")
    return int(digits)
