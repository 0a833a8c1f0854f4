"""Stores the changes of one share-partition, one write at a time, the oldest first.

Changes that come while a write is under way share the next one, as far as their offsets do not overlap. Offsets below
the start are left out: they are done.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from odradek.broker.share_states.states import ShareKey, ShareStates, StateChange, StateRange
from odradek.broker.shares.acknowledgement import PendingChange, join_states
from odradek.broker.shares.in_flight import InFlight
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    FencedStateEpoch,
    GroupIdNotFound,
    NotCoordinator,
    NotLeaderOrFollower,
    OdradekError,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from odradek.foundation.tasks import TaskOwner

logger = logging.getLogger(__name__)

# Called with None, or with why the change is not stored.
OnStored = Callable[[Exception | None], None]

# Another leader, or nothing at all, has taken the place of this one.
REPLACED: Final = (NotLeaderOrFollower, GroupIdNotFound, UnknownTopicOrPartition)


def as_seen_by_members(error: Exception) -> Exception:
    """The error that a member learns when a state could not be read or written; as Kafka's."""
    if isinstance(error, FencedLeaderEpoch | FencedStateEpoch | NotLeaderOrFollower):
        return NotLeaderOrFollower("This broker's state of the share-partition is out of date; try again.")
    if isinstance(error, NotCoordinator | CoordinatorLoadInProgress | CoordinatorNotAvailable):
        return CoordinatorNotAvailable("The share coordinator is not available; try again.")
    if isinstance(error, GroupIdNotFound | UnknownTopicOrPartition):
        return without_trace(error)
    return UnknownServerError("The state of the share-partition could not be stored.")


class StateWriter:
    """Of one share-partition, which `in_flight` is the records of."""

    def __init__(
        self,
        key: ShareKey,
        in_flight: InFlight,
        *,
        states: ShareStates,
        state_epoch: int,
        leader_epoch: int,
        tasks: TaskOwner,
    ) -> None:
        self._key = key
        self._in_flight = in_flight
        self._states = states
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self._tasks = tasks
        self._waiting: deque[tuple[PendingChange, OnStored]] = deque()
        self._is_writing = False
        self._task: asyncio.Task[None] | None = None
        self.failure: Exception | None = None
        """Why nothing is written any more."""

    def store(self, change: PendingChange, on_stored: OnStored) -> None:
        """Write `change`, and call `on_stored`, in a later turn of the loop unless the broker stops."""
        if self._tasks.is_closed:
            on_stored(_stopping())
            return
        self._waiting.append((change, on_stored))
        if not self._is_writing:
            self._is_writing = True
            self._task = self._tasks.start(self._write_all(), name=f"write {self._key.coordinator_key}")

    @property
    def under_way(self) -> asyncio.Task[None] | None:
        """What writes, until all is written or given up."""
        return self._task if self._is_writing else None

    async def _write_all(self) -> None:
        taken: list[tuple[PendingChange, OnStored]] = []
        try:
            while self._waiting:
                taken, batches = self._take()
                failure = self.failure or await self._write(batches)
                settled, taken = taken, []
                for _, on_stored in settled:
                    on_stored(failure)
        finally:
            self._is_writing = False
            # Only a broker that stops leaves some.
            left, self._waiting = [*taken, *self._waiting], deque()
            for _, on_stored in left:
                on_stored(_stopping())

    def _take(self) -> tuple[list[tuple[PendingChange, OnStored]], list[StateRange]]:
        taken = [self._waiting.popleft()]
        batches = list(taken[0][0].states)
        while self._waiting and not overlap(batches, self._waiting[0][0].states):
            taken.append(self._waiting.popleft())
            batches = sorted((*batches, *taken[-1][0].states))
        return taken, batches

    async def _write(self, batches: Sequence[StateRange]) -> Exception | None:
        in_flight = self._in_flight
        start = in_flight.start_offset
        kept = [
            batch._replace(first_offset=max(batch.first_offset, start))
            for batch in batches
            if batch.last_offset >= start
        ]
        change = StateChange(
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=start,
            delivery_complete_count=in_flight.delivery_complete_count,
            batches=join_states(kept),
        )
        try:
            await self._states.write(self._key, change)
        except Exception as error:
            if not isinstance(error, OdradekError):
                logger.exception("the state of %s could not be written", self._key.coordinator_key)
            failure = as_seen_by_members(error)
            if isinstance(failure, REPLACED):
                self.failure = failure
            return failure
        return None


def _stopping() -> Exception:
    return CoordinatorNotAvailable("The broker stops; try again.")


def overlap(batches: Sequence[StateRange], others: Sequence[StateRange]) -> bool:
    """Whether two lists, each sorted by offsets, have an offset in common."""
    for other in others:
        index = bisect_left(batches, other.first_offset, key=lambda batch: batch.last_offset)
        if index < len(batches) and batches[index].first_offset <= other.last_offset:
            return True
    return False
