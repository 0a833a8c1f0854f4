"""The partitions that one fetch asks for, and reading what they have now, within its limits.

Limits are Kafka's. The first partition with records gives at least one batch, even above its own limit or the
request's. So a reader always gets past a large batch. The others share the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import cast

from odradek.broker.replication.hosted_partitions import HostedPartitions
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.partition_reader import LeadershipUnconfirmed
from odradek.broker.replication.purgatory import Watched
from odradek.broker.replication.replica_selector import ReplicaSelector
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import OffsetOutOfRange, RequestError, UnknownTopicId, UnknownTopicOrPartition
from odradek.foundation.turns import Turn
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.hot.fetch_request import AskedPartition, Key
from odradek.wire.protocol.hot.fetch_response import FetchedPartition

logger = logging.getLogger(__name__)


class FetchTarget:
    """One partition as the request asks for it, and as the session last answered it."""

    __slots__ = (
        "bytes_max",
        "current_leader_epoch",
        "fetch_offset",
        "follower_log_start",
        "high_watermark",
        "index",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "matching_epoch",
        "partition",
        "topic",
    )

    def __init__(
        self,
        topic: str | bytes,
        index: int,
        fetch_offset: int,
        bytes_max: int,
        current_leader_epoch: int,
        last_fetched_epoch: int,
        follower_log_start: int = -1,
    ) -> None:
        self.topic = topic
        self.index = index
        self.key: Key = (topic, index)
        self.fetch_offset = fetch_offset
        self.bytes_max = bytes_max
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.follower_log_start = follower_log_start
        self.partition: Partition | None = None
        self.matching_epoch = -1
        """The leader epoch in which a follower's request was found to match the log as it stands."""
        self.high_watermark = -1
        self.log_start_offset = -1

    def update(self, asked: AskedPartition) -> None:
        """Take what the client asks now; what it was answered stays."""
        (
            _,
            _,
            self.fetch_offset,
            self.bytes_max,
            self.current_leader_epoch,
            self.last_fetched_epoch,
            self.follower_log_start,
        ) = asked
        self.matching_epoch = -1


class Fetched(FetchedPartition):
    """The part of one partition in one answer, with the target of the request that asks for it."""

    __slots__ = ("partition", "target")

    def __init__(self, target: FetchTarget) -> None:
        FetchedPartition.__init__(self, target.topic, target.index)
        self.target = target
        self.partition: Partition | None = None

    def remember(self) -> None:
        """Note in the session what its client is answered. An error is answered again until it is over."""
        target = self.target
        target.high_watermark = -1 if self.error_code else self.high_watermark
        target.log_start_offset = self.log_start_offset


