"""Whose quotas and credentials: a user, a client id, both together, or an IP address (KIP-55, KIP-546, KIP-612)."""

from __future__ import annotations

from typing import Final

from odradek.foundation.named_tuple import NamedTuple

# Instead of a name: the default of all that have no entry of their own. No user or client id of an entry is empty.
DEFAULT: Final = ""


class ClientEntity(NamedTuple):
    """The names of an entry; None for a part that it does not have. An address is alone."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def __str__(self) -> str:
        """As in `user alice, default client id`."""
        parts = (("user", self.user), ("client id", self.client_id), ("IP address", self.ip))
        return ", ".join(
            f"default {what}" if name == DEFAULT else f"{what} {name}"
            for what, name in parts
            if name is not None
        )
