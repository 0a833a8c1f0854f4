"""Gives and takes rights and quotas while a cluster is hurt, and tries what is denied to all clients.

In a share of the runs brokers and controllers have an authorizer. ACLs allow everything, but one topic, to which no
client may write (I14). Other ACLs come and go, so what is remembered of them is forgotten all the time. Quotas that
hold up all clients do so too. They end with the faults, and then every request must work again (I12).
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.client.admin.acls import AclAdmin
from odradek.client.admin.quotas import QuotaAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from odradek.foundation.client_entities import DEFAULT, ClientEntity
from odradek.foundation.errors import OdradekError, TopicAlreadyExists
from odradek.security.authorization.acls import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from odradek.security.authorization.filters import AclFilter
from tests.chaos.history import HistoryFile, Trespassed, now

SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Until the first ACLs are made.
    "allow.everyone.if.no.acl.found": "true",
}
EVERY_CLIENT: Final = ClientEntity(client_id=DEFAULT)
QUOTA: Final = {"producer_byte_rate": 50_000.0, "consumer_byte_rate": 200_000.0}
# Longer than any broker needs to see the first ACLs.
FOLLOW_SECONDS: Final = 3.0
READY_SECONDS_MAX: Final = 90.0
STOP_SECONDS_MAX: Final = 60.0


class Warden:
    """Make it, `start`, and `stop` when the cluster is healed. `topic` is one to which no client may write."""

    def __init__(self, bootstrap: str, history: HistoryFile, *, topic: str, seed: int) -> None:
        self._bootstrap = bootstrap
        self._history = history
        self._topic = topic
        self._rng = random.Random(f"warden {seed}")
        self._is_over = threading.Event()
        self._is_ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="warden", daemon=True)

    def start(self) -> None:
        """Returns when the ACLs are in force. Raises AssertionError when they cannot be made."""
        self._thread.start()
        assert self._is_ready.wait(READY_SECONDS_MAX), f"no ACLs: {self._failure}"

    def stop(self) -> None:
        """Returns when no quota is left. Raises what it died of."""
        if self._thread.ident is not None:
            self._is_over.set()
            self._thread.join(STOP_SECONDS_MAX)
            assert not self._thread.is_alive(), "the quotas could not be removed"
            if self._failure is not None:
                raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as failure:
            self._failure = failure

    async def _live(self) -> None:
        client = Client(self._bootstrap, client_id="warden", request_timeout_ms=5_000, api_timeout_ms=10_000)
        self._acls, self._quotas, self._topics = AclAdmin(client), QuotaAdmin(client), TopicAdmin(client)
        try:
            await _until_done(self._make_topic)
            await _until_done(self._allow_all_but_one)
            await asyncio.sleep(FOLLOW_SECONDS)
            self._is_ready.set()
            await self._meddle(client)
            await _until_done(self._free)
        finally:
            await client.close()

    async def _meddle(self, client: Client) -> None:
        deeds = (self._trespass, self._trespass, self._change_others, self._limit, self._free)
        # A producer with a number of its own would be denied that number, and not the write.
        producer = Producer(client, acks=1, is_idempotent=False, delivery_timeout_ms=3_000)
        await producer.start()
        self._producer = producer
        try:
            while not self._is_over.is_set():
                try:
                    await self._rng.choice(deeds)()
                except OdradekError:
                    continue
                finally:
                    await asyncio.sleep(self._rng.uniform(0.1, 1.0))
        finally:
            await producer.close(is_flushing=False)

    async def _make_topic(self) -> None:
        try:
            await self._topics.create(self._topic, partitions=1, replication_factor=3)
        except TopicAlreadyExists:
            return

    async def _allow_all_but_one(self) -> None:
        everything = AccessControlEntry("User:*", "*", AclOperation.ALL, PermissionType.ALLOW)
        denial = AccessControlEntry("User:*", "*", AclOperation.WRITE, PermissionType.DENY)
        acls = [
            AclBinding(ResourcePattern(kind, name, PatternType.LITERAL), everything)
            for kind, name in (
                (AclResourceType.CLUSTER, CLUSTER_NAME),
                (AclResourceType.TOPIC, "*"),
                (AclResourceType.GROUP, "*"),
                (AclResourceType.TRANSACTIONAL_ID, "*"),
            )
        ]
        acls.append(
            AclBinding(ResourcePattern(AclResourceType.TOPIC, self._topic, PatternType.LITERAL), denial)
        )
        for failure in await self._acls.create(acls):
            if failure is not None:
                raise failure

    async def _change_others(self) -> None:
        pattern = ResourcePattern(AclResourceType.TOPIC, "other", PatternType.LITERAL)
        entry = AccessControlEntry("User:other", "*", AclOperation.READ, PermissionType.ALLOW)
        await self._acls.create([AclBinding(pattern, entry)])
        await self._acls.delete(
            [AclFilter(type=pattern.type, name=pattern.name, pattern_type=pattern.pattern_type)]
        )

    async def _trespass(self) -> None:
        delivery = await self._producer.send(self._topic, b"denied", partition=0)
        offset = (await delivery).offset
        self._history.add(Trespassed(at=now(), what=f"a denied write is at {self._topic}-0:{offset}"))

    async def _limit(self) -> None:
        await self._quotas.alter(EVERY_CLIENT, QUOTA)

    async def _free(self) -> None:
        await self._quotas.alter(EVERY_CLIENT, dict.fromkeys(QUOTA))


async def _until_done(deed: Callable[[], Awaitable[None]]) -> None:
    """Try again for as long as it takes: the caller waits for a bounded time."""
    while True:
        try:
            await deed()
        except OdradekError:
            await asyncio.sleep(0.5)
        else:
            return
