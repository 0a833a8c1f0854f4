"""The reports of a Mirror's workers about themselves: `GET /mirror` of each pod's HTTP port.

A worker that does not answer, or answers in a form that is not known, costs its numbers and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import aiohttp

logger = logging.getLogger(__name__)

REQUEST_SECONDS_MAX: Final = 5.0
PAGE_BYTES_MAX: Final = 16 << 20
"""A page has a row for each partition of a worker; 100,000 of them are 16 MB."""
STATES_BY_URGENCY: Final = ("failed", "waiting", "stopped", "starting", "running")
"""The state of a worker for a source, the worst first. It waits after an error, before its next try."""
_FAILING: Final = frozenset({"failed", "waiting"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSeen:
    """A partition that a worker has. `error` is why it is not mirrored any more; None for what is not known."""

    topic: str
    lag: int | None = None
    lag_seconds: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSeen:
    """One worker's report about one source. `error` is its last error."""

    source: str
    state: str = ""
    error: str | None = None
    partitions: tuple[PartitionSeen, ...] = ()

    @property
    def is_failing(self) -> bool:
        """Whether nothing is mirrored because of an error."""
        return self.state in _FAILING


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPage:
    """One worker's page."""

    flows: tuple[FlowSeen, ...] = ()


class MirrorWorkers(Protocol):
    """Asks workers."""

    async def fetch_pages(self, hosts: Sequence[str], port: int) -> Sequence[WorkerPage | None]:
        """The page of the worker at each of these addresses; None of one that does not answer."""


class HttpMirrorWorkers:
    """Asks real workers; close it in the end."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def fetch_pages(self, hosts: Sequence[str], port: int) -> Sequence[WorkerPage | None]:
        return await asyncio.gather(*(self._fetch_page(host, port) for host in hosts))

    async def _fetch_page(self, host: str, port: int) -> WorkerPage | None:
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}/mirror"
        try:
            async with self._open_session().get(url) as response:
                text = (await response.content.read(PAGE_BYTES_MAX)).decode()
                if response.status != 200:
                    logger.info("%s answers %d: %s", url, response.status, text[:200])
                    return None
            return parse_page(json.loads(text))
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            logger.info("what a worker does is not known: %s: %s", url, failure or type(failure).__name__)
            return None

    def _open_session(self) -> aiohttp.ClientSession:
        # Made when first used: a session belongs to the loop it is made on.
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS_MAX))
        return self._session


def parse_page(found: object) -> WorkerPage:
    """A page as a value. Raises ValueError for what is none."""
    if not isinstance(found, dict) or not isinstance(found.get("flows"), list):
        raise ValueError("it is no page of a mirror")
    return WorkerPage(flows=tuple(_parse_flow(one) for one in found["flows"] if isinstance(one, dict)))


def _parse_flow(found: dict[str, Any]) -> FlowSeen:
    return FlowSeen(
        source=str(found.get("source", "")),
        state=str(found.get("state", "")),
        error=_parse_error(found.get("last_error")),
        partitions=tuple(
            PartitionSeen(
                topic=str(one.get("topic", "")),
                lag=_parse_number(one.get("lag")),
                lag_seconds=_parse_number(one.get("lag_seconds")),
                error=_parse_error(one.get("stopped")),
            )
            for one in found.get("partitions") or ()
            if isinstance(one, dict)
        ),
    )


def _parse_error(value: object) -> str | None:
    text = value.get("text") if isinstance(value, dict) else None
    return str(text) if text else None


def _parse_number(value: Any) -> Any:
    """A number that is not below zero; None for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return max(0, value) if is_number else None
