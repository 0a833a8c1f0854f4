"""The versions of APIs that brokers support (KIP-35), and their features (KIP-584), from ApiVersions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from odradek.client.client import Client
from odradek.client.connection import SOFTWARE_NAME, read_finalized_features
from odradek.client.errors import raise_for
from odradek.foundation.version import __version__
from odradek.wire.protocol.api import ApiKey

if TYPE_CHECKING:
    from odradek.wire.protocol.responses.cluster import ApiVersionsResponse

# Version 3 adds features, version 4 those whose lowest version is 0 (KIP-1011).
API_VERSIONS_VERSIONS: Final = (0, 4)


@dataclass(frozen=True, slots=True)
class BrokerVersions:
    """One broker's versions: the lowest and the highest of each API, by its key. `supported_features` have their lowest
    and highest version, `finalized_features` the level in force for the cluster. `finalized_epoch` is -1 if the broker
    does not report it.
    """

    apis: Mapping[int, tuple[int, int]]
    supported_features: Mapping[str, tuple[int, int]]
    finalized_features: Mapping[str, int]
    finalized_epoch: int


async def broker_versions(client: Client, broker_ids: Collection[int] = ()) -> dict[int, BrokerVersions]:
    """The versions of these brokers, of all without ids. Raises NoSuchBroker, ConnectionFailed."""
    cluster = await client.with_retries(lambda: client.refresh(()))
    cluster.require_brokers(broker_ids)
    wanted = sorted(set(broker_ids) or cluster.brokers)
    return dict(zip(wanted, await asyncio.gather(*(_of(client, one) for one in wanted)), strict=True))


async def _of(client: Client, broker_id: int) -> BrokerVersions:
    response: ApiVersionsResponse = await (await client.broker(broker_id)).request(
        ApiKey.API_VERSIONS,
        versions=API_VERSIONS_VERSIONS,
        client_software_name=SOFTWARE_NAME,
        client_software_version=__version__,
    )
    raise_for(response.error_code, about=f"broker {broker_id}")
    features = read_finalized_features(response)
    return BrokerVersions(
        apis={one.api_key: (one.min_version, one.max_version) for one in response.api_keys},
        supported_features={
            one.name: (one.min_version, one.max_version)
            for one in getattr(response, "supported_features", ())
        },
        finalized_features=features.levels,
        finalized_epoch=features.epoch,
    )


def api_name(api_key: int) -> str:
    """The name as Kafka writes it, `ListOffsets`; `Unknown(n)` for an API that this client does not know."""
    try:
        return ApiKey(api_key).kafka_name
    except ValueError:
        return f"Unknown({api_key})"
