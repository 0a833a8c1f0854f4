"""The leader's side of share groups on one broker: all its share-partitions, and the sessions that fetch from them.

A share-partition is loaded when a session first fetches it. It goes when this broker no longer leads the partition.
It also goes when its state is found out of date, and when the group's last session on this broker has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from odradek.broker.replication.blocking import BlockingWork
from odradek.broker.replication.hosted_partitions import HostedPartitions
from odradek.broker.share_states.states import ShareKey, ShareStates
from odradek.broker.shares.dead_letters import DeadLetters
from odradek.broker.shares.group_rules import GroupRules, rules_of
from odradek.broker.shares.sessions import SessionKey, ShareSession, ShareSessions
from odradek.broker.shares.share_counts import ShareCounts
from odradek.broker.shares.share_partition import SharePartition, SharePartitionParts
from odradek.foundation.clock import Clock
from odradek.foundation.errors import NotLeaderOrFollower, OdradekError, UnknownTopicOrPartition
from odradek.foundation.ids import TopicId
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.tasks import TaskOwner
from odradek.foundation.turns import Turn
from odradek.metadata.image.group_configs import FENCED_UNTIL_KEY
from odradek.metadata.image.image import ClusterImage, ImageHolder, ResourceKind
from odradek.network.connection import Connection

logger = logging.getLogger(__name__)

_AT_END: Final = "share session"
# Share-partitions whose acquired records are looked through in one turn: each may have thousands.
_RELEASED_PER_TURN_MAX: Final = 8


class ShareLeader:
    """All share-partitions of one broker."""

    def __init__(
        self,
        *,
        partitions: HostedPartitions,
        images: ImageHolder,
        states: ShareStates,
        clock: Clock,
        blocking: BlockingWork,
        settings: Settings,
        current_settings: Callable[[], Settings],
        dead_letters: DeadLetters,
    ) -> None:
        self._partitions = partitions
        self._images = images
        self._current_settings = current_settings
        self._tasks = TaskOwner("shares")
        self.counts = ShareCounts()
        self._parts = SharePartitionParts(
            states, dead_letters, self.counts, blocking, self._tasks, clock.wall_ms
        )
        self._by_key: dict[ShareKey, SharePartition] = {}
        self._of_groups: dict[str, dict[ShareKey, SharePartition]] = {}
        self._last_writes: dict[ShareKey, asyncio.Task[None]] = {}
        """Of share-partitions that are closed."""
        self.sessions = ShareSessions(count_max=settings.group_share_max_share_sessions)
        self._unsubscribe = images.subscribe(self._image_changed)

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[SharePartition]:
        return iter(list(self._by_key.values()))

    async def stop(self) -> None:
        """End every task, and answer every fetch that waits."""
        self._unsubscribe()
        await self._tasks.close()
        for share_partition in list(self._by_key.values()):
            share_partition.close(NotLeaderOrFollower("The broker stops; refresh the metadata."))

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        """A fence that ends may have been for a move of the group. Its members fetch all the while, and no session of
        theirs ends: so the states are read again.
        """
        if old.configs is new.configs or self._tasks.is_closed:
            return
        for group_id, share_partitions in self._of_groups.items():
            before, after = (image.config(ResourceKind.GROUP, group_id) for image in (old, new))
            if before.get(FENCED_UNTIL_KEY) != after.get(FENCED_UNTIL_KEY):
                for share_partition in share_partitions.values():
                    self._tasks.start(share_partition.confirm(), name=f"confirm {group_id}")

    def rules(self, group_id: str) -> GroupRules:
        """The settings of a group as they are now."""
        return rules_of(group_id, self._images.current, self._current_settings())

    # --- share-partitions --------------------------------------------------------------------------------------------

    def get(self, group_id: str, topic_id: TopicId, index: int) -> SharePartition:
        """The share-partition, which may still be loading.

        Raises UnknownTopicId, UnknownTopicOrPartition, NotLeaderOrFollower, KafkaStorageError.
        """
        key = ShareKey(group_id, topic_id, index)
        known = self._by_key.get(key)
        if known is not None:
            known.require_leading()
            return known
        partition = self._partitions.get_by_id(topic_id, index)
        partition.require_leader()
        made = SharePartition(
            key,
            partition,
            self._parts,
            current_rules=partial(self.rules, group_id),
            on_closed=self._forget,
            on_idle=self._drop_if_unused,
            after=self._last_writes.get(key),
        )
        self._by_key[key] = made
        self._of_groups.setdefault(group_id, {})[key] = made
        return made

    def in_use(self, group_id: str, topic_id: TopicId, index: int) -> SharePartition:
        """The share-partition that records were acquired from. Raises as `get`."""
        known = self.find(group_id, topic_id, index)
        if known is None:
            self._partitions.get_by_id(topic_id, index).require_leader()
            raise UnknownTopicOrPartition(f"{group_id} has acquired nothing of this partition here.")
        known.require_leading()
        return known

    def find(self, group_id: str, topic_id: TopicId, index: int) -> SharePartition | None:
        """The share-partition, where one is in use."""
        return self._by_key.get(ShareKey(group_id, topic_id, index))

    def list_of_group(self, group_id: str) -> list[SharePartition]:
        """The share-partitions of a group that are in use."""
        return list(self._of_groups.get(group_id, {}).values())

    def _forget(self, closed: SharePartition) -> None:
        key = closed.key
        if self._by_key.get(key) is closed:
            del self._by_key[key]
            of_group = self._of_groups[key.group_id]
            del of_group[key]
            if not of_group:
                del self._of_groups[key.group_id]
            if (task := closed.writes_under_way) is not None:
                self._last_writes[key] = task
                task.add_done_callback(partial(self._forget_writes, key))

    def _forget_writes(self, key: ShareKey, task: asyncio.Task[None]) -> None:
        if self._last_writes.get(key) is task:
            del self._last_writes[key]

    # --- sessions ----------------------------------------------------------------------------------------------------

    def open_session(self, key: SessionKey, connection: Connection) -> ShareSession:
        """Begin a session, which ends with its connection. Raises ShareSessionLimitReached."""
        had_group = self.sessions.has_group(key.group_id)
        session = self.sessions.open(key)
        if not had_group and not self._tasks.is_closed:
            for share_partition in self._of_groups.get(key.group_id, {}).values():
                self._tasks.start(share_partition.confirm(), name=f"confirm {key.group_id}")
        connection.when_lost(_AT_END, lambda: self._connection_lost(session))
        return session

    def _connection_lost(self, session: ShareSession) -> None:
        try:
            current = self.sessions.get(session.key)
        except OdradekError:
            return
        if current is session and not self._tasks.is_closed:
            self.sessions.remove(session.key)
            self._tasks.start(self._end_session(session), name=f"end {session.key.member_id}")

    async def close_session(self, key: SessionKey) -> None:
        """End a session and release what its member has. Raises ShareSessionNotFound."""
        session = self.sessions.get(key)
        self.sessions.remove(key)
        await self._end_session(session)

    async def _end_session(self, session: ShareSession) -> None:
        turn = Turn(_RELEASED_PER_TURN_MAX)
        stored: list[asyncio.Future[None]] = []
        group_id, member_id = session.key
        for topic_id, index in list(session.targets):
            share_partition = self.find(group_id, topic_id, index)
            if share_partition is None or share_partition.is_loading:
                continue
            if turn.is_over():
                await turn.next()
            try:
                released = share_partition.release(member_id)
            except OdradekError:
                continue  # another broker leads it now
            if released is not None:
                stored.append(released)
        for failure in await asyncio.gather(*stored, return_exceptions=True):
            if failure is not None:
                logger.info("what %s of %s had is not released: %s", member_id, group_id, failure)
        self._drop_unused(group_id)

    def _drop_unused(self, group_id: str) -> None:
        """Forget the share-partitions of a group without sessions: the next session loads them."""
        for share_partition in self.list_of_group(group_id):
            self._drop_if_unused(share_partition)

    def _drop_if_unused(self, share_partition: SharePartition) -> None:
        """One whose dead letters are under way goes afterwards: else each of them would be written again."""
        if self.sessions.has_group(share_partition.key.group_id) or share_partition.dead_letters.under_way:
            return
        share_partition.close(NotLeaderOrFollower("The share-partition is not in use; try again."))