class FetchReading:
    """Reads the partitions of one fetch, once or, after a wait, again."""

    __slots__ = (
        "_bytes_max",
        "_is_committed_only",
        "_leader_only",
        "_partitions",
        "is_unconfirmed",
        "must_answer_now",
        "nearest",
        "size",
        "targets",
    )

    def __init__(
        self,
        partitions: HostedPartitions,
        targets: Collection[FetchTarget],
        *,
        bytes_max: int,
        is_committed_only: bool = False,
        leader_only: bool = False,
    ) -> None:
        """`leader_only` is for clients that must not be served by a follower."""
        self._partitions = partitions
        self._bytes_max = bytes_max
        self._is_committed_only = is_committed_only
        self._leader_only = leader_only
        self.nearest: ReplicaSelector | None = None
        """Selects the replica that a client should read from; None where all clients read from the leader."""
        self.targets = targets
        self.size = 0
        """Bytes of records in the last `read`."""
        self.must_answer_now = False
        """Whether the last `read` found an error or a diverging epoch: then a fetch does not wait."""

        self.is_unconfirmed = False
        """Whether a partition of the last `read` has an error that the controller's word may change."""

    def deny(self, topics: Mapping[str | bytes, RequestError]) -> None:
        """Answer the partitions of these topics with their errors, however often this is read."""
        for target in self.targets:
            if target.topic in topics:
                target.partition = None
        # Partitions are looked up only then, so the reading of all others costs nothing more.
        self._partitions = cast(HostedPartitions, _Denying(self._partitions, topics))

    def list_watched(self, results: list[Fetched]) -> list[Watched]:
        """The replicas to watch for more to read."""
        return [fetched.partition.replica for fetched in results if fetched.partition is not None]

    def read(self, *, after_wait: bool = False) -> list[Fetched]:
        """Read every partition in turn until the bytes are used up. `after_wait`: this fetch was read before."""
        del after_wait  # Only a follower's position must not be noted twice.
        return self._read(self.targets)

    def _read(self, targets: Collection[FetchTarget]) -> list[Fetched]:
        self.size = 0
        self.must_answer_now = self.is_unconfirmed = False
        results: list[Fetched] = []
        for target in targets:
            fetched = Fetched(target)
            results.append(fetched)
            try:
                self._read_one(target, fetched)
            except Exception as error:
                self._note_error(error, fetched)
        return results

    async def read_in_turns(self, *, after_wait: bool = False) -> list[Fetched]:
        """As `read`, some partitions in each turn of the loop."""
        del after_wait
        self.size = 0
        self.must_answer_now = self.is_unconfirmed = False
        results: list[Fetched] = []
        turn = Turn()
        for target in self.targets:
            if turn.is_over():
                await turn.next()
            fetched = Fetched(target)
            results.append(fetched)
            try:
                self._read_one(target, fetched)
            except Exception as error:
                self._note_error(error, fetched)
        return results

    def _read_one(self, target: FetchTarget, fetched: Fetched) -> None:
        partition = target.partition
        if partition is None or partition.replica.gone is not None:
            partition = target.partition = self._partitions.get_by_key(target.topic, target.index)
        fetched.partition = partition
        if partition.replica.context.is_registry_silent and partition.leader is not None:
            partition.leader.require_confirmed()
        if self.nearest is not None and self._prefers_other_replica(self.nearest, target, partition, fetched):
            return
        if target.last_fetched_epoch >= 0 and self._diverges(target, partition, fetched):
            return
        found = partition.reader.read(
            target.fetch_offset,
            min(target.bytes_max, max(0, self._bytes_max - self.size)),
            at_least_one_batch=self.size == 0,
            committed_only=self._is_committed_only,
            current_leader_epoch=target.current_leader_epoch,
            leader_only=self._leader_only,
        )
        _, fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset = found
        records = found.slice
        if records is not None and records.size:
            fetched.records = records
            fetched.size = records.size
            self.size += records.size
            if self._is_committed_only:
                fetched.aborted = partition.reader.find_aborted_transactions(target.fetch_offset, records)
        elif self._is_committed_only:
            fetched.aborted = []  # As Kafka: null is for readers of uncommitted records.

    def _diverges(self, target: FetchTarget, partition: Partition, fetched: Fetched) -> bool:
        """Whether the reader's last epoch ended at another offset in this log: the reader must truncate first."""
        partition.replica.check_leader_epoch(target.current_leader_epoch)
        try:
            fetched.diverging = partition.reader.divergence(target.last_fetched_epoch, target.fetch_offset)
        except OffsetOutOfRange:
            partition.reader.require_certain_out_of_range(target.fetch_offset)
            raise
        if fetched.diverging is None:
            return False
        if target.last_fetched_epoch > partition.leader_epoch:
            partition.reader.require_certain_out_of_range(target.fetch_offset)
        self._fill_offsets(partition, fetched)
        return True

    def _prefers_other_replica(
        self, nearest: ReplicaSelector, target: FetchTarget, partition: Partition, fetched: Fetched
    ) -> bool:
        """Whether another replica is nearer to the client and has what it asks for (KIP-392)."""
        if partition.leader is None:
            return False
        partition.require_leader(target.current_leader_epoch)
        fetched.preferred_replica = nearest(partition, target.fetch_offset)
        if fetched.preferred_replica < 0:
            return False
        self._fill_offsets(partition, fetched)
        return True

    def _fill_offsets(self, partition: Partition, fetched: Fetched) -> None:
        """Fill in an answer without records, which does not wait."""
        fetched.high_watermark = partition.high_watermark
        fetched.last_stable_offset = partition.last_stable_offset
        fetched.log_start_offset = partition.log.log_start_offset
        self.must_answer_now = True

    def _note_error(self, error: Exception, fetched: Fetched) -> None:
        if not isinstance(error, RequestError):
            logger.error("reading %s for a fetch failed", fetched.target.key, exc_info=error)
        self.is_unconfirmed = self.is_unconfirmed or isinstance(error, LeadershipUnconfirmed)
        # A denied topic's error is raised for each of its partitions, by a function that has it in a variable.
        fetched.error_code = error_code(without_trace(error))
        if isinstance(error, UnknownTopicOrPartition | UnknownTopicId):
            fetched.aborted = []  # As Kafka answers for an unknown topic or partition.
        self.must_answer_now = True


class _Denying:
    """The partitions of this broker, without those of some topics."""

    def __init__(self, partitions: HostedPartitions, topics: Mapping[str | bytes, RequestError]) -> None:
        self._partitions = partitions
        self._topics = topics

    def get_by_key(self, key: str | bytes, partition: int) -> Partition:
        """Raises the topic's error, or as `HostedPartitions.get_by_key`."""
        denied = self._topics.get(key)
        if denied is not None:
            raise denied
        return self._partitions.get_by_key(key, partition)
