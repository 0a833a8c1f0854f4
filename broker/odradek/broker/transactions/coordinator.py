"""Coordinates transactions: routes each request to its transactional id, and ends transactions with markers.

An id is served by the leader of its partition of `__transaction_state` (`broker.coordination.runtime`). A change is in
the log of all in-sync replicas before a request is answered. EndTxn is answered when the outcome is in the log: the
markers follow, and every later coordinator sends those that are left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Final, Protocol, TypeVar

from odradek.broker.coordination.runtime import CoordinatorRuntime
from odradek.broker.coordination.shard import Shard, ShardState
from odradek.broker.coordination.topic_log import CoordinatedTopic, InternalTopicLog, TopicParts
from odradek.broker.replication.broker_transport import BrokerTransport
from odradek.broker.transactions import decisions
from odradek.broker.transactions.decisions import PENDING, ProducerIdentity, ProducerIdNeeded
from odradek.broker.transactions.listing import TransactionStates
from odradek.broker.transactions.marker_sender import RETRY_SECONDS_MAX, MarkerRound, MarkerSender
from odradek.broker.transactions.metadata import (
    PREPARE_STATES,
    TV0,
    TV2,
    TransactionMetadata,
    new_transactional_id,
)
from odradek.broker.transactions.state_machine import TransactionalId, TransactionStateMachine
from odradek.broker.transactions.sweeps import Sweeps
from odradek.foundation.clock import Clock
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import (
    CoordinatorNotAvailable,
    InvalidRequest,
    NotCoordinator,
    OdradekError,
    RequestError,
)
from odradek.foundation.ids import TopicPartition
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.transaction_errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTransactionTimeout,
)
from odradek.metadata.image.image import ClusterImage, ImageHolder
from odradek.metadata.image.topic_names import TRANSACTION_STATE

logger = logging.getLogger(__name__)

T = TypeVar("T")

TOPIC: Final = CoordinatedTopic(
    name=TRANSACTION_STATE,
    title="the transaction log",
    subject="transactional id",
    contents="its transactional ids",
    late_setting="the time that a write may take",
)


class ProducerIdSource(Protocol):
    """Gives producer ids that were never used."""

    async def next(self) -> int: ...


class TransactionCoordinator:
    """The coordinator of one broker. Everything happens on the event loop.

    `version_level` gives the finalized transaction.version.
    """

    def __init__(
        self,
        log: InternalTopicLog,
        *,
        clock: Clock,
        current_settings: Callable[[], Settings],
        images: ImageHolder,
        producer_ids: ProducerIdSource,
        transport: BrokerTransport,
        version_level: Callable[[], int],
    ) -> None:
        self._clock = clock
        self._current_settings = current_settings
        self._images = images
        self._producer_ids = producer_ids
        self._version_level = version_level
        self.markers = MarkerSender(transport, images)
        self.runtime: CoordinatorRuntime[TransactionStateMachine] = CoordinatorRuntime(
            TopicParts(TOPIC, log, clock),
            load_buffer_bytes=current_settings().transaction_state_log_load_buffer_size,
            make_machine=lambda shard: TransactionStateMachine(
                shard, resume=self._send_markers, version_level=version_level
            ),
        )
        self.listing = TransactionStates(self.runtime, clock)
        self.sweeps = Sweeps(self.runtime, clock, current_settings, abort=self.abort_timed_out)
        self.completed: dict[str, int] = {"commit": 0, "abort": 0}
        """Transactions that have ended here, by outcome."""

    # --- life -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to serve: load the partitions that this broker leads, and follow the image from now on."""
        tasks = self.runtime.start("transactions", self._images, self._image_changed)
        self.markers.start(tasks)
        tasks.start(self.sweeps.abort_timed_out(), name="timeouts")
        tasks.start(self.sweeps.remove_expired(), name="expiry")

    async def stop(self) -> None:
        """Serve no more, and end every background task. The next coordinator sends the markers that are left."""
        self.markers.stop()
        await self.runtime.stop()

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.topics.get(TRANSACTION_STATE) is not new.topics.get(TRANSACTION_STATE):
            self.runtime.refresh()

    async def ensure_topic(self) -> None:
        """Create the transaction log if there is none. Raises what the controller raises."""
        await self.runtime.log.ensure_topic()

    # --- requests of producers ------------------------------------------------------------------------------

    async def initialize(
        self, name: str, *, timeout_ms: int, given: ProducerIdentity | None
    ) -> ProducerIdentity:
        """InitProducerId: fence older instances of the producer; gives its id and epoch.

        A transaction that is open is aborted first. Raises ConcurrentTransactions until that is done, InvalidRequest,
        InvalidTransactionTimeout, ProducerFenced, and what routing and the log raise.
        """
        _check_name(name)
        timeout_ms_max = self._current_settings().transaction_max_timeout_ms
        if not 0 < timeout_ms <= timeout_ms_max:
            raise InvalidTransactionTimeout(
                f"the transaction timeout of {timeout_ms} ms is not between 1 and transaction.max.timeout.ms "
                f"= {timeout_ms_max}"
            )
        shard = self.runtime.shard(name)
        if name not in shard.machine.ids:
            producer_id = await self._new_producer_id()
            _check_still_served(shard)
            if name not in shard.machine.ids:
                shard.machine.add(
                    name,
                    new_transactional_id(
                        producer_id=producer_id, timeout_ms=timeout_ms, now_ms=self._clock.wall_ms()
                    ),
                )

        def decide(found: TransactionalId, new_producer_id: int | None) -> TransactionMetadata:
            return decisions.initialize(
                found.metadata,
                is_pending=found.is_pending,
                given=given,
                timeout_ms=timeout_ms,
                now_ms=self._clock.wall_ms(),
                version_level=self._version_level(),
                new_producer_id=new_producer_id,
            )

        found, metadata = await self._decide(shard, name, decide)
        await self._write(shard, found, metadata)
        if metadata.state in PREPARE_STATES:
            logger.info("the transaction of %r is aborted: another instance of its producer has begun", name)
            raise ConcurrentTransactions("the transaction of the producer's last instance is being aborted")
        return ProducerIdentity(metadata.producer_id, metadata.producer_epoch)

    async def add_partitions(
        self,
        name: str,
        producer: ProducerIdentity,
        partitions: Collection[TopicPartition],
        *,
        client_version: int = TV0,
    ) -> None:
        """AddPartitionsToTxn and AddOffsetsToTxn: what the markers will go to.

        Raises ConcurrentTransactions, InvalidProducerIdMapping, ProducerFenced, InvalidRequest, and what routing and
        the log raise.
        """
        shard = self._shard(name)
        found = _get_known_id(shard, name)
        metadata = decisions.add_partitions(
            found.metadata,
            is_pending=found.is_pending,
            producer=producer,
            partitions=partitions,
            now_ms=self._clock.wall_ms(),
            client_version=client_version,
        )
        await self._write(shard, found, metadata)

    def partition_check(
        self, name: str, producer: ProducerIdentity
    ) -> Callable[[TopicPartition], RequestError | None]:
        """Gives the error of a partition that is not in the transaction as it is now, else None.

        Raises InvalidRequest, and what routing raises.
        """
        metadata = _get_known_id(self._shard(name), name).metadata

        def check(partition: TopicPartition) -> RequestError | None:
            try:
                decisions.check_partition(metadata, producer=producer, partition=partition)
            except RequestError as error:
                return without_trace(error)
            return None

        return check

    async def end(
        self, name: str, producer: ProducerIdentity, *, is_commit: bool, client_version: int
    ) -> ProducerIdentity:
        """EndTxn: decide the outcome; gives the producer's id and epoch for its next transaction.

        Raises ConcurrentTransactions, InvalidProducerIdMapping, ProducerFenced, InvalidTxnState, InvalidRequest, and
        what routing and the log raise.
        """
        shard = self._shard(name)

        def decide(found: TransactionalId, new_producer_id: int | None) -> TransactionMetadata:
            now_ms = self._clock.wall_ms()
            if client_version < TV2:
                return decisions.end_without_epoch(
                    found.metadata,
                    is_pending=found.is_pending,
                    producer=producer,
                    is_commit=is_commit,
                    now_ms=now_ms,
                )
            return decisions.end_with_epoch(
                found.metadata,
                is_pending=found.is_pending,
                producer=producer,
                is_commit=is_commit,
                now_ms=now_ms,
                new_producer_id=new_producer_id,
            )

        _get_known_id(shard, name)
        found, metadata = await self._decide(shard, name, decide)
        await self._write(shard, found, metadata)
        if metadata.state in PREPARE_STATES:
            metadata = metadata.complete(now_ms=metadata.updated_ms)
        return ProducerIdentity(metadata.producer_id, metadata.producer_epoch)

    async def abort_timed_out(self, shard: Shard[TransactionStateMachine], found: TransactionalId) -> None:
        """Abort a transaction that is open for longer than its timeout, and fence its producer.

        Raises what the log raises, ConcurrentTransactions where a change is under way.
        """
        before = found.metadata

        def decide(found: TransactionalId, new_producer_id: int | None) -> TransactionMetadata:
            if found.is_pending or found.metadata is not before:
                raise ConcurrentTransactions(PENDING)
            return decisions.abort_by_server(
                before,
                now_ms=self._clock.wall_ms(),
                version_level=self._version_level(),
                new_producer_id=new_producer_id,
            )

        found, metadata = await self._decide(shard, found.name, decide)
        logger.info(
            "the transaction of %r, producer %d epoch %d, is aborted: it is open for longer than its timeout of %d ms",
            found.name,
            before.producer_id,
            before.producer_epoch,
            before.timeout_ms,
        )
        await self._write(shard, found, metadata)

    # --- changes --------------------------------------------------------------------------------------------

    def _shard(self, name: str) -> Shard[TransactionStateMachine]:
        _check_name(name)
        return self.runtime.shard(name)

    async def _decide(
        self,
        shard: Shard[TransactionStateMachine],
        name: str,
        decide: Callable[[TransactionalId, int | None], T],
    ) -> tuple[TransactionalId, T]:
        """The decision on an id as it is now, with a new producer id if it needs one."""
        new_producer_id: int | None = None
        while True:
            found = _get_known_id(shard, name)
            try:
                return found, decide(found, new_producer_id)
            except ProducerIdNeeded:
                assert new_producer_id is None, "a decision needs one producer id"
                new_producer_id = await self._new_producer_id()
                _check_still_served(shard)

    async def _new_producer_id(self) -> int:
        try:
            return await self._producer_ids.next()
        except OdradekError as error:
            raise CoordinatorNotAvailable(
                f"the controller gives no producer ids at the moment: {error}"
            ) from error

    def _write(
        self, shard: Shard[TransactionStateMachine], found: TransactionalId, metadata: TransactionMetadata
    ) -> Awaitable[None]:
        """Write a decision, and send the markers of a transaction that it ends. Raises what the log raises."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if metadata is found.metadata:
            written.set_result(None)
            return written

        def on_written(error: OdradekError | None) -> None:
            if error is None and metadata.state in PREPARE_STATES:
                self._send_markers(shard, found)
            if written.done():
                return
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)

        shard.machine.write(found, metadata, on_written)
        return written

    def _send_markers(self, shard: Shard[TransactionStateMachine], found: TransactionalId) -> None:
        if shard.state is not ShardState.ACTIVE:
            return  # the next coordinator reads the outcome from the log
        markers = found.markers = MarkerRound(shard, found, self._complete)
        if markers.remaining:
            self.markers.send(markers)
        else:
            self._complete(markers)

    def _complete(self, markers: MarkerRound) -> None:
        """Write that a transaction is complete. A write that fails is repeated: all markers are there."""
        if not markers.is_current:
            return
        found = markers.found

        def on_written(error: OdradekError | None) -> None:
            if error is None:
                found.markers = None
                self.completed["commit" if markers.is_commit else "abort"] += 1
            elif markers.is_current:
                asyncio.get_running_loop().call_later(RETRY_SECONDS_MAX, self._complete, markers)

        markers.shard.machine.write(
            found, markers.prepared.complete(now_ms=self._clock.wall_ms()), on_written
        )


def _check_name(name: str) -> None:
    if not name:
        raise InvalidRequest("the transactional id must not be empty; set transactional.id")


def _get_known_id(shard: Shard[TransactionStateMachine], name: str) -> TransactionalId:
    found = shard.machine.ids.get(name)
    if found is None:
        raise InvalidProducerIdMapping(
            f"the transactional id {name!r} is not known, or was not used for so long that it has expired; "
            "initialize the producer again"
        )
    return found


def _check_still_served(shard: Shard[TransactionStateMachine]) -> None:
    if shard.state is not ShardState.ACTIVE:
        raise NotCoordinator(TOPIC.moved)
