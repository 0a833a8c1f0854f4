"""TLS at one listener of a broker or controller: the context in force, and the names of clients with certificates.

A client is trusted for as long as the trust store has an authority of the chain that its certificate was checked with.
Authorities are compared by subject and key, so the renewed certificate of an authority ends no connection.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from odradek.foundation.errors import SettingError
from odradek.security.tls.contexts import FollowedContext, TlsMaterial, server_context
from odradek.security.tls.files import TlsOptions, tls_options
from odradek.security.tls.names import PrincipalMapping, certificate_fields, elements, subject_name

if TYPE_CHECKING:
    from odradek.foundation.settings.broker_settings import Settings
    from odradek.foundation.settings.declaration import SettingValue

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
_UTC_TIME: Final = 0x17
# Two digits of a year below it are of this century (RFC 5280, 4.1.2.5.1).
_PIVOT_YEAR: Final = 50
ANONYMOUS = "User:ANONYMOUS"


def listener_tls(settings: Settings, listener_name: str, *, is_sasl: bool) -> TlsOptions:
    """The options of a listener. Raises SettingError where they cannot serve.

    With SASL, Kafka heeds ssl.client.auth only in its form for the listener, and so does this.
    """

    def value(key: str) -> SettingValue:
        return settings.listener_value(listener_name, key, is_own=is_sasl and key == "ssl.client.auth")

    advertised = {one.listener_name: one.host for one in settings.advertised_endpoints}
    options = tls_options(f"listener {listener_name}", value, host=advertised.get(listener_name))
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


class ListenerTls:
    """The context is replaced whole when files change; connections that are open keep theirs."""

    def __init__(self, options: TlsOptions) -> None:
        """Raises SettingError or DependencyError when the listener cannot serve with `options`."""
        self._mapping = PrincipalMapping(options.principal_rules)
        self.followed = FollowedContext(options, server_context)
        self._trusted_material: TlsMaterial | None = None
        self._trusted: frozenset[bytes] = frozenset()

    def context(self) -> ssl.SSLContext:
        return self.followed.current

    def principal_of(self, certificate: bytes | None) -> str:
        """`User:` and the name that the listener's rules make of the subject. Raises MappingRefused, a ValueError."""
        if certificate is None:
            return ANONYMOUS
        return f"User:{self._mapping.name_of(subject_name(certificate))}"

    def authorities(self, chain: Iterable[bytes]) -> frozenset[bytes]:
        """Whom the trust in a client rests on: all of the chain (DER) that its certificate was checked with."""
        return authorities_of(chain)

    def still_trusts(self, authorities: frozenset[bytes]) -> bool:
        """Whether the trust store has one of these `authorities` at present."""
        material = self.followed.material
        if material is not self._trusted_material:
            self._trusted_material = material
            self._trusted = authorities_of(certificates_of(material.trusted or ""))
        return not self._trusted.isdisjoint(authorities)

    @property
    def not_after_seconds(self) -> float:
        """When the first certificate of the listener's own chain ends, in seconds since 1970."""
        key = self.followed.material.key
        assert key is not None, "a listener has a certificate"
        return min(not_after_seconds(one) for one in certificates_of(key.chain))


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
