"""Reads of one partition, in any role of this broker: records below the high watermark, and ends of leader epochs.

Consumers read from leaders and from followers (KIP-392); followers read up to the log's end. A reader whose log parts
from this one learns where (KIP-595): the last epoch that both know ends at the smaller of its two ends.

What it leaves out: what a leader learns from a follower's fetch (`leader`).
"""

from __future__ import annotations

from odradek.broker.replication.replica import Replica
from odradek.foundation.errors import NotLeaderOrFollower, OffsetOutOfRange
from odradek.foundation.named_tuple import NamedTuple
from odradek.storage.files import FileSlice


class LeadershipUnconfirmed(NotLeaderOrFollower):
    """The controller has not lately confirmed that this broker leads the partition. It is asked when this is raised."""


class PartitionRead(NamedTuple):
    """The result of a read: the records (None when there are none yet) and the offsets at that moment."""

    slice: FileSlice | None
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


class PartitionReader:
    """Reads one replica. The methods raise KafkaStorageError besides what they say."""

    __slots__ = ("_replica",)

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def read(
        self,
        fetch_offset: int,
        bytes_max: int,
        *,
        at_least_one_batch: bool,
        committed_only: bool,
        current_leader_epoch: int = -1,
        leader_only: bool = False,
    ) -> PartitionRead:
        """Whole batches from the one that holds `fetch_offset`, below the high watermark or the last stable offset.

        A follower serves readers too, except with `leader_only`: consumers that know nothing of replicas (KIP-392).
        Raises OffsetOutOfRange below the log's start or above its end, if this broker can know that there is no such
        record. Raises FencedLeaderEpoch, UnknownLeaderEpoch and NotLeaderOrFollower.
        """
        replica = self._replica
        if replica.refusal is not None:
            self._require_readable(current_leader_epoch, leader_only=leader_only)
        elif current_leader_epoch != -1:
            replica.check_leader_epoch(current_leader_epoch)
        log = replica.log
        high_watermark = replica.high_watermark
        last_stable_offset = replica.last_stable_offset
        log_start_offset = log.offsets.log_start_offset
        limit = last_stable_offset if committed_only else high_watermark
        if log_start_offset <= fetch_offset < limit:
            records = None
            if bytes_max > 0 or at_least_one_batch:
                records = log.reader.read(
                    fetch_offset,
                    bytes_max=bytes_max,
                    offset_limit=limit,
                    at_least_one_batch=at_least_one_batch,
                )
                replica.bytes_out += records.size
            return PartitionRead(records, high_watermark, last_stable_offset, log_start_offset)
        if not log_start_offset <= fetch_offset <= log.offsets.log_end_offset:
            self.require_certain_out_of_range(fetch_offset)
            self._require_in_range(fetch_offset)
        return PartitionRead(None, high_watermark, last_stable_offset, log_start_offset)

    def read_for_follower(
        self, fetch_offset: int, bytes_max: int, *, at_least_one_batch: bool, last_fetched_epoch: int
    ) -> tuple[FileSlice | None, tuple[int, int] | None]:
        """The answer for a follower: batches up to the log's end, or where its log and this one part.

        Only a leader answers it. Raises OffsetOutOfRange outside the log, and when this log does not know the
        follower's last epoch.
        """
        log = self._replica.log
        offsets = log.offsets
        log_end_offset = offsets.log_end_offset
        is_in_range = offsets.log_start_offset <= fetch_offset <= log_end_offset
        # Within the newest epoch of this log the two cannot part.
        if last_fetched_epoch >= 0 and not (is_in_range and last_fetched_epoch == log.epochs.latest_epoch):
            diverging = self.divergence(last_fetched_epoch, fetch_offset)
            if diverging is not None:
                return None, diverging
        if not is_in_range:
            self._require_in_range(fetch_offset)
        if fetch_offset == log_end_offset or not (bytes_max > 0 or at_least_one_batch):
            return None, None
        records = log.reader.read(fetch_offset, bytes_max=bytes_max, at_least_one_batch=at_least_one_batch)
        return records, None

    def _require_readable(self, current_leader_epoch: int, *, leader_only: bool) -> None:
        replica = self._replica
        if leader_only or not replica.is_follower:
            replica.require_leader(current_leader_epoch)
        replica.check_leader_epoch(current_leader_epoch)

    def require_certain_out_of_range(self, offset: int) -> None:
        """Raise NotLeaderOrFollower when this broker cannot know whether `offset`, which it does not have, exists.

        A client that is answered OFFSET_OUT_OF_RANGE resets to another offset. A follower may lack what its leader
        has, and a broker that was stopped or cut off for some time may no longer lead.

        Kafka answers OFFSET_OUT_OF_RANGE in both cases, and clients that know that they read from a follower ask the
        leader next. LeadershipUnconfirmed lets a fetch wait for the controller's word. Below a follower's start this
        broker does the same as Kafka: franz-go returns to the leader for nothing else. Retention deletes the same
        records there.
        """
        replica = self._replica
        if replica.refusal is not None:
            if offset > replica.log.log_end_offset:
                raise NotLeaderOrFollower(
                    f"{replica.topic_partition} ends at {replica.log.log_end_offset} on the follower "
                    f"{replica.context.broker_id}. Only its leader, broker {replica.leader_id}, knows whether {offset} "
                    "exists."
                )
        elif not replica.context.is_leadership_certain():
            raise LeadershipUnconfirmed(
                f"{replica.topic_partition} has no {offset} on broker {replica.context.broker_id}, which first has "
                "to confirm with the controller that it still leads. Try again."
            )

    def _require_in_range(self, fetch_offset: int) -> None:
        """Raise OffsetOutOfRange outside the log."""
        log = self._replica.log
        if not log.log_start_offset <= fetch_offset <= log.log_end_offset:
            raise OffsetOutOfRange(
                f"{self._replica.topic_partition} holds offsets {log.log_start_offset} to {log.log_end_offset}; "
                f"{fetch_offset} is outside."
            )

    def divergence(self, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
        """Where a reader's log and this one part, as (epoch, end offset): the reader truncates its log there (KIP-595).

        None when this log has all that the reader has. `last_fetched_epoch` is the epoch of the record before
        `fetch_offset`. Raises OffsetOutOfRange when this log does not know.
        """
        epoch, end_offset = self.end_offset_for_epoch(last_fetched_epoch)
        where = self._replica.topic_partition
        if epoch < 0 or end_offset < 0:
            raise OffsetOutOfRange(
                f"{where} knows no end of epoch {last_fetched_epoch}, in which the reader fetched last."
            )
        log_start_offset = self._replica.log.log_start_offset
        if fetch_offset < log_start_offset:
            raise OffsetOutOfRange(f"{where} starts at {log_start_offset}, after {fetch_offset}.")
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        return None

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the newest epoch not after `epoch`; both -1 when there is none.

        A leader's own epoch begins where its log ends, also before anything is written in it. Raises
        UnknownTopicOrPartition.
        """
        replica = self._replica
        if replica.gone is not None:
            raise replica.gone.with_traceback(None)
        log = replica.log
        newest = log.epochs.latest_epoch
        if newest < epoch <= replica.leader_epoch and replica.refusal is None:
            known = newest if newest >= 0 and epoch < replica.leader_epoch else epoch
            return known, log.log_end_offset
        return log.end_offset_for_epoch(epoch)

    def find_aborted_transactions(self, fetch_offset: int, records: FileSlice) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions with records in what `read` has given.

        To be called before anything else happens. A few may lie above: the client passes over those by their markers.
        """
        replica = self._replica
        aborted = replica.log.reader.find_aborted_in(
            records, fetch_offset, offset_limit=replica.last_stable_offset
        )
        return [(transaction.producer_id, transaction.first_offset) for transaction in aborted]
