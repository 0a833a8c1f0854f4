"""What one look of `odradek top` finds, asked through the client as the console asks it. A look never changes anything.

A look asks each broker for its disks, its groups and the ends of the logs that it leads; for each group its offsets.
Members are counted by few requests. A part that fails is named, and the others are shown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple, Protocol, TypeVar

from odradek.cli.cluster.top.rates import NO_GROUPS, NO_TOPICS, ClusterLook, TopicBytes, sum_bytes
from odradek.client.admin.group_members import count_members
from odradek.client.admin.health_probes import cluster_health
from odradek.client.admin.http_port import AdminPages, open_pages
from odradek.client.admin.logs import LATEST, LogAdmin
from odradek.client.client import Client
from odradek.client.errors import ConnectionFailed
from odradek.client.metadata import ClusterInfo
from odradek.client.secured import HttpSecurity
from odradek.console.cluster_facts import (
    DoctorFindings,
    GroupDetail,
    describe_group,
    find_findings,
    list_groups,
    list_topics,
)
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.top_limits import ADMIN_PAGE_BYTES_MAX, ADMIN_PAGE_SECONDS_MAX

T = TypeVar("T")


class Admins(NamedTuple):
    """The brokers' HTTP ports whose /metrics are read, and how."""

    urls: Sequence[str]
    security: HttpSecurity


class Looking(Protocol):
    """Where the screen gets what it shows. Each call raises OdradekError or OSError."""

    async def look(self) -> ClusterLook: ...

    async def find(self) -> DoctorFindings: ...

    async def describe(self, group_id: str) -> GroupDetail: ...


class ClusterLooks:
    """Looks at the cluster of `client`, one after the other."""

    def __init__(
        self, client: Client, *, bootstrap: str, security_protocol: str, admins: Admins | None = None
    ) -> None:
        self._client = client
        self._bootstrap = bootstrap
        self._security_protocol = security_protocol
        self._admins = admins

    async def look(self) -> ClusterLook:
        """The cluster now. Raises ConnectionFailed or ClientTimeout when no broker answers."""
        client, asked_ms, started = self._client, time.time_ns() // 1_000_000, time.monotonic()
        unasked: dict[str, str] = {}
        counting = asyncio.create_task(self._count_bytes(unasked))
        try:
            health = await cluster_health(client)
            # The health has just asked for all topics.
            cluster = client.cluster
            no_ends: Mapping[TopicPartition, int] = {}
            topics, ends = await asyncio.gather(
                _ask_part(unasked, "topics", lambda: list_topics(client, cluster), NO_TOPICS),
                _ask_part(unasked, "ends of logs", lambda: _find_ends(client, cluster), no_ends),
            )
            ends_at = time.monotonic()
            groups = await _ask_part(
                unasked, "groups", lambda: list_groups(client, brokers=cluster.brokers, ends=ends), NO_GROUPS
            )
            groups_at = time.monotonic()
            listings = [one.listing for one in groups.groups.values()]
            members = await count_members(client, listings, groups.coordinators)
            counted = await counting
        finally:
            counting.cancel()
        return ClusterLook(
            asked_ms=asked_ms,
            took_seconds=time.monotonic() - started,
            health=health,
            topics=topics,
            ends=ends,
            ends_at=ends_at,
            groups=groups,
            groups_at=groups_at,
            members=members,
            counted=counted[0],
            counted_at=counted[1],
            unasked=unasked,
        )

    async def find(self) -> DoctorFindings:
        """What the doctor's rules say now. Raises as `look`."""
        return await find_findings(
            self._client, bootstrap=self._bootstrap, security_protocol=self._security_protocol
        )

    async def describe(self, group_id: str) -> GroupDetail:
        """One group with its members and partitions. Raises GroupIdNotFound, …"""
        return await describe_group(self._client, group_id)

    async def _count_bytes(self, unasked: dict[str, str]) -> tuple[Mapping[str, TopicBytes] | None, float]:
        if self._admins is None or not self._admins.urls:
            return None, 0.0
        try:
            async with open_pages(self._admins.security, seconds_max=ADMIN_PAGE_SECONDS_MAX) as pages:
                texts = await asyncio.gather(*(_read_metrics(pages, one) for one in self._admins.urls))
        except OdradekError as failure:
            unasked["metrics"] = str(failure)
            return None, 0.0
        return sum_bytes(texts), time.monotonic()


async def _ask_part(unasked: dict[str, str], what: str, ask: Callable[[], Awaitable[T]], otherwise: T) -> T:
    try:
        return await ask()
    except (OdradekError, OSError) as failure:
        unasked[what] = str(failure)
        return otherwise


async def _find_ends(client: Client, cluster: ClusterInfo) -> Mapping[TopicPartition, int]:
    """The ends of all partitions with a live leader. The others would be asked for twice, in vain."""
    keys = [
        TopicPartition(name, one.partition)
        for name, topic in cluster.topics.items()
        if not topic.error_code
        for one in topic.partitions
        if one.leader in cluster.brokers
    ]
    return await LogAdmin(client).known_offsets_at(keys, LATEST)


async def _read_metrics(pages: AdminPages, url: str) -> str:
    page = await pages.get(url, "/metrics", bytes_max=ADMIN_PAGE_BYTES_MAX)
    if page.status != HTTPStatus.OK:
        raise ConnectionFailed(f"{url}/metrics answers with status {page.status}")
    return page.body.decode(errors="replace")
