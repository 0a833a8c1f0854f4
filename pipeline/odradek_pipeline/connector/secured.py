"""The network of a client, as its settings ask for security. Its modules are imported where they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.client.properties import PLAINTEXT, SECURITY_PROTOCOL

if TYPE_CHECKING:
    from odradek.network.network import Network


def make_network(settings: Mapping[str, str], *, client_id: str) -> Network | None:
    """None for connections in plain text. Raises SettingError and DependencyError of `odradek`."""
    if settings.get(SECURITY_PROTOCOL, PLAINTEXT).strip().upper() == PLAINTEXT:
        return None
    from odradek.client.secured import secured_network

    return secured_network(settings, client_id=client_id)
