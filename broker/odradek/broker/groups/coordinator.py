"""Coordinates groups: routes each request to its group, and passes changes of the cluster on to all groups.

A group is served by the leader of its partition of `__consumer_offsets` (`broker.coordination.runtime`). A request's
change is in the log before the request is answered. When it cannot be written, the client gets an error and nothing has
changed.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from odradek.broker.coordination.runtime import CoordinatorRuntime
from odradek.broker.coordination.shard import DeferredAnswer, Shard
from odradek.broker.coordination.topic_log import CoordinatedTopic, InternalTopicLog, TopicParts
from odradek.broker.groups.administration import GroupAdministration
from odradek.broker.groups.classic.members import (
    UNKNOWN_MEMBER,
    Departure,
    JoinRequest,
    JoinResult,
    SyncRequest,
    SyncResult,
)
from odradek.broker.groups.consumer.requests import ConsumerGroupHeartbeat, Outcome, check_heartbeat
from odradek.broker.groups.context import GroupContext, InThread
from odradek.broker.groups.expiration import Expiration
from odradek.broker.groups.internal_topics import CreateTopics, InternalTopics
from odradek.broker.groups.offset_requests import OffsetRequests
from odradek.broker.groups.state_machine import GroupStateMachine
from odradek.foundation.clock import Clock
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import InvalidGroupId, InvalidSessionTimeout, RequestError, UnknownMemberId
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.image.image import ClusterImage, ImageHolder
from odradek.wire.protocol.group_partitions import OFFSETS_TOPIC

if TYPE_CHECKING:
    from odradek.broker.groups.share.heartbeats import ShareGroupHeartbeat, ShareOutcome
    from odradek.broker.groups.streams.heartbeats import StreamsGroupHeartbeat, StreamsOutcome
    from odradek.broker.share_states.states import ShareStateRequests

TOPIC: Final = CoordinatedTopic(
    name=OFFSETS_TOPIC,
    title="the offsets topic",
    subject="group",
    contents="its groups and their offsets",
    late_setting="offsets.commit.timeout.ms",
)


class GroupCoordinator:
    """The coordinator of one broker. Everything happens on the event loop.

    `settings` are the broker's, `images` holds the current cluster image, `new_id` makes unique member ids, `in_thread`
    plans changes of large groups.
    """

    def __init__(
        self,
        offsets_log: InternalTopicLog,
        *,
        clock: Clock,
        settings: Settings,
        images: ImageHolder,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        in_thread: InThread | None = None,
        create_topics: CreateTopics | None = None,
        new_share_states: Callable[[], ShareStateRequests] | None = None,
        current_settings: Callable[[], Settings] | None = None,
    ) -> None:
        """`current_settings` gives those that may change while the broker runs; without it `settings` hold.

        `create_topics` asks the controller for the internal topics of Kafka Streams applications.

        `new_share_states` makes what asks the coordinators of share-partitions' states.
        """
        self.context = context = GroupContext(
            clock=clock,
            settings=settings,
            current_settings=current_settings,
            images=images,
            new_id=new_id,
            in_thread=in_thread,
            new_share_states=new_share_states,
        )
        self.runtime = CoordinatorRuntime(
            TopicParts(
                TOPIC,
                offsets_log,
                clock,
                compression=settings.offsets_topic_compression_codec,
                late_after_ms=settings.offsets_commit_timeout_ms,
            ),
            load_buffer_bytes=settings.offsets_load_buffer_size,
            make_machine=lambda shard: GroupStateMachine(shard, context),
        )
        self.offsets = OffsetRequests(self.runtime, context)
        self.admin = GroupAdministration(self.runtime, context)
        self.expiration = Expiration(self.runtime, context)
        self.internal_topics = InternalTopics(create_topics)

    # --- life -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to serve: load the partitions that this broker leads, and follow the image from now on."""
        tasks = self.runtime.start("groups", self.context.images, self._image_changed)
        self.context.tasks = tasks
        tasks.start(self.expiration.run(), name="housekeeping")
        self.internal_topics.start(tasks)

    async def stop(self) -> None:
        """Serve no more, answer every request that waits with NotCoordinator, and end every background task."""
        await self.runtime.stop()

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.topics.get(OFFSETS_TOPIC) is not new.topics.get(OFFSETS_TOPIC):
            self.runtime.refresh()
        self._forget_deleted_topics(old, new)
        for group_id in self.context.fences.find_changed_groups(old, new):
            for shard in self.runtime.list_loaded_shards():
                if group_id in shard.machine.groups:
                    shard.machine.remove_members_of_fenced(group_id)

    def _forget_deleted_topics(self, old: ClusterImage, new: ClusterImage) -> None:
        """Delete the offsets of topics that are gone. A new topic of the same name has another id."""
        if old.topics is new.topics:
            return
        gone = {
            (name, topic.id)
            for name, topic in old.topics.items()
            if name not in new.topics or new.topics[name].id != topic.id
        }
        if gone:
            for shard in self.runtime.shards():
                shard.machine.forget_topics(gone)

    async def ensure_topic(self) -> None:
        """Create the offsets topic if there is none. Raises what the controller raises."""
        await self.runtime.log.ensure_topic()

    # --- members of the classic protocol --------------------------------------------------------------------

    def join(self, group_id: str, request: JoinRequest) -> JoinResult | Awaitable[JoinResult]:
        """Join or rejoin; the answer comes when the rebalance completes. The first member creates a group."""
        answer: DeferredAnswer[JoinResult] = DeferredAnswer()

        def refuse(error: RequestError) -> None:
            answer(JoinResult(error=without_trace(error), member_id=request.member_id))

        def act() -> None:
            self.context.fences.check_may_join(group_id)
            group = shard.machine.groups.get(group_id)
            if group is None:
                if request.member_id != UNKNOWN_MEMBER:
                    raise UnknownMemberId(
                        f"there is no group {group_id!r} with a member {request.member_id!r}; join again"
                    )
                group = shard.machine.begin_classic_group(group_id)
            group.join(request, answer)

        try:
            shard = self._get_named_shard(group_id)
            self._check_session_timeout(request.session_timeout_ms)
            shard.when_serving(group_id, act, refuse)
        except RequestError as error:
            refuse(without_trace(error))
        return answer.get()

    def _get_named_shard(self, group_id: str) -> Shard[GroupStateMachine]:
        """The group's shard. Raises InvalidGroupId for an empty id, which only offsets may have."""
        if not group_id:
            raise InvalidGroupId("the group id must not be empty; set group.id")
        return self.runtime.shard(group_id)

    def _check_session_timeout(self, session_timeout_ms: int) -> None:
        lowest = self.context.settings.group_min_session_timeout_ms
        highest = self.context.settings.group_max_session_timeout_ms
        if not lowest <= session_timeout_ms <= highest:
            raise InvalidSessionTimeout(
                f"the session timeout of {session_timeout_ms} ms is not between group.min.session.timeout.ms "
                f"= {lowest} and group.max.session.timeout.ms = {highest}"
            )

    def sync(self, group_id: str, request: SyncRequest) -> SyncResult | Awaitable[SyncResult]:
        """Ask for the assignment of this generation; the leader sends those of all members."""
        answer: DeferredAnswer[SyncResult] = DeferredAnswer()

        def refuse(error: RequestError) -> None:
            answer(SyncResult(error=error))

        def act() -> None:
            group = shard.machine.groups.get(group_id)
            if group is None:
                raise UnknownMemberId(f"there is no group {group_id!r}; join again")
            group.sync(request, answer)

        try:
            shard = self._get_named_shard(group_id)
            shard.when_serving(group_id, act, refuse)
        except RequestError as error:
            refuse(without_trace(error))
        return answer.get()

    def heartbeat(self, group_id: str, *, member_id: str, instance_id: str | None, generation: int) -> None:
        """Keep a member alive.

        Raises RebalanceInProgress when it must join again, UnknownMemberId, IllegalGeneration, … While a group changes
        its protocol, its members are those of the old protocol.
        """
        group = self._get_named_shard(group_id).machine.groups.get(group_id)
        self.context.fences.check_may_stay(group_id)
        if group is None:
            raise UnknownMemberId(f"there is no group {group_id!r}; join again")
        group.heartbeat(member_id=member_id, instance_id=instance_id, generation=generation)

    def leave(
        self, group_id: str, members: Sequence[tuple[str, str | None]]
    ) -> list[Departure] | Awaitable[list[Departure]]:
        """Remove members, each by (member id, instance id). Raises what concerns the whole group."""
        answer: DeferredAnswer[list[Departure]] = DeferredAnswer()
        shard = self._get_named_shard(group_id)

        def refuse(error: RequestError) -> None:
            answer([Departure(member_id, instance_id, error) for member_id, instance_id in members])

        def act() -> None:
            group = shard.machine.groups.get(group_id)
            if group is None:
                raise UnknownMemberId(f"there is no group {group_id!r}")
            group.leave_members(members, answer)

        shard.when_serving(group_id, act, refuse)
        return answer.get()

    # --- members of the consumer protocol -------------------------------------------------------------------

    def consumer_heartbeat(
        self, group_id: str, request: ConsumerGroupHeartbeat
    ) -> Outcome | Awaitable[Outcome]:
        """Join a consumer group, stay in it or leave it; gives the result or the error to answer."""
        answer: DeferredAnswer[Outcome] = DeferredAnswer()
        try:
            check_heartbeat(self.context, group_id, request)
            shard = self.runtime.shard(group_id)
            shard.when_serving(
                group_id, lambda: shard.machine.consumers.heartbeat(group_id, request, answer), answer
            )
        except RequestError as error:
            answer(without_trace(error))
        return answer.get()

    # --- members of the streams protocol --------------------------------------------------------------------

    def streams_heartbeat(
        self, group_id: str, request: StreamsGroupHeartbeat
    ) -> StreamsOutcome | Awaitable[StreamsOutcome]:
        """Join a Streams group, stay in it or leave it; gives the result or the error to answer.

        The caller has checked the request (`streams.heartbeats.check_streams_heartbeat`).
        """
        answer: DeferredAnswer[StreamsOutcome] = DeferredAnswer()
        try:
            shard = self.runtime.shard(group_id)
            shard.when_serving(
                group_id, lambda: shard.machine.streams.heartbeat(group_id, request, answer), answer
            )
        except RequestError as error:
            answer(without_trace(error))
        return answer.get()

    # --- members of the share protocol ----------------------------------------------------------------------

    def share_heartbeat(
        self, group_id: str, request: ShareGroupHeartbeat
    ) -> ShareOutcome | Awaitable[ShareOutcome]:
        """Join a share group, stay in it or leave it; gives the result or the error to answer.

        The caller has checked the request (`share.heartbeats.check_share_heartbeat`).
        """
        answer: DeferredAnswer[ShareOutcome] = DeferredAnswer()
        try:
            shard = self.runtime.shard(group_id)
            shard.when_serving(
                group_id, lambda: shard.machine.shares.heartbeat(group_id, request, answer), answer
            )
        except RequestError as error:
            answer(without_trace(error))
        return answer.get()
