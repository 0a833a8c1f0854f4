"""The interface that keeps a listener's connections secret and names its clients; `security` implements it."""

from __future__ import annotations

from collections.abc import Iterable
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

    def authorities(self, chain: Iterable[bytes]) -> frozenset[bytes]:
        """Whom the trust in a client rests on, by the checked chain of its certificate in DER."""
        ...

    def still_trusts(self, authorities: frozenset[bytes]) -> bool:
        """Whether one of them is trusted at present."""
        ...
