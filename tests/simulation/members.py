"""Members of consumer groups: they come, stall, commit and go. Here in the classic protocol, with the product's client;
`consumer_members` are those of the newer one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from odradek.client.admin.groups import GroupAdmin
from odradek.client.client import Client
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.consumer.fetches import FetchBounds
from odradek.client.consumer.group import GroupConsumer
from odradek.foundation.errors import OdradekError, OffsetOutOfRange
from odradek.foundation.ids import TopicPartition
from tests.simulation.cluster import TOPIC
from tests.simulation.group_checks import GroupWatch
from tests.simulation.tasks import end_all, raise_failure_of
from tests.simulation.workload import Workload

SESSION_MS: Final = 6_000
# Longer than a session: a member that is silent for it comes back as a new one.
STALL_SECONDS: Final = 8.0
MEMBERS: Final = 2


class Member(Protocol):
    """One life of a member, of either protocol."""

    async def poll(self, *, timeout_ms: int) -> Sequence[ConsumerRecord]:
        """What there is to read."""

    async def commit(self) -> None:
        """Commit all positions."""


class Members:
    """A group with some members. An `Actor`."""

    def __init__(self, workload: Workload, rng: random.Random, *, group_id: str) -> None:
        self._workload = workload
        self._cluster = workload.cluster
        self._rng = rng
        self._tasks: list[asyncio.Task[None]] = []
        self._is_calm = False
        self.watch = GroupWatch(group_id, workload.history)

    def start(self) -> None:
        for number in range(MEMBERS):
            rng = random.Random(self._rng.getrandbits(64))
            self._tasks.append(asyncio.create_task(self._live(f"member-{number}", rng)))

    async def settle(self) -> None:
        """Members stay from now on, and read on to the end."""
        self._is_calm = True

    def is_settled(self) -> bool:
        """Whether all was handed out and committed."""
        committed = self.watch.committed()
        return all(
            committed.get(number, 0) >= self._cluster.high_watermark(number)
            for number in range(self._cluster.partition_count)
        )

    async def stop(self) -> None:
        await end_all(self._tasks)

    def raise_failure(self) -> None:
        raise_failure_of(self._tasks)

    async def check(self) -> None:
        """Compare the committed offsets with the acknowledged ones."""
        client = self._workload.client("auditor", random.Random(self._rng.getrandbits(64)))
        try:
            found = await GroupAdmin(client).offsets(self.watch.group_id)
        finally:
            await client.close()
        self.watch.finish({key.partition: committed.offset for key, committed in found.items()})

    # --- one member --------------------------------------------------------------------------------------------------

    async def _live(self, name: str, rng: random.Random) -> None:
        """Come and go; each life is another member to the group."""
        life = 0
        while True:
            life += 1
            await self._be_member(f"{name}.{life}", rng)
            await asyncio.sleep(rng.uniform(0.0, 2.0))

    async def _be_member(self, name: str, rng: random.Random) -> None:
        client = self._workload.client(name, rng)
        try:
            async with self._member(client, name, rng) as member:
                while self._is_calm or rng.random() > 0.03:
                    await self._poll_once(member, name, rng)
        finally:
            await client.close()

    def _member(self, client: Client, name: str, rng: random.Random) -> AbstractAsyncContextManager[Member]:
        """Joins the group, and leaves it."""
        del rng  # The broker names members of this protocol.
        return _TellingConsumer(client, self.watch, name)

    async def _poll_once(self, member: Member, name: str, rng: random.Random) -> None:
        history = self._workload.history
        try:
            for record in await member.poll(timeout_ms=500):
                self.watch.hands_out(record.partition, record.offset)
                self._workload.on_read(record.partition, record.offset, record.value or b"")
            if not self._is_calm and rng.random() < 0.03:
                history.add(name, f"stalls for {STALL_SECONDS:g} s")
                await asyncio.sleep(STALL_SECONDS)
            if rng.random() < 0.5:
                await member.commit()
        except OffsetOutOfRange as failure:
            history.require(False, "I1", f"what was committed is gone: {failure}")
        except OdradekError as failure:
            history.add(name, f"failed: {failure}")
            await asyncio.sleep(0.3)


class _TellingConsumer(GroupConsumer):
    """Reports what it is given, where it begins and what it commits."""

    def __init__(self, client: Client, watch: GroupWatch, name: str) -> None:
        super().__init__(
            client,
            watch.group_id,
            [TOPIC],
            on_no_offset="earliest",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=1_000,
            bounds=FetchBounds(wait_ms_max=500),
        )
        # Where a group has been, records are; only where it never was it begins at the start.
        self._consumer._on_out_of_range = "error"
        self._watch = watch
        self._name = name

    async def _take_up(self, partitions: Sequence[TopicPartition]) -> None:
        self._watch.owns(self._name, self.generation, [key.partition for key in partitions])
        at_least = self._watch.committed()
        await super()._take_up(partitions)
        begins = {key.partition: self._committed.get(key, 0) for key in partitions}
        self._watch.takes_up(self._name, begins, at_least=at_least)

    async def commit(self, given: Mapping[TopicPartition, int] | None = None) -> None:
        wanted = given or {key: self.position(key) for key in self.assignment}
        await super().commit(given)
        self._watch.acknowledges(
            self._name,
            {key.partition: offset for key, offset in wanted.items() if self._committed.get(key) == offset},
        )
