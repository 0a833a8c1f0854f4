"""A member of a group in the classic protocol: join, share the partitions by range, heartbeat, commit, leave.

    _join → JoinGroup (again with the member id given) → the leader assigns → SyncGroup → offsets → assign

Heartbeats run in a task of their own. After "rebalance in progress" the next `poll` joins again.

Eager: a rebalance gives up all partitions before it asks for new ones. Positions are committed by the caller, and
before a rebalance. Left out: cooperative rebalances and the newer protocol (KIP-848); the broker serves both.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping, Sequence

from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.client import Client
from odradek.client.consumer.ahead import ReadAhead
from odradek.client.consumer.assignors import Subscriber, assign_range
from odradek.client.consumer.blocks import ConsumerRecord, RecordBlock
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.consumer.fetches import FetchBounds
from odradek.client.consumer.membership import Joined, Membership
from odradek.client.consumer.outage import MissingTopics, Outage
from odradek.client.errors import RETRIABLE_OR_LATE, ClientClosed
from odradek.client.group_kinds import explain_refusal
from odradek.client.group_metadata import GroupMetadata
from odradek.client.last_requests import last_requests
from odradek.client.metadata import NO_TOPIC_ID, ClusterInfo
from odradek.client.results import CommittedOffset, ListedOffset
from odradek.foundation.errors import (
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    OdradekError,
    OffsetOutOfRange,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from odradek.foundation.ids import TopicPartition
from odradek.foundation.tasks import TaskOwner
from odradek.wire.protocol.consumer import parse_subscription

logger = logging.getLogger(__name__)

REJOIN = (RebalanceInProgress, IllegalGeneration, UnknownMemberId)


class GroupConsumer:
    """`async with GroupConsumer(client, "billing", ["orders"]) as consumer: records = await consumer.poll()`.

    `on_no_offset` says where to begin without a committed offset, and when an offset no longer exists: `earliest`,
    `latest` or `error`. `poll` must be called within `rebalance_timeout_ms`, or the group continues without this
    member.
    """

    def __init__(
        self,
        client: Client,
        group_id: str,
        topics: Sequence[str],
        *,
        instance_id: str | None = None,
        on_no_offset: str = "latest",
        session_timeout_ms: int = 45_000,
        rebalance_timeout_ms: int = 300_000,
        heartbeat_interval_ms: int = 3_000,
        bounds: FetchBounds | None = None,
        is_read_committed: bool = False,
    ) -> None:
        self._client = client
        self._topics = tuple(topics)
        self._added_topics: set[str] = set()
        self._on_no_offset = on_no_offset
        self._is_read_committed = is_read_committed
        outage = Outage()
        self._missing_topics = MissingTopics(reader=f"group {group_id!r}")
        self._membership = Membership(
            client,
            group_id,
            instance_id=instance_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            outage=outage,
        )
        self._group_id = group_id
        self._heartbeat_seconds = heartbeat_interval_ms / 1000
        self._groups = GroupAdmin(client)
        self._logs = LogAdmin(client)
        self._consumer = PartitionConsumer(
            client,
            bounds=bounds,
            is_read_committed=is_read_committed,
            on_out_of_range=on_no_offset,
            is_waiting_for_topics=True,  # as Kafka's consumers do in a group
            outage=outage,
            missing_topics=self._missing_topics,
        )
        self._committed: dict[TopicPartition, int] = {}
        self._assigned: dict[str, tuple[uuid.UUID, int]] = {}
        """By topic what this member, as the leader, has assigned: the topic's id, and the number of its partitions."""
        self._is_committing_at_rebalance = True
        self._must_join = True
        self._failure: OdradekError | None = None
        self._tasks = TaskOwner("group consumer")
        self._closed = False

    async def __aenter__(self) -> GroupConsumer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Begin to send heartbeats. The first `poll` joins the group."""
        self._tasks.start(self._heartbeats(), name="heartbeat")

    def subscribe(self, topics: Sequence[str]) -> None:
        """Read these topics from the next `poll` on, which joins the group again if they differ from before. Added
        topics begin at their first record if the group has no offset: they are assumed to be new.
        """
        if set(topics) != set(self._topics):
            self._added_topics |= set(topics) - set(self._topics)
            self._topics = tuple(topics)
            self._must_join = True

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that this member reads now."""
        return self._consumer.assignment

    @property
    def generation(self) -> int:
        """The group's generation that this member belongs to; -1 outside a group."""
        return self._membership.generation

    def group_metadata(self) -> GroupMetadata:
        """The group and this member of it, for offsets that a producer's transaction commits.

        From then on nothing is committed here, also not before a rebalance, except by `commit`. Raises
        IllegalGeneration while this is no member: without one, a coordinator takes offsets of partitions that others
        read.
        """
        self._is_committing_at_rebalance = False
        if self.generation < 0:
            raise IllegalGeneration(
                f"group {self._group_id!r}: this consumer is no member at the moment; the next poll joins"
            )
        return self._membership.metadata()

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record to return. Raises InvalidRequest if the partition is not assigned."""
        return self._consumer.position(partition)

    def high_watermark(self, partition: TopicPartition) -> int:
        """The end of the readable records at the last fetch; -1 before the first one. Raises as `position`."""
        return self._consumer.high_watermark(partition)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue from `offset` in one partition. Raises InvalidRequest if it is not assigned."""
        self._consumer.seek(partition, offset)

    async def seek_to_committed(self) -> None:
        """Go back to what the group has committed, in every partition that is assigned."""
        if not self._must_join:
            for key, start in (await self._starts(self.assignment)).items():
                if key in self.assignment:
                    self._consumer.seek(key, start.offset)

    def take_next(self) -> ConsumerRecord | None:
        """As `PartitionConsumer.take_next`; None while the group changes."""
        return None if self._is_due_to_poll else self._consumer.take_next()

    async def read_ahead(self, *, records_max: int, timeout_ms: int) -> ReadAhead:
        """As `PartitionConsumer.read_ahead`. Joins the group first if that is due."""
        await self._be_member()
        return await self._consumer.read_ahead(records_max=records_max, timeout_ms=timeout_ms)

    @property
    def is_interrupted(self) -> bool:
        """As `PartitionConsumer.is_interrupted`; True while the group changes."""
        return self._is_due_to_poll or self._consumer.is_interrupted

    @property
    def _is_due_to_poll(self) -> bool:
        return self._closed or self._failure is not None or self._must_join

    async def poll(self, *, records_max: int = 500, timeout_ms: int = 1_000) -> list[ConsumerRecord]:
        """Up to `records_max` records. Joins the group first if that is due. Raises as `Consumer.poll`."""
        await self._be_member()
        return await self._consumer.poll(records_max=records_max, timeout_ms=timeout_ms)

    async def poll_blocks(
        self, *, records_max: int | None = None, timeout_ms: int = 1_000
    ) -> list[RecordBlock]:
        """As `poll`, by batches; see `Consumer.poll_blocks`."""
        await self._be_member()
        return await self._consumer.poll_blocks(records_max=records_max, timeout_ms=timeout_ms)

    async def _be_member(self) -> None:
        if self._closed:
            raise ClientClosed("the consumer is closed")
        self._raise_failure()
        if self._must_join:
            await self._join()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def commit(self, given: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit the offsets `given`, else the position of every partition. A rebalance is left to the next `poll`.

        Raises InvalidRequest for a partition that is not assigned.
        """
        # Offsets of a deleted topic are none of the topic that was made again under its name.
        self._consumer.restart_made_again()
        if given is None:
            given = {key: self._consumer.position(key) for key in self._consumer.assignment}
        offsets = {
            key: CommittedOffset(
                offset, self._consumer.epoch(key) if offset == self._consumer.position(key) else -1
            )
            for key, offset in given.items()
            if offset != self._committed.get(key)
        }
        if not offsets or self._membership.generation < 0:
            return
        try:
            await self._membership.commit(offsets)
        except REJOIN as failure:
            logger.info("group %s: offsets not committed, the group changes: %s", self._group_id, failure)
            self._note_lost_place(failure)
            return
        self._committed.update((key, committed.offset) for key, committed in offsets.items())

    async def close(self) -> None:
        """Leave the group. Positions since the last `commit` are not committed: only the caller knows which records it
        has processed.
        """
        if self._closed:
            return
        self._closed = True
        await self._tasks.close()
        await self._consumer.close()
        try:
            async with last_requests(self._note_silent_leave):
                await self._membership.leave()
        finally:
            await self._membership.close()

    def _note_silent_leave(self, why: str) -> None:
        logger.info("group %s was not notified of the leave: %s", self._group_id, why)

    # --- membership -----------------------------------------------------------------------------------------------

    async def _join(self) -> None:
        """Join and read the assigned partitions; again as long as the group changes during it."""
        if self._is_committing_at_rebalance:
            try:
                await self.commit()
            except UnknownTopicOrPartition as failure:
                # The offsets of other topics are committed; a member that stayed here would keep the group from all.
                logger.info("before a rebalance: %s", failure)
        while True:
            self._raise_failure()
            self._consumer.assign({})
            self._must_join = False
            try:
                joined = await self._membership.join(self._topics)
                assignments = await self._assign(joined) if joined.is_leader else {}
                partitions = await self._membership.synchronize(joined, assignments)
                if not self._must_join:
                    await self._take_up(partitions)
                if not self._must_join:
                    return
            except REJOIN as failure:
                logger.info("group %s changes again: %s", self._group_id, failure)
                self._note_lost_place(failure)
            except InconsistentGroupProtocol as failure:
                self._must_join = True
                raise await explain_refusal(
                    self._client, self._group_id, failure, is_queue=False
                ) from failure
            except BaseException:
                # The next `poll` tries again after any error.
                self._must_join = True
                raise

    async def _assign(self, joined: Joined) -> Mapping[str, Sequence[TopicPartition]]:
        subscribers = [
            Subscriber(member.member_id, member.instance_id, parse_subscription(member.subscription).topics)
            for member in joined.members
        ]
        topics = sorted({topic for subscriber in subscribers for topic in subscriber.topics})
        cluster = await self._client.with_retries(lambda: self._client.refresh(topics))
        self._assigned = {name: _identify(cluster, name) for name in topics}
        return assign_range(subscribers, {name: count for name, (_, count) in self._assigned.items()})

    async def _take_up(self, partitions: Sequence[TopicPartition]) -> None:
        found = await self._starts(partitions)
        self._consumer.assign(
            {key: start.offset for key, start in found.items()},
            epochs={key: start.leader_epoch for key, start in found.items()},
        )
        logger.info("group %s generation %d: %d partitions", self._group_id, self.generation, len(found))

    async def _starts(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset | ListedOffset]:
        """Where the group is in each partition, or where it is to begin."""
        committed = (
            await self._groups.offsets(self._group_id, partitions, require_stable=True) if partitions else {}
        )
        listed: Mapping[TopicPartition, ListedOffset] = {}
        missing = [key for key in partitions if key not in committed]
        if missing:
            unsure = [key for key in missing if key.topic not in self._added_topics]
            if self._on_no_offset == "error" and unsure:
                raise OffsetOutOfRange(
                    f"group {self._group_id!r} has no committed offset for {unsure[0]}; say where to begin"
                )
            where = EARLIEST if self._on_no_offset == "earliest" else LATEST
            listed = await self._logs.list_offsets(
                {key: where if key in unsure else EARLIEST for key in missing},
                read_committed=self._is_read_committed,
            )
        self._committed = {key: found.offset for key, found in committed.items()}
        return {**committed, **listed}

    def _note_lost_place(self, failure: OdradekError) -> None:
        self._must_join = True
        if not isinstance(failure, RebalanceInProgress):
            self._membership.forget(is_member=isinstance(failure, IllegalGeneration))
        self._consumer.wake()

    async def _heartbeats(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_seconds)
            if self._must_join or self._membership.generation < 0:
                continue
            try:
                await self._membership.heartbeat()
                if await self._has_other_partitions():
                    self._must_join = True
                    self._consumer.wake()
            except REJOIN as failure:
                self._note_lost_place(failure)
            except RETRIABLE_OR_LATE as failure:
                logger.debug("group %s: a heartbeat failed: %s", self._group_id, failure)
            except (FencedInstanceId, OdradekError) as failure:
                self._failure = failure
                self._must_join = True
                self._consumer.wake()

    async def _has_other_partitions(self) -> bool:
        """Whether a topic was made or grew since this member, as the leader, assigned its partitions. A topic that is
        deleted changes nothing until it is made again: members that have its partitions wait for it.
        """
        cluster = await self._client.topics(sorted({*self._topics, *self._assigned}))
        self._missing_topics.find_deleted(self._topics, cluster, now=asyncio.get_running_loop().time())
        # Without a committed offset all records of these are new, whenever they are made.
        self._added_topics |= self._missing_topics.deleted
        for name, (topic_id, assigned) in self._assigned.items():
            topic_id_now, count = _identify(cluster, name)
            # A broker with old metadata names fewer partitions of the same topic.
            if count > assigned or (0 < count < assigned and topic_id_now != topic_id):
                return True
        return False


def _identify(cluster: ClusterInfo, topic: str) -> tuple[uuid.UUID, int]:
    """The id of a topic and the number of its partitions: none of one that does not exist."""
    known = cluster.topics.get(topic)
    return (NO_TOPIC_ID, 0) if known is None or known.error_code else (known.id, len(known.partitions))
