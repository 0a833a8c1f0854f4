"""The records that one ShareFetch acquires: at once where there are some, else when a share-partition offers them.

It registers with its share-partitions, reads each of them once, and then waits. Each of them offers what becomes
available to one fetch after the other, so a fetch that waits costs nothing. The purgatory has its time. It ends with
its session: a member that is gone acquires nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from odradek.broker.replication.purgatory import Purgatory
from odradek.broker.shares.acquisition import AcquiredRange
from odradek.broker.shares.leader import ShareLeader
from odradek.broker.shares.sessions import ShareSession, Target
from odradek.broker.shares.share_partition import Readable, SharePartition, Wanted
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import RequestError
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.foundation.turns import Turn
from odradek.storage.files import FileSlice

logger = logging.getLogger(__name__)

# Share-partitions that are read in one turn: the headers of what is acquired are read too.
_READ_PER_TURN_MAX: Final = 50


class Acquired(NamedTuple):
    """What a fetch gives of one share-partition."""

    records: FileSlice
    offsets: Sequence[AcquiredRange]


class MemberFetch:
    """One fetch of a session. `acquired` and `failures` have what it has come to, by partition."""

    def __init__(
        self,
        leader: ShareLeader,
        purgatory: Purgatory,
        session: ShareSession,
        wanted: Wanted,
        *,
        bytes_max: int,
        bytes_min: int,
    ) -> None:
        self._leader = leader
        self._purgatory = purgatory
        self._session = session
        self._wanted = wanted
        self._bytes_max = bytes_max
        self._bytes_min = bytes_min
        self._records_left = wanted.records_max
        self._targets: dict[SharePartition, Target] = {}
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.acquired: dict[Target, Acquired] = {}
        self.failures: dict[Target, Exception] = {}

    async def run(self, targets: Sequence[Target], *, wait_seconds: float) -> None:
        """Return once there are records, a failure, or the time is up."""
        self._session.fetches[self] = None
        try:
            await self._begin(targets)
            if not self._is_over and wait_seconds > 0 and self._targets:
                waiting = self._purgatory.wait(
                    (), bytes_missing=1, wait_seconds=wait_seconds, on_ready=self._end_wait
                )
                if waiting is not None:
                    await self._done
                    waiting.cancel()
            if not self.acquired and not self.failures and self._bytes_min > 1 and not self._is_abandoned:
                # Its time is over: fewer bytes than it wants are better than none.
                self._bytes_min = 1
                await self._read_all()
        finally:
            self._session.fetches.pop(self, None)
            for share_partition in self._targets:
                share_partition.waiting.pop(self, None)

    @property
    def _is_over(self) -> bool:
        return bool(self.acquired or self.failures) or self._done.done()

    @property
    def _is_abandoned(self) -> bool:
        return self not in self._session.fetches

    def abandon(self) -> None:
        """The session is over."""
        self._session.fetches.pop(self, None)
        self._end_wait()

    def offer(self, share_partition: SharePartition) -> None:
        """`share_partition` may have something."""
        if self._is_over:
            return
        if self._bytes_min > 1 and not self._has_enough():
            return
        self._take(share_partition, self._bytes_max)
        if self.acquired or self.failures:
            self._end_wait()

    def _end_wait(self) -> None:
        if not self._done.done():
            self._done.set_result(None)

    async def _begin(self, targets: Sequence[Target]) -> None:
        group_id = self._session.key.group_id
        turn = Turn(REQUEST_ELEMENTS_PER_TURN_MAX)
        for target in targets:
            if turn.is_over():
                await turn.next()
            try:
                share_partition = self._leader.get(group_id, *target)
            except Exception as error:
                self._fail(target, error)
            else:
                self._targets[share_partition] = target
        if self._is_over:
            # The client learns of failures at once, and of records that are there now.
            self._bytes_min = 1
        await self._read_all()
        if not self._is_over:
            for share_partition in self._targets:
                share_partition.waiting[self] = None
                if share_partition.failure is not None:
                    self._take(share_partition, self._bytes_max)

    async def _read_all(self) -> None:
        """Acquire from each share-partition that has something; each has the same share of the bytes."""
        if self._bytes_min > 1 and not self._has_enough():
            return
        turn = Turn(_READ_PER_TURN_MAX)
        bytes_each = max(self._bytes_max // max(len(self._targets), 1), 1)
        left = self._bytes_max
        for share_partition in list(self._targets):
            if turn.is_over():
                await turn.next()
                if self._is_abandoned:
                    return
            if self._records_left <= 0 or (left <= 0 and self.acquired):
                return
            left -= self._take(share_partition, min(bytes_each, max(left, 1)))

    def _has_enough(self) -> bool:
        """Whether there are as many bytes as the client wants. Where looking takes too long, any are enough."""
        if len(self._targets) > _READ_PER_TURN_MAX:
            return True
        size = 0
        for share_partition in self._targets:
            readable = self._read(share_partition, self._bytes_max)
            size += 0 if readable is None else readable.records.size
        return size >= self._bytes_min or bool(self.failures)

    def _take(self, share_partition: SharePartition, bytes_max: int) -> int:
        """Acquire from one share-partition; the bytes of that."""
        target = self._targets[share_partition]
        readable = self._read(share_partition, bytes_max)
        if readable is None:
            return 0
        try:
            offsets, records = share_partition.acquire(
                readable, self._wanted._replace(records_max=self._records_left)
            )
        except Exception as error:
            self._fail(target, error)
            return 0
        if records is None:
            return 0
        self.acquired[target] = Acquired(records, offsets)
        self._records_left -= sum(one.size for one in offsets)
        return records.size

    def _read(self, share_partition: SharePartition, bytes_max: int) -> Readable | None:
        target = self._targets[share_partition]
        if share_partition.is_loading or target in self.failures:
            return None
        try:
            return share_partition.read(bytes_max=bytes_max, at_least_one_batch=not self.acquired)
        except Exception as error:
            self._fail(target, error)
            return None

    def _fail(self, target: Target, error: Exception) -> None:
        if not isinstance(error, RequestError):
            logger.error("fetching %s-%d for a share group failed", *target, exc_info=error)
        self.failures[target] = without_trace(error)
