"""Makes the client of a command from its connection settings.

The client's modules are imported when one is made, because each verb imports this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.cli.connection_settings import ClientSettings

if TYPE_CHECKING:
    from odradek.client.client import Client
    from odradek.transport.network import Network


def new_client(settings: ClientSettings, *, wait_ms_max: int | None = None) -> Client:
    """A client with these settings, not yet connected. `wait_ms_max` limits its timeouts."""
    from odradek.client.client import Client

    def at_most(timeout_ms: int) -> int:
        return timeout_ms if wait_ms_max is None else min(timeout_ms, wait_ms_max)

    network: Network | None = None
    if settings.is_secured:
        from odradek.client.secured import secured_network

        network = secured_network(settings.security, client_id=settings.client_id)
    return Client(
        settings.bootstrap.value,
        network=network,
        client_id=settings.client_id,
        request_timeout_ms=at_most(settings.request_timeout_ms),
        api_timeout_ms=at_most(settings.api_timeout_ms),
        connect_timeout_ms=at_most(settings.connect_timeout_ms),
        metadata_age_ms_max=settings.metadata_age_ms_max,
    )
