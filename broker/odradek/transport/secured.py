"""What a listener needs to keep its connections secret and name its clients; `security` has the implementations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import ssl


class TlsListening(Protocol):
    """TLS at one listener."""

    def context(self) -> ssl.SSLContext:
        """The context in force, for a new connection."""
        ...

    def principal_of(self, certificate: bytes | None) -> str:
        """The principal of a client's checked certificate in DER, or of none. Raises ValueError to refuse it."""
        ...
