"""The states of share-partitions in memory, in place of the share coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from uuid import UUID

from odradek.broker.share_states.batches import StateBatches
from odradek.broker.share_states.states import (
    NOT_STARTED,
    UNCHANGED,
    PartitionsByTopic,
    ShareKey,
    ShareState,
    StartOffsets,
    StateChange,
    StateErrors,
    StateSummary,
)
from odradek.foundation.errors import FencedLeaderEpoch, FencedStateEpoch, InvalidRequest, OdradekError


class MemoryShareStates:
    """A `ShareStates` and a `ShareStateRequests`. `fail_with` makes all fail, `hold` makes them wait until set."""

    def __init__(self) -> None:
        self.states: dict[ShareKey, ShareState] = {}
        self.fail_with: OdradekError | None = None
        self.go = asyncio.Event()
        self.go.set()
        self.changes: list[tuple[ShareKey, StateChange]] = []
        self.initialized: list[tuple[ShareKey, int, int]] = []

    async def _begin(self) -> None:
        await self.go.wait()
        if self.fail_with is not None:
            raise self.fail_with

    async def read(self, key: ShareKey, *, leader_epoch: int) -> ShareState:
        await self._begin()
        state = self.states.get(key)
        if state is None:
            raise InvalidRequest("Read operation on uninitialized share partition not allowed.")
        if leader_epoch < state.leader_epoch:
            raise FencedLeaderEpoch("another broker leads")
        self.states[key] = state = state._replace(leader_epoch=leader_epoch)
        return state

    async def write(self, key: ShareKey, change: StateChange) -> None:
        await self._begin()
        state = self.states[key]
        if change.leader_epoch < state.leader_epoch:
            raise FencedLeaderEpoch("another broker leads")
        if change.state_epoch < state.state_epoch:
            raise FencedStateEpoch("it was initialized again")
        start_offset = state.start_offset if change.start_offset == UNCHANGED else change.start_offset
        batches = StateBatches(state.batches)
        for batch in change.batches:
            batches.put(batch)
        batches.cut_below(start_offset)
        self.changes.append((key, change))
        self.states[key] = state._replace(
            start_offset=start_offset,
            batches=tuple(batches),
            delivery_complete_count=change.delivery_complete_count,
        )

    async def initialize(self, group_id: str, starts: StartOffsets, *, state_epoch: int) -> StateErrors:
        try:
            await self._begin()
        except OdradekError as error:
            return {(topic_id, number): error for topic_id, offsets in starts.items() for number in offsets}
        for topic_id, offsets in starts.items():
            for number, offset in offsets.items():
                key = ShareKey(group_id, topic_id, number)
                self.initialized.append((key, offset, state_epoch))
                self.states[key] = ShareState(state_epoch, offset)
        return {}

    async def delete(self, group_id: str, partitions: PartitionsByTopic) -> StateErrors:
        try:
            await self._begin()
        except OdradekError as error:
            return {
                (topic_id, number): error for topic_id, numbers in partitions.items() for number in numbers
            }
        for topic_id, numbers in partitions.items():
            for number in numbers:
                self.states.pop(ShareKey(group_id, topic_id, number), None)
        return {}

    async def summarize(
        self, group_id: str, partitions: PartitionsByTopic
    ) -> Mapping[tuple[UUID, int], StateSummary | OdradekError]:
        found: dict[tuple[UUID, int], StateSummary | OdradekError] = {}
        for topic_id, numbers in partitions.items():
            for number in numbers:
                state = self.states.get(ShareKey(group_id, topic_id, number), ShareState(0, NOT_STARTED))
                found[topic_id, number] = StateSummary(
                    state.state_epoch, state.leader_epoch, state.start_offset, state.delivery_complete_count
                )
        return found
