"""Members that keep up by heartbeats, as those of consumer groups (KIP-848) and of Streams groups (KIP-1071).

A heartbeat reports what is owned, and its answer says what is to be owned. A member first commits and releases the
partitions that are revoked, and reports that with the next heartbeat. It reads new partitions from the offsets that the
group has committed.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from odradek.client.admin.groups import GroupAdmin
from odradek.client.client import Client
from odradek.client.connection import BrokerConnection
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.consumer.fetches import FetchBounds
from odradek.client.errors import raise_for
from odradek.foundation.errors import FencedMemberEpoch, OdradekError, StaleMemberEpoch, UnknownMemberId
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey
from tests.simulation.cluster import TOPIC
from tests.simulation.group_checks import GroupWatch
from tests.simulation.members import Member, Members

HEARTBEAT_SECONDS: Final = 1.0
REVOCATION_MS_MAX: Final = 6_000
JOINING: Final = 0
LEAVING: Final = -1


class Beat(NamedTuple):
    """What the group answers: the member's epoch, and what it is to own, if that changed."""

    epoch: int
    target: tuple[TopicPartition, ...] | None


class HeartbeatMembers(Members):
    """A group whose members keep up by heartbeats."""

    @abstractmethod
    def _make_member(self, client: Client, name: str, member_id: str) -> HeartbeatMember: ...

    @asynccontextmanager
    async def _member(self, client: Client, name: str, rng: random.Random) -> AsyncIterator[Member]:
        member = self._make_member(client, name, str(uuid.UUID(int=rng.getrandbits(128))))
        try:
            yield member
            await member.leave()
        except OdradekError as failure:
            self._workload.history.add(name, f"left without a word: {failure}")
        finally:
            self.watch.releases(name)
            await member.consumer.close()


class HeartbeatMember(ABC):
    """One member: its epoch, and what it owns."""

    def __init__(self, client: Client, watch: GroupWatch, name: str, *, member_id: str) -> None:
        self._client = client
        self._watch = watch
        self._name = name
        self._member_id = member_id
        self._epoch = 0
        self._beat_at = 0.0
        self._owned: tuple[TopicPartition, ...] = ()
        self.consumer = PartitionConsumer(client, bounds=FetchBounds(wait_ms_max=500))

    async def poll(self, *, timeout_ms: int) -> Sequence[ConsumerRecord]:
        """What there is to read, after what the group has to say."""
        await self._keep_up()
        return await self.consumer.poll(timeout_ms=timeout_ms)

    async def _keep_up(self) -> None:
        """A heartbeat if one is due, and what follows from its answer."""
        now = asyncio.get_running_loop().time()
        if now < self._beat_at:
            return
        self._beat_at = now + HEARTBEAT_SECONDS
        taken_over = self._watch.taken_over(self._name)
        try:
            answer = await self._client.with_retries(
                lambda: self._beat(self._epoch), group_id=self._watch.group_id
            )
        except (FencedMemberEpoch, UnknownMemberId):
            # Others own what this member had: what it did since its last commit is not its own any more.
            self._epoch, self._owned = 0, ()
            self._watch.releases(self._name)
            self.consumer.assign({})
            raise
        self._watch.stays(self._name, taken_over)
        self._epoch = answer.epoch
        if answer.target is not None:
            await self._take(answer.target)

    @abstractmethod
    async def _beat(self, epoch: int) -> Beat:
        """Send one heartbeat, and raise what refuses it."""

    async def _take(self, target: tuple[TopicPartition, ...]) -> None:
        kept = tuple(key for key in self._owned if key in target)
        if kept != self._owned:
            await self.commit()
            self.consumer.assign({key: self.consumer.position(key) for key in kept})
            self._owned = kept
            self._watch.keeps(self._name, [key.partition for key in kept])
            self._beat_at = 0.0
        new = [key for key in target if key not in kept]
        if new:
            self._watch.owns(self._name, self._epoch, [key.partition for key in new])
            at_least = self._watch.committed()
            try:
                committed = await GroupAdmin(self._client).offsets(self._watch.group_id, new)
            except OdradekError:
                # It reports only what it owned before, and the group may give the rest to others at once.
                self._watch.keeps(self._name, [key.partition for key in kept])
                raise
            begins = {key: committed[key].offset if key in committed else 0 for key in new}
            self._watch.takes_up(
                self._name, {key.partition: offset for key, offset in begins.items()}, at_least=at_least
            )
            self.consumer.assign(
                {key: self.consumer.position(key) for key in kept} | begins,
                epochs={key: found.leader_epoch for key, found in committed.items()},
            )
            self._owned = (*kept, *new)
            self._beat_at = 0.0

    async def commit(self) -> None:
        """Commit all positions; refused is what was fenced or knows an older epoch."""
        positions = {key.partition: self.consumer.position(key) for key in self._owned}
        epochs = {key.partition: self.consumer.epoch(key) for key in self._owned}
        if not positions:
            return
        taken_over = self._watch.taken_over(self._name)

        async def attempt() -> None:
            connection = await self._client.coordinator(self._watch.group_id)
            await self._commit_on(connection, positions, epochs)

        try:
            await self._client.with_retries(attempt, group_id=self._watch.group_id)
        except StaleMemberEpoch:
            return
        self._watch.stays(self._name, taken_over)
        self._watch.acknowledges(self._name, positions)

    async def _commit_on(
        self, connection: BrokerConnection, positions: dict[int, int], epochs: dict[int, int]
    ) -> None:
        answer = await connection.request(
            ApiKey.OFFSET_COMMIT,
            versions=(9, 9),
            group_id=self._watch.group_id,
            generation_id_or_member_epoch=self._epoch,
            member_id=self._member_id,
            group_instance_id=None,
            topics=[
                {
                    "name": TOPIC,
                    "partitions": [
                        {
                            "partition_index": partition,
                            "committed_offset": offset,
                            "committed_leader_epoch": epochs[partition],
                            "committed_metadata": "",
                        }
                        for partition, offset in positions.items()
                    ],
                }
            ],
        )
        for topic in answer.topics:
            for partition in topic.partitions:
                raise_for(int(partition.error_code), about=f"group {self._watch.group_id!r}")

    async def leave(self) -> None:
        if self._epoch > 0:
            await self.commit()
            await self._client.with_retries(lambda: self._beat(LEAVING), group_id=self._watch.group_id)
