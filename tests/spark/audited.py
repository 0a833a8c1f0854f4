"""Audited producers for the tests of the audit: sessions with a time of their own, on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from odradek.client.client import Client
from odradek.client.producer.audit import Audit
from odradek.client.producer.producer import Producer

T = TypeVar("T")
WINDOW_MS = 60_000
BASE_MS = 1_772_366_400_000  # 2026-03-01T12:00:00Z, the beginning of a window


class AuditedProducer:
    """A producer whose records and promises have the times that a test says. `stop` leaves its session open."""

    def __init__(self, bootstrap: str, topic: str, *, lease_ms: int = 3_600_000, audit_topic: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._topic = topic
        self.low_time_ms = BASE_MS
        self.audit = Audit(
            [topic],
            producer="test",
            window_ms=WINDOW_MS,
            interval_ms=min(lease_ms, 3_600_000),
            lease_ms=lease_ms,
            low_time=lambda: self.low_time_ms,
            audit_topic=audit_topic,
        )
        self._run(self._open(bootstrap))

    async def _open(self, bootstrap: str) -> None:
        self._client = await Client(bootstrap).__aenter__()
        self._producer = Producer(self._client, audit=self.audit)
        await self._producer.start()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(work, 60))

    def send(self, minute: int, values: Iterable[bytes], *, partitions: int = 2) -> None:
        """Records of one minute after the base, round robin over the partitions, acknowledged."""

        async def work() -> None:
            for number, value in enumerate(values):
                await self._producer.send(
                    self._topic,
                    value,
                    key=b"%d" % number,
                    headers=[("n", b"%d" % number), ("none", None)] if number % 2 else (),
                    partition=number % partitions,
                    timestamp_ms=BASE_MS + minute * WINDOW_MS + number,
                )
            await self._producer.flush()

        self._run(work())

    def publish(self, minute: int) -> None:
        """Promise to send nothing before this minute, and report."""
        self.low_time_ms = BASE_MS + minute * WINDOW_MS
        self._run(self.audit.publish())

    def close(self) -> None:
        """End the session."""
        self._run(self._producer.close())
        self._end()

    def stop(self) -> None:
        """Vanish without a last word."""

        async def work() -> None:
            await self.audit._tasks.close()
            await self._producer._sender.close()

        self._run(work())
        self._end()

    def _end(self) -> None:
        self._run(self._client.close())
        self._loop.close()
