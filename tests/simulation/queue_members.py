"""Members of a share group (KIP-932), with the product's client, and what has to hold of a queue (I16).

- An answer that was taken is final: what was accepted or rejected is given to no member by a fetch that began later.
- No record is delivered more often than its limit says, as its delivery count shows.
- In the end nothing is left, and each record that could be read was given to some member.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Iterator
from typing import Final

from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.queues import QueueAdmin
from odradek.client.client import Client
from odradek.client.results import ConfigChange, ResourceType
from odradek.client.share.deliveries import Acknowledgement, DeliveredBlock, ShareRecord
from odradek.client.share.sessions import ShareBounds
from odradek.client.share.share_consumer import ShareConsumer
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from tests.simulation.cluster import TOPIC
from tests.simulation.history import History
from tests.simulation.members import Members
from tests.simulation.workload import Workload

GROUP: Final = "queue"
LOCK_MS: Final = 3_000
# A lost answer counts as a delivery, too, and no member sees it.
DELIVERIES_MAX: Final = 4
SETTINGS: Final = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.delivery.count.limit": str(DELIVERIES_MAX),
    "group.share.min.session.timeout.ms": "3000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
}
_FINAL: Final = (Acknowledgement.ACCEPT, Acknowledgement.REJECT)


class QueueWatch:
    """What members are given, and which of their answers were taken."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._settled_at: dict[tuple[int, int], float] = {}
        """When the answer that ended a record's way was known to be taken, by partition and offset."""
        self.given: dict[int, set[int]] = {}

    def gives(self, member: str, record: ShareRecord, *, asked_at: float) -> None:
        """A member was given a record by a fetch that it sent then."""
        key = (record.partition, record.offset)
        self.given.setdefault(record.partition, set()).add(record.offset)
        settled_at = self._settled_at.get(key)
        self._history.require(
            settled_at is None or asked_at <= settled_at,
            "I16",
            f"{member} is given {key} by a fetch of {asked_at:.4f}, and it was done at {settled_at or 0:.4f}",
        )
        self._history.require(
            1 <= record.delivery_count <= DELIVERIES_MAX,
            "I16",
            f"{member} is given {key} as delivery {record.delivery_count} of at most {DELIVERIES_MAX}",
        )

    def settles(self, member: str, partition: int, offset: int, kind: Acknowledgement, *, now: float) -> None:
        """A member's answer was taken."""
        # A late answer is taken too, as by Kafka, once all up to its record is done.
        if kind in _FINAL and (partition, offset) not in self._settled_at:
            self._history.add(member, f"has done {partition}:{offset}")
            self._settled_at[partition, offset] = now


class _TellingConsumer(ShareConsumer):
    """Reports what it is given, and what became of its answers."""

    def __init__(self, client: Client, name: str, watch: QueueWatch, rng: random.Random) -> None:
        super().__init__(
            client,
            GROUP,
            [TOPIC],
            is_explicit=True,
            bounds=ShareBounds(records_max=rng.choice([1, 5, 100]), is_strict=rng.random() < 0.5),
            on_acknowledged=self._note_answers,
        )
        self._name = name
        self._watch = watch
        self._kinds: dict[tuple[TopicPartition, int], Acknowledgement] = {}
        self._asked_at = 0.0

    def _take(self) -> list[DeliveredBlock]:
        if self._fetched:
            self._asked_at = self._fetched[0][1].locked_until - LOCK_MS / 1000
        return super()._take()

    async def take(self) -> list[ShareRecord]:
        """What the group gives, reported."""
        records = await self.poll(timeout_ms=500)
        for record in records:
            self._watch.gives(self._name, record, asked_at=self._asked_at)
        return records

    def answer(self, record: ShareRecord, kind: Acknowledgement) -> None:
        self._kinds[record.topic_partition, record.offset] = kind
        self.acknowledge(record, kind)

    def _note_answers(
        self, key: TopicPartition, offsets: Collection[int], failure: OdradekError | None
    ) -> None:
        now = asyncio.get_running_loop().time()
        for offset in offsets:
            kind = self._kinds.pop((key, offset), None)
            if kind is not None and failure is None:
                self._watch.settles(self._name, key.partition, offset, kind, now=now)


class QueueMembers(Members):
    """A share group with some members."""

    def __init__(self, workload: Workload, rng: random.Random) -> None:
        super().__init__(workload, rng, group_id=GROUP)
        self._has_begun = False
        self._left: int | None = None
        self._cluster.entries |= SETTINGS
        self._queue = QueueWatch(workload.history)

    def is_settled(self) -> bool:
        """Whether all was given, and the group says that nothing is left."""
        return self._left == 0 and not any(missing for _, missing in self._find_missing())

    async def check(self) -> None:
        """Each record that could be read was given to some member."""
        for partition, missing in self._find_missing():
            self._workload.history.require(
                not missing, "I16", f"no member of {GROUP} was given {missing[:5]} of partition {partition}"
            )

    def _find_missing(self) -> Iterator[tuple[int, list[int]]]:
        """The offsets of each partition that could be read, and that no member was given."""
        for partition, found in self._workload.operations.read.items():
            yield partition, sorted(set(found) - self._queue.given.get(partition, set()))

    async def _be_member(self, name: str, rng: random.Random) -> None:
        client = self._workload.client(name, rng)
        try:
            await self._begin(client)
            async with _TellingConsumer(client, name, self._queue, rng) as consumer:
                while self._is_calm or rng.random() > 0.05:
                    await self._work_once(client, consumer, name, rng)
        except OdradekError as failure:
            self._workload.history.add(name, f"failed: {failure}")
        finally:
            await client.close()

    async def _begin(self, client: Client) -> None:
        """Let the group begin with the first record, before it has a member."""
        if not self._has_begun:
            change = ConfigChange("share.auto.offset.reset", "earliest")
            await ConfigAdmin(client).alter(ResourceType.GROUP, GROUP, [change])
            self._has_begun = True

    async def _work_once(
        self, client: Client, consumer: _TellingConsumer, name: str, rng: random.Random
    ) -> None:
        history = self._workload.history
        try:
            records = await consumer.take()
            for record in records:
                self._workload.on_read(record.partition, record.offset, record.value or b"")
            if records and not self._is_calm and rng.random() < 0.05:
                history.add(name, "holds its records beyond their locks")
                await asyncio.sleep(1.5 * LOCK_MS / 1000)
            for record in records:
                consumer.answer(record, self._choose(rng))
            if records and rng.random() < 0.5:
                await consumer.commit()
            if self._is_calm and not records:
                self._left = await self._count_left(client)
        except OdradekError as failure:
            history.add(name, f"failed: {failure}")
            await asyncio.sleep(0.3)

    def _choose(self, rng: random.Random) -> Acknowledgement:
        chance = rng.random()
        if self._is_calm or chance < 0.85:
            return Acknowledgement.ACCEPT
        return Acknowledgement.RELEASE if chance < 0.95 else Acknowledgement.REJECT

    async def _count_left(self, client: Client) -> int | None:
        """How many records are not done; None while the group has not begun every partition."""
        found = await QueueAdmin(client).offsets(GROUP)
        lags = [one.lag for one in found.values()]
        is_whole = len(found) == self._cluster.partition_count and None not in lags
        return sum(lag or 0 for lag in lags) if is_whole else None
