"""The clients of a mirror's clusters, from the properties of each."""

from __future__ import annotations

from typing import Final

from odradek.client.client import Client
from odradek.client.properties import (
    API_TIMEOUT_MS,
    BOOTSTRAP_SERVERS,
    CLIENT_ID,
    CONNECT_TIMEOUT_MS,
    METADATA_AGE_MS,
    REQUEST_TIMEOUT_MS,
    security_of,
)
from odradek.mirror.settings import ClusterSettings

_CLIENT_ID: Final = "odradek-mirror"
_REQUEST_MS: Final = 30_000
_CONNECT_MS: Final = 10_000
_METADATA_MS: Final = 60_000


def client_of(cluster: ClusterSettings) -> Client:
    """A client, not connected yet. Raises SettingError for properties that cannot serve."""
    properties = cluster.properties
    client_id = properties.get(CLIENT_ID, _CLIENT_ID)

    def number(key: str, default: int) -> int:
        return int(properties.get(key, default))

    request_ms = number(REQUEST_TIMEOUT_MS, _REQUEST_MS)
    return Client(
        properties[BOOTSTRAP_SERVERS],
        client_id=client_id,
        request_timeout_ms=request_ms,
        api_timeout_ms=number(API_TIMEOUT_MS, request_ms),
        connect_timeout_ms=number(CONNECT_TIMEOUT_MS, _CONNECT_MS),
        metadata_age_ms_max=number(METADATA_AGE_MS, _METADATA_MS),
        security=security_of(properties),
    )
