"""An administrator that creates, grows, changes and deletes topics, moves partitions and requests elections, and knows
what must have come of it.

A lost answer leaves open what happened, and when. The request may be held in a network partition, and be answered long
after the next one. Of such a topic nothing is asked any more but that all brokers agree. What was answered holds for
ever, also where the controller died in the middle (a deletion is a mark first).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.errors import ClientTimeout, ConnectionFailed
from odradek.client.results import ConfigChange, ResourceType
from odradek.foundation.errors import (
    InvalidReplicationFactor,
    OdradekError,
    RequestTimedOut,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from odradek.metadata.image import paths
from odradek.metadata.image.image import ResourceKind, TopicImage
from odradek.wire.protocol.api import ApiKey
from tests.simulation.cluster import BROKERS, TOPIC, SimulatedCluster
from tests.simulation.tasks import end_all, raise_failure_of
from tests.simulation.workload import Workload

NAMES: Final = ("s0", "s1")
PREFERRED: Final = 0
# How long a move may take once nothing fails any more.
MOVES_END_SECONDS: Final = 120.0
_RETENTION: Final = "retention.ms"

Answer = TypeVar("Answer")


class _CountingClient(Client):
    """Counts the questions that were not answered, also those that it asked again."""

    unanswered = 0

    async def with_retries(self, attempt: Callable[[], Awaitable[Answer]], **about: Any) -> Answer:
        async def counting() -> Answer:
            try:
                return await attempt()
            except (ConnectionFailed, ClientTimeout, RequestTimedOut):
                self.unanswered += 1
                raise

        return await super().with_retries(counting, **about)


class Administrator:
    """An `Actor`; a program of its own."""

    def __init__(self, workload: Workload, rng: random.Random) -> None:
        self._cluster: SimulatedCluster = workload.cluster
        self._history = workload.history
        self._rng = rng
        self._client = workload.client_of_kind(_CountingClient, "admin", random.Random(rng.getrandbits(64)))
        self._topics = TopicAdmin(self._client)
        self._configs = ConfigAdmin(self._client)
        # What is known for certain: None for a topic that does not exist. A name that is not here is unknown.
        self._partitions: dict[str, int | None] = dict.fromkeys(NAMES)
        self._retention: dict[str, str] = {}
        self._doubted: set[str] = set()
        self._number = 0
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._work())]

    def raise_failure(self) -> None:
        raise_failure_of(self._tasks)

    async def stop(self) -> None:
        await end_all(self._tasks)
        await self._client.close()

    async def _work(self) -> None:
        deeds = (
            self._create,
            self._delete,
            self._grow,
            self._configure,
            self._move,
            self._take_back,
            self._elect,
        )
        while True:
            await asyncio.sleep(self._rng.uniform(0.05, 1.0))
            deed, name = self._rng.choice(deeds), self._rng.choice(NAMES)
            self._number += 1
            unanswered = self._client.unanswered
            try:
                await deed(name)
            except OdradekError as failure:
                self._history.add("admin", f"{deed.__name__.strip('_')} {name}: {failure}")
            if self._client.unanswered > unanswered:
                self._doubted.add(name)
            if name in self._doubted:
                self._partitions.pop(name, None)
                self._retention.pop(name, None)

    # --- topics ------------------------------------------------------------------------------------------------------

    async def _create(self, name: str) -> None:
        count = self._rng.randint(1, 3)
        factor = self._rng.randint(1, len(BROKERS))
        before = self._partitions.pop(name, None)
        retention = self._retention.pop(name, None)
        self._history.add("admin", f"creates {name} with {count} partitions")
        try:
            await self._topics.create(name, partitions=count, replication_factor=factor)
        except InvalidReplicationFactor as refusal:
            # All three brokers are known, also those that are away.
            self._history.require(
                "All brokers are currently fenced" in str(refusal), "I16", f"{name} is refused: {refusal}"
            )
            raise
        except TopicAlreadyExists:
            # Where it was not there, the client asked twice: the answer to the first time was lost.
            if before:
                self._partitions[name] = before
                if retention is not None:
                    self._retention[name] = retention
            raise
        self._history.add("admin", f"{name} is created")
        self._partitions[name] = count

    async def _delete(self, name: str) -> None:
        self._partitions.pop(name, None)
        self._retention.pop(name, None)
        self._history.add("admin", f"deletes {name}")
        try:
            await self._topics.delete(name)
        except UnknownTopicOrPartition:
            # Or the client asked twice; in any case it is gone.
            self._partitions[name] = None
            raise
        self._history.add("admin", f"{name} is deleted")
        self._partitions[name] = None

    async def _grow(self, name: str) -> None:
        before = self._partitions.get(name)
        if not before:
            return
        del self._partitions[name]
        self._history.add("admin", f"grows {name} to {before + 1}")
        await self._topics.create_partitions(name, total=before + 1)
        self._history.add("admin", f"{name} has grown")
        self._partitions[name] = before + 1

    async def _configure(self, name: str) -> None:
        if not self._partitions.get(name):
            return
        self._retention.pop(name, None)
        text = str(1_000_000_000 + self._number)
        self._history.add("admin", f"sets {_RETENTION} of {name} to {text}")
        await self._configs.alter(ResourceType.TOPIC, name, [ConfigChange(_RETENTION, text)])
        self._history.add("admin", f"{_RETENTION} of {name} is set")
        self._retention[name] = text

    # --- replicas of the topic that is written to --------------------------------------------------------------------

    async def _move(self, _: str) -> None:
        """Two of the brokers, or all three in another order: never fewer than have to be in sync."""
        replicas = self._rng.sample(BROKERS, self._rng.choice([2, 3, 3]))
        await self.reassign(replicas)

    async def _take_back(self, name: str) -> None:
        """Often just after it was asked for, while it lasts."""
        if self._rng.random() < 0.5:
            await self._move(name)
            await asyncio.sleep(self._rng.uniform(0.0, 0.1))
        await self.reassign(None)

    async def reassign(self, replicas: list[int] | None) -> None:
        """Ask for these replicas of every partition, or for those before a move under way."""
        what = f"moves {TOPIC} to {replicas}" if replicas else f"takes the move of {TOPIC} back"
        self._history.add("admin", what)
        answer = await self._ask(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            (1, 1),
            timeout=5_000,
            allow_replication_factor_change=True,
            topics=[
                {
                    "name": TOPIC,
                    "partitions": [
                        {"partition_index": number, "replicas": replicas}
                        for number in range(self._cluster.partition_count)
                    ],
                }
            ],
        )
        codes = [int(row.error_code) for topic in answer.responses for row in topic.partitions]
        self._history.add("admin", f"moves: {int(answer.error_code)}, {codes}")

    async def _elect(self, _: str) -> None:
        self._history.add("admin", f"wants {TOPIC} led by those preferred")
        numbers = list(range(self._cluster.partition_count))
        answer = await self._ask(
            ApiKey.ELECT_LEADERS,
            (2, 2),
            election_type=PREFERRED,
            topic_partitions=[{"topic": TOPIC, "partitions": numbers}],
            timeout=5_000,
        )
        self._history.add("admin", f"elected: {int(answer.error_code)}")

    async def _ask(self, api: ApiKey, versions: tuple[int, int], **fields: Any) -> Any:
        async def attempt() -> Any:
            return await (await self._client.controller()).request(api, versions=versions, **fields)

        return await self._client.with_retries(attempt)

    # --- when nothing fails any more ---------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Nothing more is asked for; all brokers are to keep the topic again."""
        await end_all(self._tasks)
        # What brokers see may be old: a move whose answer was lost may be made without their knowledge. So it is
        # asked for in any case, behind that.
        began = asyncio.get_running_loop().time()
        while True:
            waited = asyncio.get_running_loop().time() - began
            self._history.require(waited < MOVES_END_SECONDS, "I12", f"a move does not end in {waited:.0f} s")
            # Without an answer, an earlier request may still be carried out behind this one.
            is_answered = False
            try:
                await self.reassign(list(BROKERS))
                is_answered = True
            except OdradekError as failure:
                self._history.add("admin", f"moves: {failure}")
            await asyncio.sleep(1.0)
            if is_answered and all(set(self._replicas(number)) == set(BROKERS) for number in self._numbers()):
                return

    def _numbers(self) -> range:
        return range(self._cluster.partition_count)

    def _replicas(self, number: int) -> tuple[int, ...]:
        for broker in self._cluster.brokers.values():
            topic = broker.images.current.topics.get(TOPIC)
            if topic is not None:
                one = topic.partitions[number]
                return () if one.adding or one.removing else one.replicas
        return ()

    def is_settled(self) -> bool:
        """Whether all brokers see the same topics, and no deletion is under way."""
        marks = self._cluster.observed.tree.children(paths.DELETE_TOPICS)
        seen = [
            {name: self._seen(topic) for name, topic in broker.images.current.topics.items()}
            for broker in self._cluster.brokers.values()
        ]
        return not marks and all(one == seen[0] for one in seen)

    @staticmethod
    def _seen(topic: TopicImage) -> tuple[object, ...]:
        return topic.id, [one.replicas for one in topic.partitions]

    async def check(self) -> None:
        """What was answered is so, on every broker and on its disk."""
        for broker_id, broker in self._cluster.brokers.items():
            image = broker.images.current
            for name, count in self._partitions.items():
                there = len(image.topics[name].partitions) if name in image.topics else None
                self._history.require(
                    there == count, "I12", f"broker {broker_id} has {there} partitions of {name}, not {count}"
                )
            for name, text in self._retention.items():
                found = image.config(ResourceKind.TOPIC, name).get(_RETENTION)
                self._history.require(
                    found == text, "I12", f"broker {broker_id} has {_RETENTION}={found} of {name}, not {text}"
                )
            known = {
                f"{name}-{one.partition}"
                for name, topic in image.topics.items()
                for one in topic.partitions
                if broker_id in one.replicas
            }
            disk = self._cluster.disks[broker_id]
            kept = {one.name for one in disk.entries("/logs") if one.is_directory} - known
            left = sorted(name for name in kept if not name.endswith(("-delete", "-stray")))
            self._history.require(not left, "I12", f"broker {broker_id} still keeps {left}")
