"""TLS and logins of the documents' clients.

To brokers they are the properties of today's clients: security.protocol, sasl.* and ssl.*. To ZooKeeper they are a
broker's own settings: zookeeper.digest.*, zookeeper.sasl.client, zookeeper.ssl.* and zookeeper.set.acl.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.client.classic.errors import InvalidConfigException
from odradek.client.properties import PLAINTEXT, SECURITY_PROTOCOL, check_security
from odradek.foundation.errors import SettingError
from odradek.foundation.settings.areas.zookeeper import USED, ZookeeperSettings
from odradek.network.network import Network

_BROKER_PREFIXES: Final = ("security.", "sasl.", "ssl.")
# Those that the clients have properties of their own for, and the number of requests under way.
_OTHERS: Final = {
    "zookeeper.connect",
    "zookeeper.session.timeout.ms",
    "zookeeper.connection.timeout.ms",
    "zookeeper.max.in.flight.requests",
}
_ZOOKEEPER_NAMES: Final = frozenset(USED) - _OTHERS


class ClientSecurity:
    """What a client's properties say of security."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Raises InvalidConfigException. No value is shown, since it may be a secret."""
        self._brokers = {name: text for name, text in texts.items() if name.startswith(_BROKER_PREFIXES)}
        self.zookeeper = {name: text for name, text in texts.items() if name in _ZOOKEEPER_NAMES}
        try:
            check_security(self._brokers, source="the client's configuration")
            ZookeeperSettings(self.zookeeper)
        except SettingError as failure:
            raise InvalidConfigException(str(failure)) from None

    @property
    def names(self) -> frozenset[str]:
        """The properties that belong here."""
        return frozenset((*self._brokers, *self.zookeeper))

    @property
    def protocol(self) -> str:
        """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        return self._brokers.get(SECURITY_PROTOCOL, PLAINTEXT).strip().upper()

    def network(self, given: Network | None, *, client_id: str) -> Network | None:
        """The network of a client; `given` is the one that the program has made.

        Raises InvalidConfigException for properties that cannot serve, DependencyError for PKCS#12 without its package.
        """
        if self.protocol == PLAINTEXT:
            return given
        if given is not None:
            raise InvalidConfigException(
                f"{SECURITY_PROTOCOL} and a network of the program's own were given; give one"
            )
        # It loads what TLS and logins need.
        from odradek.client.secured import secured_network

        try:
            return secured_network(self._brokers, client_id=client_id)
        except SettingError as failure:
            raise InvalidConfigException(str(failure)) from None
