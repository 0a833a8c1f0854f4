"""The network of a client, secured as its properties ask (`client.properties` of Kafka's clients)."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from odradek.client.properties import PLAINTEXT, SECURITY_PROTOCOL, check_security
from odradek.foundation.errors import SettingError
from odradek.foundation.settings.broker_settings import USED
from odradek.foundation.settings.protection import WITH_SASL, WITH_TLS
from odradek.network.network import Network, SystemNetwork
from odradek.network.secured import ConnectionSecurity, SecureNetwork, connection_security
from odradek.security.authentication.credentials import Credentials
from odradek.security.tls.contexts import client_context
from odradek.security.tls.files import tls_options

if TYPE_CHECKING:
    from odradek.foundation.settings.declaration import SettingValue


def network_with(security: Mapping[str, str], *, client_id: str) -> Network | None:
    """The network for `Client(security=…)`. Raises as `secured_network`, SettingError for a property that is none of
    security too, and TypeError for a value that is no text.
    """
    check_security(security, source="security")
    return secured_network(security, client_id=client_id)


def secured_network(properties: Mapping[str, str], *, client_id: str = "odradek") -> Network | None:
    """The network for `Client(network=…)`, from Kafka's properties; None for PLAINTEXT.

    Raises SettingError for properties that cannot serve, and DependencyError for PKCS#12 without its package.
    """
    security = _security(properties)
    return None if security is None else SecureNetwork(SystemNetwork(), security, client_id=client_id)


def network_with_login(
    properties: Mapping[str, str], credentials: Credentials, *, client_id: str
) -> SecureNetwork:
    """The network for `Client(network=…)` that logs in with these credentials, not with those of the properties.

    Raises SettingError where the properties have no logins, and as `secured_network`.
    """
    protocol = protocol_of(properties)
    if protocol not in WITH_SASL:
        raise SettingError(f"{SECURITY_PROTOCOL} is {protocol}, which has no logins")
    tls = tls_options("the client", _values_of(properties)) if protocol in WITH_TLS else None
    return SecureNetwork(SystemNetwork(), ConnectionSecurity(tls, credentials), client_id=client_id)


class HttpSecurity(NamedTuple):
    """How a client asks at a broker's HTTP port. `tls` is None where the properties have none."""

    tls: ssl.SSLContext | None
    credentials: Credentials | None

    async def authorization(self) -> str | None:
        """The header of a login; None without one, and for a delegation token, which HTTP has no login for.

        Raises TokenUnavailable.
        """
        credentials = self.credentials
        if credentials is None or credentials.is_token:
            return None
        if credentials.tokens is not None:
            return f"Bearer {await credentials.tokens.token()}"
        pair = f"{credentials.user}:{credentials.password}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"


def http_security(properties: Mapping[str, str]) -> HttpSecurity:
    """The certificate, the authorities and the login of these properties, for HTTP. Raises as `secured_network`."""
    security = _security(properties)
    if security is None:
        return HttpSecurity(None, None)
    return HttpSecurity(None if security.tls is None else client_context(security.tls), security.credentials)


def https_context(properties: Mapping[str, str]) -> ssl.SSLContext | None:
    """The context for HTTPS with the authorities and the certificate of these properties; None without TLS.

    Raises as `secured_network`.
    """
    return http_security(properties).tls


def protocol_of(properties: Mapping[str, str]) -> str:
    """security.protocol in capitals."""
    return properties.get(SECURITY_PROTOCOL, PLAINTEXT).strip().upper()


def _security(properties: Mapping[str, str]) -> ConnectionSecurity | None:
    protocol = protocol_of(properties)
    if protocol == PLAINTEXT:
        return None
    return connection_security(protocol, _values_of(properties), name="the client")


def _values_of(properties: Mapping[str, str]) -> Callable[[str], SettingValue]:
    """The parsed value of a key, or its default."""

    def value(key: str) -> SettingValue:
        if key == "sasl.mechanism":
            return properties.get(key)
        return USED[key].parse(properties[key]) if key in properties else USED[key].default

    return value
