"""The role of a broker that follows a partition's leader: it appends the leader's records and truncates what differs.

A log is truncated where leader epochs say that it parts from the leader's. It is never truncated at the high watermark,
which a follower learns late (KIP-101, KIP-279). Between two logs the last epoch that both know ends at the smaller of
its two ends. A follower's high watermark is the leader's, as far as its own log reaches.

What it leaves out: requests to the leader (`replica_fetcher`).
"""

from __future__ import annotations

from odradek.broker.replication.replica import Replica
from odradek.foundation.named_tuple import NamedTuple
from odradek.storage.log import Log


class FetchPosition(NamedTuple):
    """From where a follower fetches, and what its leader has to know of its log."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class Follower:
    """A partition has one while another broker leads. The methods raise KafkaStorageError besides what they say."""

    __slots__ = ("replica",)

    def __init__(self, replica: Replica) -> None:
        self.replica = replica

    def fetch_position(self) -> FetchPosition:
        """Where to fetch from now."""
        log = self.replica.log
        return FetchPosition(
            self.replica.leader_epoch, log.log_end_offset, log.epochs.latest_epoch, log.log_start_offset
        )

    def is_at(self, position: FetchPosition) -> bool:
        """Whether an answer to a fetch from `position` still counts: epoch and log end are the same."""
        return (
            position.leader_epoch == self.replica.leader_epoch
            and position.fetch_offset == self.replica.log.log_end_offset
        )

    def append(self, records: memoryview, *, leader_high_watermark: int, leader_log_start_offset: int) -> int:
        """Append what the leader sent, which may end in a torn batch; how many bytes.

        Raises CorruptRecord for bytes that were damaged on the network, and InvalidRecord for records that do not
        begin at the log's end. The batches before a wrong one are kept.
        """
        replica = self.replica
        log = replica.log
        before = log.log_end_offset
        size_bytes = 0
        while len(records) > size_bytes:
            # No record of a later epoch: it would come from another leader than the one that is followed.
            appended_bytes = log.append_as_follower(
                records[size_bytes:] if size_bytes else records, leader_epoch_max=replica.leader_epoch
            ).size_bytes
            if not appended_bytes:
                break
            size_bytes += appended_bytes
        if log.log_end_offset != before:
            replica.bytes_in += size_bytes
        replica.uncommitted_bytes += size_bytes
        self._follow_watermarks(leader_high_watermark, leader_log_start_offset)
        return size_bytes

    def _follow_watermarks(self, high_watermark: int, log_start_offset: int) -> None:
        replica = self.replica
        end_offset = min(high_watermark, replica.log.log_end_offset)
        if end_offset > replica.high_watermark:
            replica.advance_high_watermark(end_offset)
        if log_start_offset > replica.log.log_start_offset:
            replica.advance_log_start(min(log_start_offset, replica.high_watermark))

    def truncate_at_divergence(self, epoch: int, end_offset: int) -> None:
        """Truncate the log where it parts from the leader's: there `epoch`, the last common one, ends in its log."""
        self.truncate_to(truncation_offset(self.replica.log, epoch, end_offset))

    def truncate_to(self, offset: int) -> None:
        """Truncate the log so that it ends at `offset`, if it is longer."""
        self.replica.log.truncate_to(offset)
        self._after_truncation()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Delete all records and start at `offset`: the leader's log starts after the end of this one."""
        self.replica.log.truncate_fully_and_start_at(offset)
        self._after_truncation()
        self.replica.high_watermark = max(self.replica.high_watermark, offset)

    def _after_truncation(self) -> None:
        replica = self.replica
        replica.high_watermark = min(replica.high_watermark, replica.log.log_end_offset)
        if replica.high_watermark == replica.log.log_end_offset:
            replica.uncommitted_bytes = 0


def truncation_offset(log: Log, epoch: int, end_offset: int) -> int:
    """Where to truncate `log`; its leader's newest epoch not after our last is `epoch` and ends at `end_offset`.

    When this log does not know that epoch, the newest earlier one that it knows is truncated at its end. The leader's
    next answer then names an earlier epoch (KIP-279).
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
