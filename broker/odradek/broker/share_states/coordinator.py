"""The share coordinator of one broker: serves the states whose partition of `__share_group_state` it leads (KIP-932).

A request is answered once its change is written. Records that later snapshots replace are deleted now and then: the log
is as large as the states, and some more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from functools import partial
from typing import Final
from uuid import UUID

from odradek.broker.coordination.runtime import CoordinatorRuntime
from odradek.broker.coordination.shard import DeferredAnswer, Shard
from odradek.broker.coordination.topic_log import (
    CoordinatedTopic,
    EncodedRecord,
    InternalTopicLog,
    TopicParts,
)
from odradek.broker.share_states.pruning import Pruning
from odradek.broker.share_states.state_machine import PlanRecords, ShareStateMachine
from odradek.broker.share_states.states import ShareKey, ShareState, StateChange, StateSummary
from odradek.foundation.clock import Clock
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import OdradekError, RequestError
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.tasks import TaskOwner
from odradek.metadata.image.image import ClusterImage, ImageHolder
from odradek.metadata.image.topic_names import SHARE_GROUP_STATE

logger = logging.getLogger(__name__)

TOPIC: Final = CoordinatedTopic(
    name=SHARE_GROUP_STATE,
    title="the topic of share groups' states",
    subject="share-partition",
    contents="what its share groups have acknowledged",
    late_setting="share.coordinator.write.timeout.ms",
)

STATES_PER_TURN_MAX: Final = 500


class ShareCoordinator:
    """The coordinator of one broker. Everything happens on the event loop."""

    def __init__(
        self, log: InternalTopicLog, *, clock: Clock, settings: Settings, images: ImageHolder
    ) -> None:
        self._images = images
        self.runtime: CoordinatorRuntime[ShareStateMachine] = CoordinatorRuntime(
            TopicParts(
                TOPIC,
                log,
                clock,
                compression=settings.share_coordinator_state_topic_compression_codec,
                late_after_ms=settings.share_coordinator_write_timeout_ms,
            ),
            load_buffer_bytes=settings.share_coordinator_load_buffer_size,
            make_machine=lambda shard: ShareStateMachine(
                shard, settings=settings, images=images, forget_topics=self._begin_to_forget
            ),
        )
        self._pruning = Pruning(self.runtime, settings)
        self._tasks: TaskOwner | None = None
        self.writes = 0

    # --- life -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to serve: load the partitions that this broker leads, and follow the image from now on."""
        self._tasks = self.runtime.start("share-states", self._images, self._image_changed)
        self._tasks.start(self._pruning.run(), name="pruning")
        # Those that were loaded before there was an owner of tasks.
        for shard in self.runtime.list_loaded_shards():
            shard.machine.on_loaded()

    async def stop(self) -> None:
        """Serve no more, and end every background task."""
        await self.runtime.stop()

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.topics.get(SHARE_GROUP_STATE) is not new.topics.get(SHARE_GROUP_STATE):
            self.runtime.refresh()
        if old.topics_by_id is not new.topics_by_id:
            gone = frozenset(one for one in old.topics_by_id if one not in new.topics_by_id)
            if gone:
                self._begin_to_forget(gone)

    def _begin_to_forget(self, topic_ids: frozenset[UUID]) -> None:
        if self._tasks is not None and not self._tasks.is_closed:
            self._tasks.start(self._forget_topics(topic_ids), name="forget-topics")

    async def _forget_topics(self, topic_ids: frozenset[UUID]) -> None:
        """Remove the states of deleted topics. One that is not removed now is at the next load."""
        for shard in list(self.runtime.list_loaded_shards()):
            keys = shard.machine.list_of_topics(topic_ids)
            for number, key in enumerate(keys):
                if number % STATES_PER_TURN_MAX == 0:
                    await asyncio.sleep(0)
                error = await _settle(self._change(key, partial(_plan_delete, key)))
                if error is not None:
                    logger.warning("the state of %s of a deleted topic is still kept: %s", key, error)
                    return

    async def ensure_topic(self) -> None:
        """Create the topic of states if there is none. Raises what the controller raises."""
        await self.runtime.log.ensure_topic()

    # --- requests -------------------------------------------------------------------------------------------

    def initialize(
        self, key: ShareKey, *, state_epoch: int, start_offset: int
    ) -> OdradekError | Awaitable[OdradekError | None] | None:
        """Begin a state, or begin it again at another offset; gives the error, or None once it is written."""
        return self._change(
            key,
            lambda machine: machine.plan_initialize(key, state_epoch=state_epoch, start_offset=start_offset),
        )

    def write(
        self, key: ShareKey, change: StateChange
    ) -> OdradekError | Awaitable[OdradekError | None] | None:
        """Change a state; gives the error, or None once it is written."""
        return self._change(key, lambda machine: machine.plan_write(key, change))

    def delete(self, key: ShareKey) -> OdradekError | Awaitable[OdradekError | None] | None:
        """Remove a state; gives the error, or None once it is written, or where there was none."""
        return self._change(key, partial(_plan_delete, key))

    async def read(self, key: ShareKey, *, leader_epoch: int) -> ShareState:
        """The state, once older leaders are fenced. Raises FencedLeaderEpoch, InvalidRequest, what routing raises."""
        error = await _settle(
            self._change(key, lambda machine: machine.plan_read(key, leader_epoch=leader_epoch))
        )
        try:
            if error is not None:
                raise error
        finally:
            # Its trace has this frame: the two would hold each other.
            del error
        return self.runtime.shard(key.coordinator_key).machine.read(key)

    def summarize(self, key: ShareKey) -> StateSummary:
        """Raises UnknownTopicOrPartition, what routing raises."""
        return self.runtime.shard(key.coordinator_key).machine.summarize(key)

    def _change(
        self, key: ShareKey, plan: PlanRecords
    ) -> OdradekError | Awaitable[OdradekError | None] | None:
        answer: DeferredAnswer[OdradekError | None] = DeferredAnswer()
        name = key.coordinator_key
        try:
            shard: Shard[ShareStateMachine] = self.runtime.shard(name)

            def act() -> None:
                records = plan(shard.machine)
                if records:
                    self.writes += 1
                    shard.write(name, records, answer)
                else:
                    answer(None)

            shard.when_serving(name, act, answer)
        except RequestError as error:
            answer(without_trace(error))
        return answer.get()


def _plan_delete(key: ShareKey, machine: ShareStateMachine) -> list[EncodedRecord]:
    return machine.plan_delete(key)


async def _settle(
    outcome: OdradekError | Awaitable[OdradekError | None] | None,
) -> OdradekError | None:
    return await outcome if isinstance(outcome, Awaitable) else outcome
