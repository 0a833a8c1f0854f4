"""The states of share-partitions that a share group has made and deleted (KIP-932, `ShareGroupStatePartitionMetadata`).

A state is there before its partition is assigned, and gone before the group forgets it. Each step is in the log of
groups before the share coordinators are asked, so another coordinator carries on where this one stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Final
from uuid import UUID

from odradek.broker.groups.conversion import GroupParts
from odradek.broker.groups.share.group import ShareGroup
from odradek.broker.groups.share.schema import Topics as StateTopics
from odradek.broker.groups.share.update import Partitions, ShareUpdate
from odradek.broker.share_states.states import NOT_STARTED, PartitionsByTopic, StartOffsets, StateErrors
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import OdradekError, UnknownTopicOrPartition
from odradek.foundation.limits import SHARE_STATE_RETRY_SECONDS
from odradek.metadata.image.image import TopicImage

logger = logging.getLogger(__name__)

_NOTHING_READ: Final = "The group has read nothing of the topic."
# After a failure that is known, as a new coordinator that is being elected.
_FAILED_RETRY_SECONDS: Final = 1.0

Topics = Mapping[str, TopicImage]


class GroupStates:
    """Those of one shard's share groups."""

    def __init__(self, parts: GroupParts, new_group: Callable[[str], ShareGroup]) -> None:
        """`new_group` makes one without members."""
        self._groups, self._shard, self._context = parts
        self._new_group = new_group
        # The topics beside which each group's subscriptions were last looked at.
        self._seen: dict[str, Topics] = {}

    # --- what heartbeats ask --------------------------------------------------------------------------------

    def topics_seen(self, group: ShareGroup) -> Topics | None:
        return self._seen.get(group.group_id)

    def note_topics(self, group: ShareGroup, topics: Topics) -> None:
        self._seen[group.group_id] = topics

    def is_due(self, group: ShareGroup) -> bool:
        """Whether states were asked for, and no answer came for a long time."""
        return bool(group.states.initializing) and self.may_ask_again(group)

    def may_ask_again(self, group: ShareGroup) -> bool:
        return self._shard.now() >= group.initializing_until

    # --- making ---------------------------------------------------------------------------------------------

    def make(self, group: ShareGroup, partitions: Partitions) -> None:
        """Have the states made. The group has noted that already."""
        group.initializing_until = self._shard.now() + SHARE_STATE_RETRY_SECONDS
        assert self._context.tasks is not None, "the coordinator has started"
        self._context.tasks.start(
            self._make(group.group_id, group.epoch, partitions), name=f"share-states-{group.group_id}"
        )

    async def _make(self, group_id: str, state_epoch: int, partitions: Partitions) -> None:
        starts = {
            topic_id: dict.fromkeys(sorted(numbers), NOT_STARTED) for topic_id, numbers in partitions.items()
        }
        errors = await self._context.share_states.initialize(group_id, starts, state_epoch=state_epoch)
        made = _without_failed(partitions, errors)
        for (topic_id, number), error in errors.items():
            logger.warning(
                "group %r: the state of partition %d of topic %s was not made, it is tried again: %s",
                *(group_id, number, topic_id, error),
            )
        self._when_current(group_id, partial(self._note_made, made, bool(errors)))

    def _note_made(self, made: Partitions, has_failed: bool, group: ShareGroup) -> None:
        if has_failed:
            group.initializing_until = self._shard.now() + _FAILED_RETRY_SECONDS
        if not made:
            return
        update = ShareUpdate(group, self._context)
        # The topic may be gone by now.
        update.end_states({one: numbers for one, numbers in made.items() if one in group.states.initializing})
        if update.records:
            self._shard.write(group.group_id, update.records, partial(_report, group.group_id))
        # The next heartbeat assigns them.
        self._seen.pop(group.group_id, None)

    def _when_current(self, group_id: str, act: Callable[[ShareGroup], None]) -> None:
        """Call `act` with the group once no change of it is being written, unless it is gone."""

        def look() -> None:
            self._shard.check_serving()
            group = self._groups.share(group_id)
            if group is not None:
                act(group)

        try:
            self._shard.when_free(group_id, look)
        except OdradekError as error:
            logger.warning("group %r: a step of its states waits for the next heartbeat: %s", group_id, error)

    # --- requests of administrators -------------------------------------------------------------------------

    def list_initialized(self, group_id: str) -> StateTopics:
        """The topics whose states the group keeps. Raises GroupIdNotFound."""
        group = self._groups.share(group_id)
        if group is None:
            raise self._groups.missing(group_id, "share")
        return group.states.initialized

    async def delete_all(self, group_id: str) -> None:
        """Delete every state of a group that is about to be deleted. Raises what hinders that."""
        group = self._find_empty(group_id)
        states = group.states
        named = {**states.initializing, **states.initialized, **states.deleting}
        partitions = self._list_partitions(states.initializing, states.initialized, states.deleting)
        if named:
            await self._change(group_id, lambda update: update.begin_deletion(named))
        errors = await self._context.share_states.delete(group_id, partitions)
        for error in errors.values():
            raise error
        await self._change(group_id, ShareUpdate.forget_states)

    async def delete_topics(self, group_id: str, topic_ids: Iterable[UUID]) -> Mapping[UUID, OdradekError]:
        """Delete the states of topics; the errors by topic. Raises GroupIdNotFound, NonEmptyGroup, errors of writes."""
        group = self._find_empty(group_id)
        wanted = set(topic_ids)
        known = {**group.states.initialized, **group.states.deleting}
        partitions = {one: numbers for one, numbers in self._list_partitions(known).items() if one in wanted}
        await self._change(group_id, lambda update: update.begin_deletion(partitions))
        errors = await self._context.share_states.delete(group_id, partitions)
        failed: dict[UUID, OdradekError] = {topic_id: error for (topic_id, _), error in errors.items()}
        failed |= {one: UnknownTopicOrPartition(_NOTHING_READ) for one in wanted if one not in partitions}
        done = [one for one in partitions if one not in failed]
        await self._change(group_id, lambda update: update.end_deletion(done))
        return failed

    async def reset(self, group_id: str, starts: StartOffsets) -> StateErrors:
        """Begin states at other offsets, or begin ones that are not there, of a group that may not be there either.

        Raises GroupIdNotFound for one of another kind, NonEmptyGroup and errors of writes.
        """
        partitions = {topic_id: frozenset(offsets) for topic_id, offsets in starts.items()}

        def begin(update: ShareUpdate) -> None:
            update.bump_epoch()
            update.begin_states(partitions)

        group = await self._change(group_id, begin, may_make=True)
        errors = await self._context.share_states.initialize(group_id, starts, state_epoch=group.epoch)
        made = _without_failed(partitions, errors)
        await self._change(group_id, lambda update: update.end_states(made))
        return errors

    def _list_partitions(self, *topics: StateTopics) -> dict[UUID, frozenset[int]]:
        """The partitions of topics. Of one whose states are being deleted, all that it has now."""
        by_id = self._context.images.current.topics_by_id
        found: dict[UUID, frozenset[int]] = {}
        for one in topics:
            for topic_id, topic in one.items():
                numbers = topic.partitions
                if not numbers and topic_id in by_id:
                    numbers = frozenset(range(len(by_id[topic_id].partitions)))
                found[topic_id] = found.get(topic_id, frozenset()) | numbers
        return {topic_id: numbers for topic_id, numbers in found.items() if numbers}

    def _find_empty(self, group_id: str) -> ShareGroup:
        group = self._groups.share(group_id)
        if group is None:
            raise self._groups.missing(group_id, "share")
        group.validate_delete()
        return group

    def _find_or_make(self, group_id: str) -> ShareGroup:
        return self._find_empty(group_id) if group_id in self._groups else self._new_group(group_id)

    def _change(
        self, group_id: str, plan: Callable[[ShareUpdate], None], *, may_make: bool = False
    ) -> Awaitable[ShareGroup]:
        """Write what `plan` changes of a group without members; gives the group. Raises as `_find_empty`."""
        done: asyncio.Future[ShareGroup] = asyncio.get_running_loop().create_future()

        def refuse(error: OdradekError) -> None:
            if not done.done():
                done.set_exception(without_trace(error))

        def act() -> None:
            group = self._find_or_make(group_id) if may_make else self._find_empty(group_id)
            update = ShareUpdate(group, self._context)
            plan(update)

            def on_written(error: OdradekError | None) -> None:
                if error is not None:
                    refuse(error)
                elif not done.done():
                    done.set_result(self._groups.share(group_id) or group)

            if update.records:
                self._shard.write(group_id, update.records, on_written)
            else:
                on_written(None)

        try:
            self._shard.when_serving(group_id, act, refuse)
        except OdradekError as error:
            refuse(error)
        return done

    # --- topics that are gone -------------------------------------------------------------------------------

    def forget_topics(self, topic_ids: frozenset[UUID]) -> None:
        """Forget topics that were deleted. Their states go with them, by the share coordinators' own look."""
        for group in list(self._groups.values()):
            if group.kind == "share":
                self._when_current(group.group_id, partial(self._forget, topic_ids))

    def _forget(self, topic_ids: frozenset[UUID], group: ShareGroup) -> None:
        update = ShareUpdate(group, self._context)
        update.forget_topics(topic_ids)
        if update.records:
            self._shard.write(group.group_id, update.records, partial(_report, group.group_id))


def _without_failed(partitions: PartitionsByTopic, errors: StateErrors) -> Partitions:
    done = {
        topic_id: frozenset(number for number in numbers if (topic_id, number) not in errors)
        for topic_id, numbers in partitions.items()
    }
    return {topic_id: numbers for topic_id, numbers in done.items() if numbers}


def _report(group_id: str, error: OdradekError | None) -> None:
    if error is not None:
        logger.warning(
            "group %r: a step of its states was not written, it is tried again: %s", group_id, error
        )
