"""The age of records, asked at the brokers' admin ports: POST /record-times of each leader, all partitions at once.

Only lag in seconds hangs on it. So a port that does not answer costs that number and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Callable, Mapping
from typing import Final

import aiohttp

from odradek.client.addresses import Address
from odradek.foundation.ids import TopicPartition

logger = logging.getLogger(__name__)

REQUEST_SECONDS_MAX: Final = 5.0
PARTITIONS_PER_REQUEST: Final = 1_000
ADMIN_PORT: Final = 9644

AdminPort = Callable[[Address], str]
"""HOST:PORT of the admin port of the broker that serves clients at an address."""


def admin_port(address: Address) -> str:
    """In Kubernetes a broker's pod has the same name for all its ports."""
    return f"{address.host}:{ADMIN_PORT}"


class RecordTimes:
    """Asks brokers; close it in the end."""

    def __init__(self, port: AdminPort = admin_port) -> None:
        self._port = port
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def fetch_times(
        self,
        offsets: Mapping[Address, Mapping[TopicPartition, int]],
        https: ssl.SSLContext | None = None,
    ) -> dict[TopicPartition, int]:
        """Milliseconds of the records at these offsets, by the leader's address; what is not known is absent.

        With `https` the ports have TLS, and the operator shows its certificate.
        """
        asked = [
            self._ask(address, some, https)
            for address, wanted in offsets.items()
            for some in _split_offsets(wanted)
        ]
        found: dict[TopicPartition, int] = {}
        for answer in await asyncio.gather(*asked):
            found |= answer
        return found

    async def _ask(
        self, address: Address, offsets: Mapping[TopicPartition, int], https: ssl.SSLContext | None
    ) -> dict[TopicPartition, int]:
        body: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in offsets.items():
            body.setdefault(topic, {})[str(partition)] = offset
        url = f"{'http' if https is None else 'https'}://{self._port(address)}/record-times"
        try:
            async with self._open_session().post(url, json=body, ssl=https or True) as response:
                text = await response.text()
                if response.status != 200:
                    logger.info("%s answers %d: %s", url, response.status, text[:200])
                    return {}
                return {
                    TopicPartition(topic, int(partition)): int(timestamp_ms)
                    for topic, rows in json.loads(text).items()
                    for partition, timestamp_ms in rows.items()
                }
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            logger.info("lag in seconds is not known: %s: %s", url, failure or type(failure).__name__)
            return {}

    def _open_session(self) -> aiohttp.ClientSession:
        # Made when first used: a session belongs to the loop it is made on.
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS_MAX))
        return self._session


def _split_offsets(offsets: Mapping[TopicPartition, int]) -> list[dict[TopicPartition, int]]:
    rows = list(offsets.items())
    return [
        dict(rows[start : start + PARTITIONS_PER_REQUEST])
        for start in range(0, len(rows), PARTITIONS_PER_REQUEST)
    ]
