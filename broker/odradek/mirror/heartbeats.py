"""Heartbeats: a record in `heartbeats` of the target for each flow, once in a while.

That topic is mirrored in turn. So `a.heartbeats` at `b` shows that the flow from `a` works, and how old its data is.
The client tools of MirrorMaker 2 count hops by the names of these topics. A flow that is not enabled has heartbeats
too, as MirrorMaker 2 has it. So `a` has those of the flow back from `b`, which are what is mirrored one way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from odradek.foundation.errors import OdradekError
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.foundation.tasks import TaskOwner
from odradek.mirror.counters import FlowCounters
from odradek.mirror.formats import Heartbeat, heartbeat_key, heartbeat_value
from odradek.mirror.internal_topics import ensure_topic
from odradek.mirror.naming import ReplicationPolicy
from odradek.mirror.settings import FlowSettings

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 10.0


class Heartbeats:
    """The heartbeats of one flow. They need its target alone."""

    def __init__(
        self,
        target: Client,
        *,
        settings: FlowSettings,
        policy: ReplicationPolicy,
        counters: FlowCounters,
        is_leader: Callable[[], bool] = lambda: True,
    ) -> None:
        """`is_leader` returns whether this worker writes them: of several workers one is enough."""
        self._target = target
        self._settings = settings
        self._topic = policy.heartbeats_topic()
        self._counters = counters
        self._is_leader = is_leader
        self._producer = Producer(target)
        self._log = RateLimitedLog(logger, "errors of heartbeats")
        self._tasks = TaskOwner(f"heartbeats of {settings.label}")

    def start(self) -> None:
        """Begin. A topic that cannot be made is tried again."""
        self._tasks.start(self._run(), name="heartbeats")

    async def close(self) -> None:
        """Stop."""
        await self._tasks.close()
        await self._producer.close(is_flushing=False)

    async def make_topic(self) -> None:
        """Make the topic now, so that a flow that lists topics sees it. A failure is counted; `start` tries again."""
        await self._succeeds(self._ensure_topic)

    async def _run(self) -> None:
        is_prepared = False
        while True:
            is_prepared = is_prepared or await self._succeeds(self._prepare)
            if is_prepared and self._is_leader():
                await self._succeeds(self._write)
            await asyncio.sleep(
                self._settings.emit_heartbeats_interval_seconds if is_prepared else _RETRY_SECONDS
            )

    async def _succeeds(self, act: Callable[[], Awaitable[None]]) -> bool:
        try:
            await act()
        except OdradekError as failure:
            text = f"{self._settings.label}: no heartbeat was written, the next one is tried: {failure}"
            self._counters.note_failure("heartbeats", text)
            self._log.warning("%s", text)
            return False
        return True

    async def _prepare(self) -> None:
        await self._ensure_topic()
        await self._producer.start()

    async def _ensure_topic(self) -> None:
        await ensure_topic(
            self._target,
            self._topic,
            cluster=self._settings.target.alias,
            replication_factor=self._settings.heartbeats_topic_replication_factor,
            factor_key="heartbeats.topic.replication.factor",
            otherwise=f"or set {self._settings.label}.emit.heartbeats.enabled=false",
        )

    async def _write(self) -> None:
        aliases = self._settings.source.alias, self._settings.target.alias
        heartbeat = Heartbeat(*aliases, self._counters.wall_ms())
        await self._producer.send_and_wait(
            self._topic, heartbeat_value(heartbeat), key=heartbeat_key(heartbeat), partition=0
        )
        self._counters.heartbeats += 1
