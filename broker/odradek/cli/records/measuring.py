"""The measurements of `odradek perf`, and their percentiles."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from odradek.cli.shared.progress import ProgressBar
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.client import Client
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.consumer.fetches import FetchBounds
from odradek.client.producer.batches import Delivery
from odradek.client.producer.producer import Producer
from odradek.foundation.client_limits import TIMED_DELIVERIES_MAX
from odradek.foundation.errors import OdradekError

PERCENTILES = (50.0, 95.0, 99.0, 99.9)
# One of so many records is timed: timing each would be most of the work.
_SAMPLE_EVERY = 20
_IDLE_SECONDS_MAX = 10.0
_VALUES = 64
OnInterrupt = Callable[["Measurement"], None]


@dataclass(frozen=True, slots=True)
class Measurement:
    """The records and bytes of a run, its duration, and its latencies."""

    records: int
    size_bytes: int
    seconds: float
    latencies_ms: tuple[float, ...]
    is_interrupted: bool = False
    """Whether a signal ended the run: the figures are those of what was done until then."""

    def document(self) -> dict[str, object]:
        """As one JSON object; rates per second, latencies in ms."""
        seconds = max(self.seconds, 1e-9)
        return {
            "records": self.records,
            "bytes": self.size_bytes,
            "seconds": round(self.seconds, 4),
            "records_per_second": round(self.records / seconds, 1),
            "bytes_per_second": round(self.size_bytes / seconds, 1),
            "latency_ms": self.percentiles(),
            "is_interrupted": self.is_interrupted,
        }

    def percentiles(self) -> dict[str, float]:
        """Of the latencies, in ms."""
        return percentiles(self.latencies_ms)


def percentiles(samples: tuple[float, ...]) -> dict[str, float]:
    """p50, p95, p99, p99.9 and max by nearest rank; nothing for no samples."""
    if not samples:
        return {}
    ordered = sorted(samples)
    last = len(ordered) - 1
    values = {f"p{p:g}": round(ordered[min(last, int(len(ordered) * p / 100))], 3) for p in PERCENTILES}
    values["max"] = round(ordered[last], 3)
    return values


async def measure_produce(
    producer: Producer,
    topic: str,
    *,
    record_count: int,
    value_bytes: int,
    rate: float | None,
    random: Random,
    on_interrupt: OnInterrupt,
) -> Measurement:
    """Send `record_count` records and wait for the last acknowledgement. Raises the first failure at once. When it is
    cancelled, `on_interrupt` gets the figures of the records that are acknowledged.
    """
    values = [random.randbytes(value_bytes) for _ in range(_VALUES)]
    timed = _TimedDeliveries()
    started = time.perf_counter()

    def sum_up(*, is_interrupted: bool) -> Measurement:
        written, seconds = producer.progress.written, time.perf_counter() - started
        return Measurement(written, written * value_bytes, seconds, tuple(timed.latencies_ms), is_interrupted)

    try:
        with ProgressBar("Producing", total=record_count) as bar, _reporting(sum_up, on_interrupt):
            for number in range(record_count):
                if rate is not None:
                    await asyncio.sleep(max(0.0, started + number / rate - time.perf_counter()))
                sent_at = time.perf_counter()
                delivery = await producer.send(topic, values[number % _VALUES])
                if number % _SAMPLE_EVERY == 0:
                    timed.add(delivery, sent_at)
                bar.advance(1)
                if number % 100 == 0:
                    await asyncio.sleep(0)  # let the sender run: `send` alone does not wait
                    if producer.failure is not None:
                        break
            await producer.flush(is_stopping_at_failure=True)
        seconds = time.perf_counter() - started
        await timed.wait_for_all()
    finally:
        await timed.close()
    return Measurement(record_count, record_count * value_bytes, seconds, tuple(timed.latencies_ms))


class _TimedDeliveries:
    """Latencies of some deliveries, in ms. Those that fail have none: the producer's flush raises why."""

    def __init__(self) -> None:
        self.latencies_ms: list[float] = []
        self._waiting: set[asyncio.Task[None]] = set()

    def add(self, delivery: Delivery, sent_at: float) -> None:
        """Time this record, unless too many are timed already."""
        if len(self._waiting) >= TIMED_DELIVERIES_MAX:
            return
        task = asyncio.create_task(self._time(delivery, sent_at), name="time a delivery")
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _time(self, delivery: Delivery, sent_at: float) -> None:
        with contextlib.suppress(OdradekError):
            await delivery
            self.latencies_ms.append((time.perf_counter() - sent_at) * 1000)

    async def wait_for_all(self) -> None:
        await asyncio.gather(*self._waiting)

    async def close(self) -> None:
        """Cancel the unfinished ones."""
        waiting = list(self._waiting)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def measure_consume(
    client: Client,
    topic: str,
    *,
    record_count: int,
    partition_bytes: int,
    is_decoding: bool,
    on_interrupt: OnInterrupt,
) -> Measurement:
    """Read up to `record_count` records from the beginning, or all. When it is cancelled, `on_interrupt` gets the
    figures of the records that were read.
    """
    keys = (await client.refresh((topic,))).partitions(topic)
    logs = LogAdmin(client)
    starts = await logs.offsets_at(keys, EARLIEST)
    ends = await logs.offsets_at(keys, LATEST)
    records = size_bytes = 0
    latencies_ms: list[float] = []
    bounds = FetchBounds(partition_bytes_max=partition_bytes)
    started = last_at = time.perf_counter()

    def sum_up(*, is_interrupted: bool = False) -> Measurement:
        seconds = max(last_at - started, 1e-9)
        return Measurement(records, size_bytes, seconds, tuple(latencies_ms), is_interrupted)

    with _reporting(sum_up, on_interrupt):
        async with PartitionConsumer(client, bounds=bounds) as consumer:
            consumer.assign(starts)
            with ProgressBar("Consuming", total=record_count) as bar:
                while records < record_count and any(consumer.position(key) < ends[key] for key in keys):
                    polled_at = time.perf_counter()
                    if is_decoding:
                        taken = await consumer.poll(records_max=10_000)
                        count = len(taken)
                        size_bytes += sum(
                            len(record.key or b"") + len(record.value or b"") for record in taken
                        )
                    else:
                        batches = [batch for _, batch in await consumer.poll_batches()]
                        count = sum(batch.record_count for batch in batches)
                        size_bytes += sum(batch.size_bytes for batch in batches)
                    now = time.perf_counter()
                    if count:
                        latencies_ms.append((now - polled_at) * 1000)
                        last_at = now
                    elif now - last_at > _IDLE_SECONDS_MAX:
                        break
                    records += count
                    bar.advance(count)
    return sum_up()


@contextlib.contextmanager
def _reporting(sum_up: Callable[..., Measurement], on_interrupt: OnInterrupt) -> Iterator[None]:
    try:
        yield
    except asyncio.CancelledError:
        on_interrupt(sum_up(is_interrupted=True))
        raise
