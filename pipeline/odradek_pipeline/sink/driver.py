"""The driver's part of a batch: begin it, end the tasks' transactions, or abort them. Each step is one call.

    begin    a new epoch of the driver's id: an older driver is refused from then on. At the first batch of a process
             also what a killed driver's tasks have left open is aborted. The markers are read.
    commit   the plan is written, in a transaction of the driver's. This is the check that no other driver has begun.
             Then the tasks' transactions are ended, in order. Then the batch's marker is written.
    abort    the markers are read first, since Spark calls it after a commit that did its work and lost the answer.

Each step may be repeated, and may stop anywhere: a replay of the batch heals it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from odradek.client.admin.transactions import TransactionAdmin
from odradek.client.client import Client
from odradek.client.producer.handover import (
    NO_IDENTITY,
    PreparedTransaction,
    ProducerIdAndEpoch,
    end_prepared,
    start_epoch,
)
from odradek.client.producer.producer import Producer
from odradek.foundation.errors import OdradekError
from odradek.foundation.transaction_errors import (
    InvalidProducerEpoch,
    InvalidTransactionTimeout,
    InvalidTxnState,
    ProducerFenced,
)
from odradek_pipeline.errors import OptionError
from odradek_pipeline.sink.markers import BATCH, PLAN, MarkerState, SinkMarker, create_topic, read_on
from odradek_pipeline.sink.settings import SinkSettings, prefix_of

logger = logging.getLogger(__name__)

DRIVER = "driver"
_ONGOING = ("Ongoing",)

# The epoch of each sink's driver in this process, which Spark uses for one batch after the other. A driver that was
# stopped and wakes up after another one has begun continues from its own epoch, and is refused.
_EPOCHS: dict[tuple[str, str], ProducerIdAndEpoch] = {}
_EPOCHS_MAX = 100


class SinkFencedError(RuntimeError):
    """Another driver writes with the same name now; the text says what to do."""


class PlanNotDeterministicError(RuntimeError):
    """A batch that was written in part has other rows at its replay; the text has both."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A batch as its tasks know it: the driver's epoch, and the markers at its begin."""

    identity: ProducerIdAndEpoch
    markers: MarkerState


@dataclass(frozen=True, slots=True)
class Written:
    """The work of one task. `prepared` is None where an earlier run of the batch has committed it."""

    task: int
    rows: int
    digest: int
    prepared: PreparedTransaction | None


async def begin(client: Client, settings: SinkSettings, bootstrap: str) -> Begun:
    """Begin a batch. Raises SinkFencedError, and OptionError for a timeout that the broker does not allow."""
    await create_topic(client, settings.marker_topic)
    markers = MarkerState.empty(settings.sink, settings.marker_topic)
    await read_on(client, markers)
    known = _EPOCHS.pop((bootstrap, settings.sink), NO_IDENTITY)
    last = markers.committed.get(BATCH)
    identity = known
    if last is not None and (last.producer_id, last.begun_epoch) == known:
        # The epoch has moved since, with the transactions of that batch.
        identity = ProducerIdAndEpoch(last.producer_id, last.epoch)
    try:
        identity = await start_epoch(
            client, settings.id_of(DRIVER), timeout_ms=settings.timeout_ms, identity=identity
        )
    except InvalidTransactionTimeout as failure:
        raise OptionError(
            f"option 'transaction.timeout.ms' is {settings.timeout_ms}, and the broker's transaction.max.timeout.ms "
            f"allows less: {failure}"
        ) from failure
    except ProducerFenced as failure:
        raise _fenced_error(settings, failure) from failure
    if known == NO_IDENTITY:
        await _drop_open(client, settings)
    while len(_EPOCHS) >= _EPOCHS_MAX:
        _EPOCHS.pop(next(iter(_EPOCHS)))
    _EPOCHS[bootstrap, settings.sink] = identity
    return Begun(identity, markers)


async def _drop_open(client: Client, settings: SinkSettings) -> None:
    """Abort what tasks of a killed driver have left open, so that readers of committed records need not wait."""
    for name in await open_ids(client, settings.sink):
        if name != settings.id_of(DRIVER):
            logger.info("the transaction of %s was left open by another driver and is aborted", name)
            await start_epoch(client, name, timeout_ms=settings.timeout_ms)


async def open_ids(client: Client, sink: str) -> list[str]:
    """The transactional ids of a sink that have an open transaction."""
    listed = await TransactionAdmin(client).list(states=_ONGOING)
    return [one.transactional_id for one in listed if one.transactional_id.startswith(prefix_of(sink))]


