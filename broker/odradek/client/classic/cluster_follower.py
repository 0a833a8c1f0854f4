"""Keeps a producer's metadata in step with the cluster (document 002, "Producer": its ZooKeeper watchers).

With `zk.connect` it watches the brokers that come and go, and the topics that the producer writes to. A controller
writes the registry before the brokers know, so brokers are asked until they report what the registry has. With a list
of brokers, and besides, metadata of a certain age is asked for again (topic.metadata.refresh.interval.ms).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Final

from odradek.client.classic import consumer_paths as paths
from odradek.client.classic.brokers import BROKER_IDS, find_registered_brokers
from odradek.client.classic.errors import NoBrokersForPartitionException
from odradek.client.classic.properties import Properties
from odradek.client.client import Client
from odradek.foundation.client_limits import (
    PRODUCER_BROKERS_SETTLE_SECONDS_MAX,
    PRODUCER_METADATA_PAUSE_SECONDS,
)
from odradek.foundation.errors import OdradekError
from odradek.foundation.registry_errors import StoreError
from odradek.metadata.registry.store import SessionState, Store

logger = logging.getLogger(__name__)

REFRESH_INTERVAL: Final = "topic.metadata.refresh.interval.ms"


class ClusterFollower:
    """`refresh` when `is_due`. With a loop that always runs, `run` does so."""

    def __init__(self, properties: Properties, client: Client, store: Store | None) -> None:
        """`store` is an open session with ZooKeeper, which `close` ends."""
        interval_ms = properties[REFRESH_INTERVAL]
        self._interval_seconds: float | None = None if interval_ms < 0 else interval_ms / 1000
        self._client = client
        self._protocol = properties.security.protocol
        self._store = store
        self._refreshed_at = self._asked_at = _now()
        self._are_brokers_changed = False
        self._settled_at = float("-inf")
        self._changed_topics: set[str] = set()
        self._counts: dict[str, int] = {}
        """How many partitions topics have by the registry."""
        self._followed: set[str] = set()
        self._unwatch: list[Callable[[], None]] = []
        self._changed = asyncio.Event()
        if store is not None:
            self._unwatch.append(store.on_session_change(self._note_session))
            self._unwatch.append(store.watch(BROKER_IDS, lambda _: self._note_brokers()))

    def follow(self, topic: str) -> None:
        """Watch a topic that the producer writes to."""
        if self._store is not None and topic not in self._followed:
            self._followed.add(topic)
            self._unwatch.append(self._store.watch(paths.topic(topic), lambda _: self._note_topic(topic)))
            self._note_topic(topic)

    async def close(self) -> None:
        for unwatch in self._unwatch:
            unwatch()
        if self._store is not None:
            await self._store.close()

    # --- what has changed -------------------------------------------------------------------------------------------

    def _note_brokers(self) -> None:
        self._are_brokers_changed = True
        self._changed.set()

    def _note_topic(self, topic: str) -> None:
        self._changed_topics.add(topic)
        self._changed.set()

    def _note_session(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self._changed_topics |= self._followed
            self._note_brokers()

    def seconds_until_due(self) -> float | None:
        """When the metadata should be asked for again; None while nothing changes and no interval is set."""
        now = _now()
        if self._are_brokers_changed or self._changed_topics or now < self._settled_at:
            return max(self._asked_at + PRODUCER_METADATA_PAUSE_SECONDS - now, 0.0)
        if self._interval_seconds is None:
            return None
        return max(self._refreshed_at + self._interval_seconds - now, 0.0)

    @property
    def is_due(self) -> bool:
        return self.seconds_until_due() == 0.0

    # --- asking -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Refresh whenever it is due, until it is cancelled."""
        while True:
            seconds = self.seconds_until_due()
            if seconds:
                self._changed.clear()
                try:
                    async with asyncio.timeout(seconds):
                        await self._changed.wait()
                except TimeoutError:
                    pass
                continue
            if seconds is None:
                self._changed.clear()
                await self._changed.wait()
                continue
            await self.refresh()
            # With an interval of 0 each send asks; here that would be without a pause.
            await asyncio.sleep(PRODUCER_METADATA_PAUSE_SECONDS)

    async def refresh(self) -> None:
        """Ask the registry what has changed, and a broker for the metadata. Failures are tried again."""
        self._asked_at = _now()
        try:
            if self._store is not None:
                await self._read_registry(self._store)
            await self._client.refresh(())
        except (OdradekError, StoreError) as failure:
            logger.debug("the metadata could not be refreshed, trying again: %s", failure)
            return
        self._refreshed_at = _now()
        topics = self._client.cluster.topics
        self._changed_topics = {
            topic
            for topic in self._changed_topics
            if topic in self._counts
            and topic in topics
            and len(topics[topic].partitions) < self._counts[topic]
        }

    async def _read_registry(self, store: Store) -> None:
        await store.reopen()
        if self._are_brokers_changed:
            self._are_brokers_changed = False
            # Leaders are elected a moment later.
            self._settled_at = _now() + PRODUCER_BROKERS_SETTLE_SECONDS_MAX
            try:
                self._client._update_bootstrap(await find_registered_brokers(store, self._protocol))
            except NoBrokersForPartitionException as failure:
                logger.warning("%s", failure)
            except BaseException:
                self._are_brokers_changed = True
                raise
        topics = sorted(self._changed_topics)
        nodes = await store.get_many([paths.topic(topic) for topic in topics])
        for topic, node in zip(topics, nodes, strict=True):
            self._counts.pop(topic, None)
            if node is not None:
                self._counts[topic] = _partition_count(node.data)


def _partition_count(data: bytes) -> int:
    try:
        return len(json.loads(data)["partitions"])
    except (ValueError, TypeError, KeyError):
        return 0


def _now() -> float:
    return asyncio.get_running_loop().time()
