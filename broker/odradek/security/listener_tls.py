"""TLS at one listener of a broker or controller: the context in force, and the names of clients with certificates."""

from __future__ import annotations

import ssl

from odradek.security.distinguished_name import subject_name
from odradek.security.followed_context import FollowedContext
from odradek.security.principal_mapping import PrincipalMapping
from odradek.security.tls_contexts import server_context
from odradek.security.tls_settings import TlsOptions

ANONYMOUS = "User:ANONYMOUS"


class ListenerTls:
    """The context is replaced whole when files change; connections that are open keep theirs."""

    def __init__(self, options: TlsOptions) -> None:
        """Raises SettingError or DependencyError when the listener cannot serve with `options`."""
        self._mapping = PrincipalMapping(options.principal_rules)
        self.followed = FollowedContext(options, server_context)

    def context(self) -> ssl.SSLContext:
        """The context in force."""
        return self.followed.current

    def principal_of(self, certificate: bytes | None) -> str:
        """`User:` and the name that the listener's rules make of the subject. Raises MappingRefused, a ValueError."""
        if certificate is None:
            return ANONYMOUS
        return f"User:{self._mapping.name_of(subject_name(certificate))}"
