"""Sends markers to the leaders of partitions (WriteTxnMarkers), until each partition has its own.

Markers for one broker wait in its queue, and leave together: one request is under way to each broker. A partition that
cannot take its marker is tried again at the leader of then, after a pause that grows to a second. There is no last try:
the outcome is decided, and readers wait for it. A partition whose topic is gone needs no marker.

An attempt (`MarkerRound`) belongs to a shard, and so to one coordinator epoch, and to the transaction that it ends.
Answers that arrive when the attempt is over change nothing (KAFKA-9777, KAFKA-16352).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from odradek.broker.coordination.shard import Shard, ShardState
from odradek.broker.replication.broker_transport import BrokerTransport, MessageRequest
from odradek.broker.transactions.metadata import TV2, TransactionMetadata, TransactionState
from odradek.broker.transactions.state_machine import TransactionalId, TransactionStateMachine
from odradek.foundation.errors import FrameError, OdradekError
from odradek.foundation.ids import TopicPartition, by_topic
from odradek.foundation.limits import MARKERS_PER_REQUEST_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.foundation.tasks import TaskOwner
from odradek.foundation.transaction_errors import InvalidProducerEpoch, TransactionCoordinatorFenced
from odradek.metadata.image.image import NO_LEADER, ImageHolder
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.errors import NONE, code_of, error_name
from odradek.wire.protocol.messages import request

if TYPE_CHECKING:
    from odradek.wire.protocol.messages import Message
    from odradek.wire.protocol.responses.transactions import WriteTxnMarkersResponse

logger = logging.getLogger(__name__)

# Version 2 says which generation of the protocol the transaction has (KIP-1228).
VERSION: Final = 2
RETRY_SECONDS_MIN: Final = 0.02
RETRY_SECONDS_MAX: Final = 1.0
# A partition has learned of a newer coordinator. This shard closes soon, or the topic was created again.
FENCED_RETRY_SECONDS: Final = 30.0
_FENCED: Final = code_of(TransactionCoordinatorFenced)
_NEWER_EPOCH: Final = code_of(InvalidProducerEpoch)


class MarkerRound:
    """Sends to every partition of `prepared`, the id's metadata in PrepareCommit or PrepareAbort."""

    __slots__ = ("_on_complete", "attempts", "found", "prepared", "remaining", "shard")

    def __init__(
        self,
        shard: Shard[TransactionStateMachine],
        found: TransactionalId,
        on_complete: Callable[[MarkerRound], None],
    ) -> None:
        self.shard = shard
        self.found = found
        self.prepared: TransactionMetadata = found.metadata
        self.remaining = set(found.metadata.partitions)
        self.attempts = 0
        self._on_complete = on_complete

    @property
    def is_current(self) -> bool:
        """Whether this is still the attempt of its id, on a shard that is served."""
        return self.found.markers is self and self.shard.state is ShardState.ACTIVE

    @property
    def is_commit(self) -> bool:
        return self.prepared.state is TransactionState.PREPARE_COMMIT

    @property
    def coordinator_epoch(self) -> int:
        return self.shard.led_since_epoch

    def mark_done(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions have their marker, or need none. The last one completes the transaction."""
        if not self.is_current:
            return
        had = bool(self.remaining)
        self.remaining.difference_update(partitions)
        if had and not self.remaining:
            self._on_complete(self)

    def retry_seconds(self) -> float:
        """The pause before the next attempt for partitions that could not take their marker."""
        self.attempts += 1
        return float(min(RETRY_SECONDS_MIN * 2 ** min(self.attempts - 1, 10), RETRY_SECONDS_MAX))


class _Marker(NamedTuple):
    """The markers of one transaction for some partitions of one broker."""

    round: MarkerRound
    partitions: tuple[TopicPartition, ...]


class MarkerSender:
    """`transport` carries requests to brokers, this one among them. `images` says which broker leads a partition."""

    def __init__(self, transport: BrokerTransport, images: ImageHolder) -> None:
        self._transport = transport
        self._images = images
        self._queues: dict[int, deque[_Marker]] = {}
        self._sending: set[int] = set()
        self._retries: set[asyncio.TimerHandle] = set()
        self._tasks: TaskOwner | None = None
        self._troubles = RateLimitedLog(logger, "transaction markers")
        self.requests = 0
        self.retries = 0

    def start(self, tasks: TaskOwner) -> None:
        """`tasks` owns the requests."""
        self._tasks = tasks

    def stop(self) -> None:
        """Send no more. The caller closes `tasks`; the next coordinator sends what is left."""
        self._tasks = None
        self._queues.clear()
        for timer in self._retries:
            timer.cancel()
        self._retries.clear()

    @property
    def waiting(self) -> int:
        """Transactions' markers that wait for a broker, or for their next attempt."""
        return sum(len(queue) for queue in self._queues.values()) + len(self._retries)

    def send(self, markers: MarkerRound) -> None:
        """Begin to send to every partition that has no marker yet."""
        self._route(markers, tuple(markers.remaining))

    def _route(self, markers: MarkerRound, partitions: Iterable[TopicPartition]) -> None:
        if self._tasks is None or not markers.is_current:
            return
        image = self._images.current
        by_leader: dict[int, list[TopicPartition]] = {}
        gone: list[TopicPartition] = []
        for partition in sorted(partitions):
            topic = image.topics.get(partition.topic)
            if topic is None or partition.partition >= len(topic.partitions):
                gone.append(partition)
                continue
            leader = topic.partitions[partition.partition].leader
            by_leader.setdefault(leader if leader in image.brokers else NO_LEADER, []).append(partition)
        for leader, led in by_leader.items():
            if leader == NO_LEADER:
                self._retry(markers, led)
            else:
                self._queues.setdefault(leader, deque()).append(_Marker(markers, tuple(led)))
                self._wake(leader)
        markers.mark_done(gone)

    def _wake(self, broker_id: int) -> None:
        if broker_id not in self._sending and self._tasks is not None:
            self._sending.add(broker_id)
            self._tasks.start(self._drain(broker_id), name=f"markers-to-{broker_id}")

    def _retry(
        self, markers: MarkerRound, partitions: Sequence[TopicPartition], *, seconds: float | None = None
    ) -> None:
        if self._tasks is None or not markers.is_current:
            return
        self.retries += 1

        def again() -> None:
            self._retries.discard(timer)
            self._route(markers, partitions)

        pause = markers.retry_seconds() if seconds is None else seconds
        timer = asyncio.get_running_loop().call_later(pause, again)
        self._retries.add(timer)

    async def _drain(self, broker_id: int) -> None:
        try:
            while queue := self._queues.get(broker_id):
                batch = _take(queue)
                if batch:
                    await self._exchange(broker_id, batch)
            self._queues.pop(broker_id, None)
        finally:
            self._sending.discard(broker_id)

    async def _exchange(self, broker_id: int, batch: dict[MarkerRound, list[TopicPartition]]) -> None:
        self.requests += 1
        asked = MessageRequest(ApiKey.WRITE_TXN_MARKERS, VERSION, _message(batch))
        try:
            codes = _codes(await self._transport.send(broker_id, asked))
        except (OdradekError, FrameError, OSError) as error:
            self._troubles.warning("broker %d did not take markers of transactions: %s", broker_id, error)
            self._retry_all(batch)
            return
        except Exception:
            # A defect. Without another attempt these transactions would stay open for ever.
            logger.exception("broker %d gave an answer about markers that cannot be used", broker_id)
            self._retry_all(batch)
            return
        for markers, partitions in batch.items():
            producer_id = markers.prepared.producer_id
            self._take_answers(
                broker_id, markers, {one: codes.get((producer_id, *one)) for one in partitions}
            )

    def _retry_all(self, batch: dict[MarkerRound, list[TopicPartition]]) -> None:
        for markers, partitions in batch.items():
            self._retry(markers, partitions)

    def _take_answers(
        self, broker_id: int, markers: MarkerRound, codes: dict[TopicPartition, int | None]
    ) -> None:
        """`codes` are the errors by partition; None where the leader did not mention it."""
        done: list[TopicPartition] = []
        again: list[TopicPartition] = []
        fenced: list[TopicPartition] = []
        for partition, code in codes.items():
            if code == NONE:
                done.append(partition)
            elif code == _NEWER_EPOCH:
                # The producer has a newer epoch there: what this transaction wrote is ended, and nothing is open.
                self._troubles.warning(
                    "%s has a newer epoch of the transactional id %r and needs no marker of epoch %d",
                    partition,
                    markers.found.name,
                    markers.prepared.producer_epoch,
                )
                done.append(partition)
            elif code == _FENCED:
                fenced.append(partition)
            else:
                again.append(partition)
                name = "no answer" if code is None else error_name(code)
                self._troubles.info("broker %d takes a marker of %s later: %s", broker_id, partition, name)
        if fenced:
            self._troubles.warning(
                "%s and %d more know a newer coordinator of %r than epoch %d; it sends their markers",
                fenced[0],
                len(fenced) - 1,
                markers.found.name,
                markers.coordinator_epoch,
            )
            self._retry(markers, fenced, seconds=FENCED_RETRY_SECONDS)
        if again:
            self._retry(markers, again)
        markers.mark_done(done)


def _take(queue: deque[_Marker]) -> dict[MarkerRound, list[TopicPartition]]:
    """The next markers of a queue, without those of attempts that are over."""
    batch: dict[MarkerRound, list[TopicPartition]] = {}
    while queue and len(batch) < MARKERS_PER_REQUEST_MAX:
        markers, partitions = queue.popleft()
        if markers.is_current:
            batch.setdefault(markers, []).extend(partitions)
    return batch


def _codes(response: WriteTxnMarkersResponse) -> dict[tuple[int, str, int], int]:
    """The errors of an answer, by producer id, topic and partition."""
    return {
        (entry.producer_id, topic.name, one.partition_index): int(one.error_code)
        for entry in response.markers
        for topic in entry.topics
        for one in topic.partitions
    }


def _message(batch: dict[MarkerRound, list[TopicPartition]]) -> Message:
    return request(
        ApiKey.WRITE_TXN_MARKERS,
        VERSION,
        markers=[
            {
                "producer_id": markers.prepared.producer_id,
                "producer_epoch": markers.prepared.producer_epoch,
                "transaction_result": markers.is_commit,
                "topics": [
                    {"name": name, "partition_indexes": numbers}
                    for name, numbers in by_topic(partitions).items()
                ],
                "coordinator_epoch": markers.coordinator_epoch,
                "transaction_version": min(markers.prepared.client_version, TV2),
            }
            for markers, partitions in batch.items()
        ],
    )
