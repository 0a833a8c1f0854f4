"""Listener addresses as settings write them: `NAME://host:port`, parted by commas, IPv6 hosts in brackets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from odradek.foundation.errors import SettingError
from odradek.foundation.named_tuple import NamedTuple

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_ENDPOINT: Final = re.compile(
    r"(?P<name>[^:/\s]+)://(?P<host>\[[0-9a-fA-F:.%\w]+\]|[^:/\[\]\s]*):(?P<port>\d{1,5})"
)


class Endpoint(NamedTuple):
    """One address of one listener. The host of "" stands for every interface, port 0 for a free one."""

    listener_name: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener_name}://{host}:{self.port}"


def parse_protocol_map(text: str) -> Mapping[str, str]:
    """`NAME:PROTOCOL,…` as a mapping with names in capitals. Raises SettingError."""
    protocols: dict[str, str] = {}
    for pair in filter(None, (word.strip() for word in text.split(","))):
        name, colon, protocol = pair.rpartition(":")
        if not colon or not name or protocol.strip().upper() not in SECURITY_PROTOCOLS:
            raise SettingError(
                f"Invalid value {text} for configuration listener.security.protocol.map: it must be NAME:PROTOCOL "
                f"pairs parted by commas, with the protocols {', '.join(SECURITY_PROTOCOLS)}"
            )
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def parse_endpoints(text: str, *, key: str, protocols: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """The endpoints in order. Raises SettingError, naming `key`, for a wrong address or unknown name."""
    endpoints: list[Endpoint] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        match = _ENDPOINT.fullmatch(word)
        if match is None or int(match["port"]) > 65_535:
            raise SettingError(
                f"Invalid value {text} for configuration {key}: {word} must look like NAME://host:port, "
                "as PLAINTEXT://127.0.0.1:9092 or PLAINTEXT://[::1]:9092, with a port of at most 65535"
            )
        name = match["name"].upper()
        if name not in protocols:
            raise SettingError(
                f"Invalid value {text} for configuration {key}: the listener {name} has no security protocol; "
                f"add {name}:PLAINTEXT to listener.security.protocol.map"
            )
        endpoints.append(Endpoint(name, match["host"].strip("[]"), int(match["port"]), protocols[name]))
    return tuple(endpoints)


def complete(
    advertised: tuple[Endpoint, ...], *, bound_ports: Mapping[str, int], host_name: str
) -> tuple[Endpoint, ...]:
    """The advertised endpoints once sockets are bound: `bound_ports`, by listener, replace ports of 0.

    Empty hosts become the host's name.
    """
    return tuple(
        endpoint._replace(
            host=endpoint.host if endpoint.host not in ("", "0.0.0.0", "::") else host_name,
            port=endpoint.port or bound_ports[endpoint.listener_name],
        )
        for endpoint in advertised
    )