async def check_begun(client: Client, settings: SinkSettings, begun: Begun) -> None:
    """Raise SinkFencedError where another driver has begun since."""
    found = await TransactionAdmin(client).describe(settings.id_of(DRIVER))
    if (found.producer_id, found.producer_epoch) != begun.identity:
        raise _fenced_error(
            settings, f"its epoch is {found.producer_epoch}, and this driver's was {begun.identity.epoch}"
        )


def _fenced_error(settings: SinkSettings, why: object) -> SinkFencedError:
    return SinkFencedError(
        f"another driver writes as sink {settings.sink!r} now ({why}). Stop one of them; the one that is started last "
        "continues. Two queries need checkpoints or 'sinkId's of their own"
    )


class Ending:
    """The end of one batch: `commit` or `abort`. `note_step` is called with the name of each step that is done."""

    def __init__(self, client: Client, settings: SinkSettings, begun: Begun, query: str, batch: int) -> None:
        self._client = client
        self._settings = settings
        self._begun = begun
        self._query = query
        self._batch = batch

    def note_step(self, step: str) -> None:
        """Nothing; a test ends the process here."""

    async def commit(self, written: Sequence[Written]) -> None:
        """End the tasks' transactions. Raises SinkFencedError, PlanNotDeterministicError, the client's errors."""
        markers = self._begun.markers
        await read_on(self._client, markers)
        total = self._make_marker(written)
        done = markers.committed.get(BATCH)
        if done is not None and done.is_of(self._query, self._batch):
            _check_same(total, done, "the whole batch")
            return
        self._check_plan(total)
        try:
            async with self._make_producer() as producer:
                await self._write(producer, {PLAN: total})
                self.note_step("plan")
                for one in written:
                    if one.prepared is not None:
                        await end_prepared(self._client, one.prepared, is_commit=True)
                        self.note_step(f"task-{one.task}")
                await self._write(producer, {BATCH: total})
                self.note_step("batch")
                if not self._settings.is_lasting:
                    await self._write(producer, dict.fromkeys([PLAN, BATCH, *(one.task for one in written)]))
        except (ProducerFenced, InvalidProducerEpoch) as failure:
            raise _fenced_error(self._settings, failure) from failure

    async def abort(self, written: Sequence[Written]) -> None:
        markers = self._begun.markers
        await read_on(self._client, markers)
        for one in written:
            found = markers.committed.get(str(one.task))
            if one.prepared is None or (found is not None and found.is_of(self._query, self._batch)):
                continue
            try:
                await end_prepared(self._client, one.prepared, is_commit=False)
            except (ProducerFenced, InvalidTxnState) as failure:
                logger.info("task %d has nothing to abort any more: %s", one.task, failure)
            except OdradekError as failure:
                logger.warning(
                    "task %d stays open until the batch is replayed or times out: %s", one.task, failure
                )

    def _make_marker(self, written: Sequence[Written]) -> SinkMarker:
        identity = self._begun.identity
        return SinkMarker(
            self._query,
            self._batch,
            rows=sum(one.rows for one in written),
            digest=sum(one.digest for one in written) % 2**64,
            tasks=len(written),
            producer_id=identity.id,
            begun_epoch=identity.epoch,
        )

    def _check_plan(self, total: SinkMarker) -> None:
        markers = self._begun.markers.committed
        plan = markers.get(PLAN)
        is_begun = any(
            marker.is_of(self._query, self._batch)
            for name, marker in markers.items()
            if name not in (PLAN, BATCH)
        )
        if plan is not None and plan.is_of(self._query, self._batch) and is_begun:
            _check_same(total, plan, "the batch, of which some tasks are committed,")

    def _make_producer(self) -> Producer:
        return Producer(
            self._client,
            transactional_id=self._settings.id_of(DRIVER),
            transaction_timeout_ms=self._settings.timeout_ms,
            identity=self._begun.identity,
        )

    async def _write(self, producer: Producer, found: Mapping[str | int, SinkMarker | None]) -> None:
        markers = self._begun.markers
        topic, partition = markers.partition
        async with producer.transaction():
            for name, marker in found.items():
                value = None if marker is None else with_epoch(marker, producer.identity).encode()
                await producer.send(topic, value, key=markers.key(name), partition=partition)


def with_epoch(marker: SinkMarker, identity: ProducerIdAndEpoch) -> SinkMarker:
    """The marker with the epoch that it is written with."""
    return replace(marker, epoch=identity.epoch)


def _check_same(now: SinkMarker, before: SinkMarker, what: str) -> None:
    if (now.tasks, now.rows, now.digest) == (before.tasks, before.rows, before.digest):
        return
    raise PlanNotDeterministicError(
        f"the plan is not deterministic: {what} had {before.rows} rows in {before.tasks} tasks "
        f"(digest {before.digest:016x}). Its replay has {now.rows} in {now.tasks} ({now.digest:016x}). The number of "
        "partitions may not change between runs, and rows may not depend on time or chance"
    )
