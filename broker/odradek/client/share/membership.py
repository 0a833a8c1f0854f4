"""One member of a share group: its heartbeats, whose answers say what to read.

There is no generation and no barrier: an assignment is used as soon as it is known. A member that is fenced joins again
under its id, and what it had acquired is delivered to others.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from odradek.client.client import Client
from odradek.client.consumer.outage import COORDINATOR, MissingTopics, Outage
from odradek.client.errors import RETRIABLE_OR_LATE, ClientTimeout, ConnectionFailed, raise_for
from odradek.client.group_kinds import explain_refusal
from odradek.foundation.client_limits import CLIENT_RETRY_PAUSE_MS_MAX, CLIENT_RETRY_PAUSE_MS_MIN
from odradek.foundation.errors import FencedMemberEpoch, GroupIdNotFound, OdradekError, UnknownMemberId
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey

logger = logging.getLogger(__name__)

_HEARTBEAT_VERSIONS: Final = (1, 1)
_JOINING: Final = 0
_LEAVING: Final = -1
_FIRST_PAUSE_SECONDS: Final = 0.05


class ShareMembership:
    """`assignment` is what to read, by the names of the topics. `on_change` is called when it changes, and when a
    heartbeat was refused for good: `failure` then says why.
    """

    def __init__(
        self,
        client: Client,
        group_id: str,
        topics: Sequence[str],
        *,
        rack_id: str | None,
        outage: Outage,
        missing_topics: MissingTopics,
        on_change: Callable[[], None],
    ) -> None:
        self._client = client
        self._group_id = group_id
        self._topics = sorted(set(topics))
        self._rack_id = rack_id
        self._outage = outage
        self._missing_topics = missing_topics
        self._on_change = on_change
        self._lane = client.new_lane("share-group")
        self._epoch = _JOINING
        self._interval_seconds = 0.0
        self._first_pause_seconds = _FIRST_PAUSE_SECONDS
        self._is_subscription_sent = False
        self._given: dict[uuid.UUID, tuple[int, ...]] = {}
        self.member_id = str(uuid.uuid4())
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.failure: OdradekError | None = None

    async def run(self) -> None:
        """Send heartbeats until one is refused for good."""
        pause_ms = CLIENT_RETRY_PAUSE_MS_MIN
        while self.failure is None:
            try:
                await self._client.with_retries(self._beat, group_id=self._group_id)
                pause_ms = CLIENT_RETRY_PAUSE_MS_MIN
                await self._name_topics()
                await self._find_missing_topics()
                await asyncio.sleep(self._pause_seconds())
                continue
            except (FencedMemberEpoch, UnknownMemberId) as failure:
                logger.info("share group %s: this member joins again: %s", self._group_id, failure)
                self._epoch, self._is_subscription_sent, self._given = _JOINING, False, {}
                self._assign(frozenset())
            except RETRIABLE_OR_LATE as failure:
                logger.debug("share group %s: a heartbeat failed: %s", self._group_id, failure)
            except OdradekError as failure:
                if isinstance(failure, GroupIdNotFound):
                    failure = await explain_refusal(self._client, self._group_id, failure, is_queue=True)
                self.failure = failure
                self._on_change()
                return
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, CLIENT_RETRY_PAUSE_MS_MAX)

    def _pause_seconds(self) -> float:
        """A group makes the states of new partitions after it has answered: soon there may be some to read."""
        if self.assignment:
            self._first_pause_seconds = _FIRST_PAUSE_SECONDS
            return self._interval_seconds
        pause_seconds = min(self._first_pause_seconds, self._interval_seconds)
        self._first_pause_seconds = 2 * pause_seconds
        return pause_seconds

    async def leave(self) -> None:
        """Leave, so that the others need not wait for the session's end. Raises what the coordinator answers."""
        try:
            if self._epoch > _JOINING:
                await self._client.with_retries(lambda: self._beat(is_leaving=True), group_id=self._group_id)
        finally:
            await self._client.release_lane(self._lane)

    async def _beat(self, *, is_leaving: bool = False) -> None:
        epoch = _LEAVING if is_leaving else self._epoch
        is_full = not (self._is_subscription_sent or is_leaving)
        try:
            connection = await self._client.coordinator(self._group_id, lane=self._lane)
            answer = await connection.request(
                ApiKey.SHARE_GROUP_HEARTBEAT,
                versions=_HEARTBEAT_VERSIONS,
                group_id=self._group_id,
                member_id=self.member_id,
                member_epoch=epoch,
                rack_id=self._rack_id if is_full else None,
                subscribed_topic_names=self._topics if is_full else None,
            )
        except (ConnectionFailed, ClientTimeout) as failure:
            self._outage.note_failure([COORDINATOR], failure, now=_now())
            # The lost answer may have had another assignment. A broker repeats it to a member that names its topics.
            self._is_subscription_sent = False
            raise
        self._outage.note_answer(COORDINATOR, now=_now())
        raise_for(
            int(answer.error_code),
            answer.error_message,
            about=f"share group {self._group_id!r}",
            group=self._group_id,
        )
        self._epoch = int(answer.member_epoch)
        self._is_subscription_sent = True
        self._interval_seconds = to_seconds(answer.heartbeat_interval)
        if answer.assignment is not None and not is_leaving:
            self._given = {
                topic.topic_id: tuple(topic.partitions) for topic in answer.assignment.topic_partitions
            }

    async def _name_topics(self) -> None:
        """Partitions are assigned by the ids of their topics. One that is not known yet is looked up again."""
        names = {topic.id: topic.name for topic in self._client.cluster.topics.values()}
        if not names.keys() >= self._given.keys():
            cluster = await self._client.refresh(self._topics)
            names = {topic.id: topic.name for topic in cluster.topics.values()}
        self._assign(
            frozenset(
                TopicPartition(names[topic_id], number)
                for topic_id, numbers in self._given.items()
                if topic_id in names
                for number in numbers
            )
        )

    async def _find_missing_topics(self) -> None:
        """A group gives nothing of a topic that does not exist, without an error."""
        cluster = await self._client.topics(self._topics)
        self._missing_topics.find_deleted(self._topics, cluster, now=_now())

    def _assign(self, assignment: frozenset[TopicPartition]) -> None:
        if assignment != self.assignment:
            logger.info("share group %s: %d partitions", self._group_id, len(assignment))
            self.assignment = assignment
            self._on_change()


def to_seconds(interval: timedelta | int) -> float:
    """An interval of an answer, which may be in milliseconds."""
    return interval.total_seconds() if isinstance(interval, timedelta) else interval / 1000


def _now() -> float:
    return asyncio.get_running_loop().time()
