"""A replica that follows a leader: takes over its records as they are, and cuts off what the leader does not have.

A log is cut where it and the leader's part, which leader epochs tell, and never at the high watermark, which a
follower learns late (KIP-101, KIP-279): between two logs the last epoch that both know ends at the smaller of its two
ends. A follower's high watermark is the leader's, as far as its own log reaches.

What it leaves out: asking the leader (`fetcher`).
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.foundation.errors import NotLeaderOrFollower
from odradek.log.log import Log
from odradek.replication.replica import Replica


class FetchPosition(NamedTuple):
    """From where a follower goes on, and what its leader has to know of it."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class FollowingReplica(Replica):
    """The half of a partition that follows. The methods raise KafkaStorageError besides what they say."""

    __slots__ = ()

    def fetch_position(self) -> FetchPosition:
        """Where to fetch from now. Raises NotLeaderOrFollower when nobody is to be followed."""
        if not self.is_follower:
            raise NotLeaderOrFollower(f"{self.topic_partition} follows nobody.")
        log = self.log
        return FetchPosition(
            self.leader_epoch, log.log_end_offset, log.epochs.latest_epoch, log.log_start_offset
        )

    def is_at(self, position: FetchPosition) -> bool:
        """Whether what was fetched from `position` may be taken: nothing has happened since."""
        return (
            self.is_follower
            and position.leader_epoch == self.leader_epoch
            and position.fetch_offset == self.log.log_end_offset
        )

    def append_fetched(
        self, records: memoryview, *, leader_high_watermark: int, leader_log_start_offset: int
    ) -> int:
        """Append what the leader sent, which may end in a torn batch; how many bytes.

        Raises CorruptRecord when the bytes were damaged on their way, InvalidRecord when they do not follow the log's
        end; what came before a wrong batch is kept.
        """
        before = self.log.log_end_offset
        size_bytes = 0
        while len(records) > size_bytes:
            # None of an epoch that this replica has not heard of: its leader would be another one than is followed.
            taken = self.log.append_as_follower(
                records[size_bytes:] if size_bytes else records, leader_epoch_max=self.leader_epoch
            ).size_bytes
            if not taken:
                break
            size_bytes += taken
        if self.log.log_end_offset != before:
            self.bytes_in += size_bytes
        self._unshown_bytes += size_bytes
        self._follow_watermarks(leader_high_watermark, leader_log_start_offset)
        return size_bytes

    def _follow_watermarks(self, high_watermark: int, log_start_offset: int) -> None:
        log = self.log
        shown = min(high_watermark, log.log_end_offset)
        if shown > self.high_watermark:
            self._show(shown)
        if log_start_offset > log.log_start_offset:
            self.advance_log_start(min(log_start_offset, self.high_watermark))

    def truncate_at_divergence(self, epoch: int, end_offset: int) -> None:
        """The leader says that `epoch`, the last one that it has in common with what was fetched, ends there."""
        self.truncate_to(truncation_offset(self.log, epoch, end_offset))

    def truncate_to(self, offset: int) -> None:
        """Cut the log so that it ends at `offset`, if it is longer."""
        self.log.truncate_to(offset)
        self._after_cut()

    def begin_anew(self, offset: int) -> None:
        """The leader's log starts behind the end of this one: nothing here is of use any more."""
        self.log.truncate_fully_and_start_at(offset)
        self._after_cut()
        self.high_watermark = max(self.high_watermark, offset)

    def _after_cut(self) -> None:
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)
        if self.high_watermark == self.log.log_end_offset:
            self._unshown_bytes = 0


def truncation_offset(log: Log, epoch: int, end_offset: int) -> int:
    """Where to cut `log`, whose leader's newest epoch not after our last is `epoch` and ends at `end_offset`.

    When we do not know that epoch the cut goes to the end of the one before it that we do know, and the next answer
    tells more (KIP-279).
    """
    own_end_offset: int = log.log_end_offset
    if epoch < 0:
        return min(end_offset, own_end_offset)
    own_epoch, own_epoch_end = log.end_offset_for_epoch(epoch)
    if own_epoch < 0 or own_epoch_end < 0:
        return min(end_offset, own_end_offset)
    if own_epoch != epoch:
        return min(own_epoch_end, own_end_offset)
    return min(own_epoch_end, end_offset, own_end_offset)
