"""The synchronous `Producer`, and the delivery that it returns."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from odradek.client.arguments import Acks, Buffer, GivenHeaders
from odradek.client.errors import ClientClosed, ClientTimeout
from odradek.client.producer.audit import Audit
from odradek.client.producer.batches import (
    NO_IDENTITY,
    ProducerIdAndEpoch,
    RecordMetadata,
)
from odradek.client.producer.batches import Delivery as AsyncDelivery
from odradek.client.producer.producer import Producer as AsyncProducer
from odradek.client.producer.producer import SendProgress
from odradek.client.sync.client import Client, blocking_client_of
from odradek.client.sync.faces import Face, blocking
from odradek.foundation.errors import OdradekError
from odradek.wire.records.compression import Compression

if TYPE_CHECKING:
    from odradek.client.producer.sender import OnFailure, OnRetry


class Delivery(Face[AsyncDelivery]):
    """What `send` returns: `delivery.result()` waits until the record is written."""

    @property
    def is_done(self) -> bool:
        """Whether the record is written or failed, so that `result` does not wait."""
        return self._read(lambda inner: inner.is_done)

    def result(self, timeout_ms: int | None = None) -> RecordMetadata:
        """The record's RecordMetadata. Raises the error of its write, and ClientTimeout when the time is up.

        A record that is late may still be written; the producer gives it up after its `delivery_timeout_ms`.
        """

        async def wait(inner: AsyncDelivery) -> RecordMetadata:
            try:
                async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                    return await inner
            except TimeoutError:
                raise ClientTimeout(
                    f"the record was not acknowledged within {timeout_ms} ms; it may still be written: wait again"
                ) from None

        return self._call(wait)


class Producer(Face[AsyncProducer]):
    """`with Producer(client) as producer: delivery = producer.send("orders", b"value", key=b"k")`.

    As `odradek.Producer`. Several threads may share it. `on_failure` and `on_retry` are called on the client's own
    thread: they must not call the client, which would wait for itself, and should return soon.
    """

    def __init__(
        self,
        client: Client,
        *,
        acks: Acks = "all",
        is_idempotent: bool = True,
        compression: Compression | str = Compression.NONE,
        linger_ms: float = 5.0,
        batch_bytes_max: int = 64 * 1024,
        request_bytes_max: int = 1024 * 1024,
        buffer_bytes_max: int = 32 * 1024 * 1024,
        delivery_timeout_ms: int = 120_000,
        send_wait_ms_max: int = 60_000,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        identity: ProducerIdAndEpoch = NO_IDENTITY,
        on_failure: OnFailure | None = None,
        on_retry: OnRetry | None = None,
        audit: Audit | None = None,
    ) -> None:
        client = blocking_client_of(client, "Producer")
        # The loop's thread makes it, as all that changes the client.
        inner = client._engine.read(
            lambda: AsyncProducer(
                client._inner,
                acks=acks,
                is_idempotent=is_idempotent,
                compression=compression,
                linger_ms=linger_ms,
                batch_bytes_max=batch_bytes_max,
                request_bytes_max=request_bytes_max,
                buffer_bytes_max=buffer_bytes_max,
                delivery_timeout_ms=delivery_timeout_ms,
                send_wait_ms_max=send_wait_ms_max,
                transactional_id=transactional_id,
                transaction_timeout_ms=transaction_timeout_ms,
                identity=identity,
                on_failure=on_failure,
                on_retry=on_retry,
                audit=audit,
            )
        )
        super().__init__(client._engine, inner, owner=client)

    def __enter__(self) -> Producer:
        self.start()
        return self

    def __exit__(self, kind: object, failure: BaseException | None, trace: object) -> None:
        self.close(is_flushing=failure is None)

    start = blocking(AsyncProducer.start)
    flush = blocking(AsyncProducer.flush)
    send_and_wait = blocking(AsyncProducer.send_and_wait)
    send_many = blocking(AsyncProducer.send_many)
    begin_transaction = blocking(AsyncProducer.begin_transaction)
    send_offsets_to_transaction = blocking(AsyncProducer.send_offsets_to_transaction)
    commit_transaction = blocking(AsyncProducer.commit_transaction)
    prepare_transaction = blocking(AsyncProducer.prepare_transaction)
    abort_transaction = blocking(AsyncProducer.abort_transaction)

    def close(self, *, is_flushing: bool = True) -> None:
        """Send the waiting records unless `is_flushing` is false, then stop. Raises as `flush`.

        A transaction that is still open is aborted. Raises ClientClosed for records that were not written when the
        client was closed.
        """
        if not self._engine.is_closed:
            self._call(lambda inner: inner.close(is_flushing=is_flushing))
            return
        progress = self.progress
        if is_flushing and progress.written < progress.taken:
            raise ClientClosed(
                f"the client was closed before its producer: {progress.taken - progress.written} records are not known "
                "to be written. Close the producer first"
            )

    def send(
        self,
        topic: str,
        value: Buffer | None,
        *,
        key: Buffer | None = None,
        headers: GivenHeaders = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Add a record to a batch. Waits only for metadata and for space in the buffer. Raises UnknownTopicOrPartition,
        RecordTooLarge, BufferFull, ClientClosed, and TypeError for a part that is not bytes.
        """
        delivery = self._call(
            lambda inner: inner.send(
                topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
            )
        )
        return Delivery(self._engine, delivery, owner=self)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """`with producer.transaction():` commits at its end, and aborts where an exception leaves it.

        Raises as `begin_transaction` and `commit_transaction`. A commit that fails is aborted, if that is possible.
        """
        context = self._read(lambda inner: inner.transaction())
        self._call(lambda _: context.__aenter__())
        try:
            yield
        except BaseException as failure:
            given = failure  # the asyncio form decides, as about an exception of its own block
            self._call(lambda _: context.__aexit__(type(given), given, given.__traceback__))
            raise
        self._call(lambda _: context.__aexit__(None, None, None))

    @property
    def failure(self) -> OdradekError | None:
        """The error that the next flush will raise, or None."""
        return self._read(lambda inner: inner.failure)

    @property
    def progress(self) -> SendProgress:
        """The numbers of accepted and acknowledged records now."""
        return self._read(lambda inner: inner.progress)

    @property
    def serials(self) -> tuple[int, int | None]:
        """The number of accepted records, and the number of the first that waits for its acknowledgement, if any."""
        return self._read(lambda inner: inner.serials)

    @property
    def identity(self) -> ProducerIdAndEpoch:
        """The producer's id and its present epoch."""
        return self._read(lambda inner: inner.identity)

    @property
    def is_usable(self) -> bool:
        """False once only a new producer helps: this one is closed, or another one took its transactional id."""
        return not self._engine.is_closed and self._read(lambda inner: inner.is_usable)

    @property
    def is_transactional(self) -> bool:
        """Whether its records belong to transactions."""
        return self._inner.is_transactional

    @property
    def has_open_transaction(self) -> bool:
        """Whether a transaction was begun and not ended yet."""
        return self._read(lambda inner: inner.has_open_transaction)
