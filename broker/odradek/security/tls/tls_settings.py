"""The settings of TLS on one listener, or for a client: Kafka's keys, read and checked together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek.foundation.errors import SettingError
from odradek.security.tls.tls_files import StoreSettings

if TYPE_CHECKING:
    from odradek.foundation.settings import Settings

TLS_1_2: Final = "TLSv1.2"
TLS_1_3: Final = "TLSv1.3"


class TlsOptions(NamedTuple):
    """TLS at one end. `name` says whose it is, for errors: `listener EXTERNAL`."""

    name: str
    keystore: StoreSettings
    truststore: StoreSettings
    key_password: str | None
    protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    client_auth: str
    checks_host: bool
    principal_rules: str

    def __repr__(self) -> str:
        return f"TlsOptions({self.name})"


def listener_tls(settings: Settings, listener_name: str, *, is_sasl: bool) -> TlsOptions:
    """The options of a listener. Raises SettingError where they cannot serve.

    With SASL, Kafka heeds ssl.client.auth only in its form for the listener, and so does this.
    """

    def value(key: str) -> Any:
        return settings.listener_value(listener_name, key, is_own=is_sasl and key == "ssl.client.auth")

    options = tls_options(f"listener {listener_name}", value)
    if not options.keystore.is_given:
        raise SettingError(
            f"{options.name} speaks TLS and has no certificate; set ssl.keystore.location, with ssl.keystore.type=PEM "
            "for a file with the key and its certificates"
        )
    if options.client_auth != "none" and not options.truststore.is_given:
        raise SettingError(
            f"{options.name} has ssl.client.auth={options.client_auth} and trusts no authority; set "
            "ssl.truststore.location, with ssl.truststore.type=PEM for a file of certificates"
        )
    return options


def tls_options(name: str, value: Callable[[str], Any]) -> TlsOptions:
    """The options that `value` gives by key. Raises SettingError."""

    def store(store_name: str, key: str | None, certificates: str | None) -> StoreSettings:
        kind, location, password = (
            value(f"{store_name}.{part}") for part in ("type", "location", "password")
        )
        return StoreSettings(store_name, kind, location, password, key, certificates)

    protocols = tuple(value("ssl.enabled.protocols"))
    if not protocols:
        raise SettingError(f"{name}: ssl.enabled.protocols is empty; name TLSv1.2, TLSv1.3 or both")
    return TlsOptions(
        name=name,
        keystore=store("ssl.keystore", value("ssl.keystore.key"), value("ssl.keystore.certificate.chain")),
        truststore=store("ssl.truststore", None, value("ssl.truststore.certificates")),
        key_password=value("ssl.key.password"),
        protocols=protocols,
        cipher_suites=tuple(value("ssl.cipher.suites")),
        client_auth=value("ssl.client.auth"),
        checks_host=bool(value("ssl.endpoint.identification.algorithm")),
        principal_rules=value("ssl.principal.mapping.rules"),
    )
