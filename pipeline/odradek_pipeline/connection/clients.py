"""A client for the brokers, with its errors as those of the pipeline. No Spark session is needed for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from odradek.client.client import Client
from odradek.client.errors import ClientTimeout, ConnectionFailed
from odradek.client.properties import (
    API_TIMEOUT_MS,
    BOOTSTRAP_SERVERS,
    CONNECT_TIMEOUT_MS,
    PLAINTEXT,
    REQUEST_TIMEOUT_MS,
    SECURITY_PROTOCOL,
    read_client_properties,
)
from odradek.client.suggestions import with_suggestion
from odradek.foundation.errors import DependencyError, OdradekError, SettingError, UnknownTopicOrPartition
from odradek_pipeline.errors import (
    AnswerTimeoutError,
    NotFoundError,
    PipelineError,
    PipelineSettingError,
    UnreachableError,
)

if TYPE_CHECKING:
    from odradek.network.network import Network

_CLIENT_ID: Final = "odradek-pipeline"


@asynccontextmanager
async def connect_client(settings: Mapping[str, str], what: str) -> AsyncIterator[Client]:
    """A connected client for the brokers that `settings` name. `what` says for messages what fails without it.

    Raises PipelineError for what brokers say: each kind has its exit code.
    """
    try:
        async with make_client(settings) as client:
            try:
                yield client
            except UnknownTopicOrPartition as failure:
                better = await with_suggestion(client, failure)
                if better is failure:
                    raise
                raise better from failure
    except UnknownTopicOrPartition as failure:
        raise NotFoundError(f"{failure}. The brokers are {settings[BOOTSTRAP_SERVERS]}") from failure
    except ClientTimeout as failure:
        raise AnswerTimeoutError(str(failure)) from failure
    except ConnectionFailed as failure:
        raise UnreachableError(str(failure)) from failure
    except OdradekError as failure:
        raise PipelineError(f"{what}: {failure}") from failure


def make_client(settings: Mapping[str, str]) -> Client:
    """A client for the brokers that `settings` name, not yet connected. Raises PipelineSettingError.

    Settings that only Spark's consumers know have no effect on it.
    """
    try:
        known = read_client_properties(settings, source="the connection").values
        network = make_network(known, client_id=_CLIENT_ID)
    except (SettingError, DependencyError) as failure:
        raise PipelineSettingError(str(failure)) from failure
    return Client(
        known[BOOTSTRAP_SERVERS],
        network=network,
        client_id=_CLIENT_ID,
        request_timeout_ms=int(known.get(REQUEST_TIMEOUT_MS, "30000")),
        api_timeout_ms=int(known.get(API_TIMEOUT_MS, "60000")),
        connect_timeout_ms=int(known.get(CONNECT_TIMEOUT_MS, "10000")),
    )


def make_network(settings: Mapping[str, str], *, client_id: str) -> Network | None:
    """The network of a client, as its settings ask for security; None for connections in plain text.

    Raises SettingError and DependencyError of `odradek`. The modules of security are imported where they are asked for.
    """
    if settings.get(SECURITY_PROTOCOL, PLAINTEXT).strip().upper() == PLAINTEXT:
        return None
    from odradek.client.secured import secured_network

    return secured_network(settings, client_id=client_id)
