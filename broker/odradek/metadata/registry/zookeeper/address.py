"""ZooKeeper's connect string: `host1:2181,host2:2181/chroot`, as in Kafka's zookeeper.connect."""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.foundation.errors import SettingError
from odradek.metadata.registry.node_tree import check_path

DEFAULT_PORT: Final = 2181


class Ensemble(NamedTuple):
    """The servers, and the root node of all others: "" or a path without a slash at its end."""

    servers: tuple[tuple[str, int], ...]
    chroot: str

    def __str__(self) -> str:
        return self.hosts + self.chroot

    @property
    def hosts(self) -> str:
        """The servers as a connect string without chroot."""
        return ",".join(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.servers
        )


def parse_ensemble(text: str) -> Ensemble:
    """The ensemble of a connect string. Raises SettingError that names the mistake."""
    addresses, slash, path = text.strip().partition("/")
    chroot = f"/{path}".rstrip("/") if slash else ""
    try:
        if chroot:
            check_path(chroot)
        return Ensemble(tuple(_server(word.strip()) for word in addresses.split(",")), chroot)
    except ValueError as error:
        raise SettingError(
            f"Invalid value {text} for configuration zookeeper.connect: {error}; "
            "it must be host:port pairs parted by commas, and may end with a path, as zk1:2181,zk2:2181/odradek"
        ) from error


def _server(word: str) -> tuple[str, int]:
    if word.startswith("["):
        host, bracket, port = word[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise ValueError(f"{word!r} is not an IPv6 address with a port")
        port = port[1:]
    else:
        host, _, port = word.partition(":")
        if ":" in port:
            raise ValueError(f"{word!r} has several colons; an IPv6 address must stand in brackets")
    if not host:
        raise ValueError(f"{word!r} names no host")
    if port and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65_536):
        raise ValueError(f"{port!r} is not a port")
    return host, int(port) if port else DEFAULT_PORT
