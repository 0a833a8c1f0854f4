"""Whether quotas hold at the figures of Kafka's own quota_test, and what they cost those that have none.

    python -m bench.client_quotas hold       50,000 records of 3 KB at 2.5 MB/s in and 2 MB/s out, by the defaults
    python -m bench.client_quotas override   the same with 3.75 and 3 MB/s of quotas of the clients' own
    python -m bench.client_quotas others     p99 of a client without a quota, alone and beside one that is throttled

A word more says whose quotas they are: `client-id` (the default), `user` or `user-and-client-id`; `two` is for two
consumers with one client id. Each prints one line of JSON. As in quota_test, the rate of the broker is the highest
one-minute average of its meters, which begin at zero and tick every five seconds. It may exceed the quota by 5 percent.
Source: Apache Kafka 4.1, `tests/kafkatest/tests/client/quota_test.py`.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from odradek.client.admin.quotas import QuotaAdmin
from odradek.client.client import Client
from odradek.foundation.client_entities import DEFAULT, ClientEntity
from tests.support.broker_process import Broker, free_port

RECORDS: Final = 50_000
RECORD_BYTES: Final = 3_000
DEFAULT_IN, DEFAULT_OUT = 2_500_000.0, 2_000_000.0
OVERRIDE_IN, OVERRIDE_OUT = 3_750_000.0, 3_000_000.0
# For levels that must not count.
DECOY: Final = 1e9
TICK_SECONDS: Final = 5.0
TOPIC: Final = "quota"
SECONDS_MAX: Final = 300.0


class OneMinuteRate:
    """The one-minute average of a meter in Kafka's metrics; `highest` is what quota_test compares."""

    _WEIGHT: Final = 1 - math.exp(-TICK_SECONDS / 60)

    def __init__(self) -> None:
        self._rate = 0.0
        self._count = 0.0
        self.highest = 0.0

    def tick(self, count: float) -> None:
        """Take the meter's count after another five seconds."""
        latest = (count - self._count) / TICK_SECONDS
        self._count = count
        self._rate += self._WEIGHT * (latest - self._rate)
        self.highest = max(self.highest, self._rate)


@contextmanager
def _broker() -> Iterator[tuple[Broker, int]]:
    """(a broker, the port of its metrics)."""
    with tempfile.TemporaryDirectory(prefix="odradek-quotas-") as folder:
        port = free_port()
        broker = Broker(Path(folder), arguments=["--admin", f"127.0.0.1:{port}"])
        broker.start()
        try:
            yield broker, port
        finally:
            broker.close()


def _set(bootstrap: str, quotas: dict[ClientEntity, dict[str, float | None]]) -> None:
    import asyncio

    async def work() -> None:
        async with Client(bootstrap) as client:
            for entity, values in quotas.items():
                await QuotaAdmin(client).alter(entity, values)

    asyncio.run(work())


def _bytes(port: int) -> tuple[float, float]:
    """Bytes of records (in, out) of the topic so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return tuple(  # type: ignore[return-value]
        sum(
            float(line.rpartition(" ")[2])
            for line in lines
            if line.startswith(f"odradek_topic_bytes_{way}_total{{") and f'"{TOPIC}"' in line
        )
        for way in ("in", "out")
    )


# The levels of quota_test: the part of a user, and whether there is one of client ids. Clients do not log in here.
LEVELS: Final = {
    "client-id": (None, True),
    "user": ("ANONYMOUS", False),
    "user-and-client-id": ("ANONYMOUS", True),
}


def _limits(level: str, *, is_override: bool) -> dict[ClientEntity, dict[str, float | None]]:
    """The quotas that quota_test sets, with decoys at the levels below the one in question."""
    user, has_client_ids = LEVELS[level]
    default_user = None if user is None else DEFAULT
    rates_in, rates_out = ("producer_byte_rate", DEFAULT_IN), ("consumer_byte_rate", DEFAULT_OUT)
    decoys: dict[str, float | None] = {rates_in[0]: DECOY, rates_out[0]: DECOY}
    limits: dict[ClientEntity, dict[str, float | None]] = {}
    if level != "client-id":
        limits[ClientEntity(client_id=DEFAULT)] = decoys
    if level == "user-and-client-id":
        limits[ClientEntity(user=DEFAULT)] = decoys
    defaults = ClientEntity(default_user, DEFAULT if has_client_ids else None)
    if not is_override:
        return {**limits, defaults: dict((rates_in, rates_out))}
    limits[defaults] = decoys
    produced: dict[str, float | None] = {"producer_byte_rate": OVERRIDE_IN}
    consumed: dict[str, float | None] = {"consumer_byte_rate": OVERRIDE_OUT}
    if not has_client_ids:
        return {**limits, ClientEntity(user): produced | consumed}
    return {**limits, ClientEntity(user, "producer"): produced, ClientEntity(user, "consumer"): consumed}


def hold(
    *, is_override: bool, level: str = "client-id", consumers: int = 1, records: int = RECORDS
) -> dict[str, Any]:
    """The figures of quota_test."""
    from confluent_kafka import Consumer, Producer

    limits = _limits(level, is_override=is_override)
    wanted_in, wanted_out = (OVERRIDE_IN, OVERRIDE_OUT) if is_override else (DEFAULT_IN, DEFAULT_OUT)
    with _broker() as (broker, port):
        _make_topic(broker.bootstrap)
        _set(broker.bootstrap, limits)
        rates = OneMinuteRate(), OneMinuteRate()
        is_over = threading.Event()

        def measure() -> None:
            due = time.monotonic()
            while not is_over.wait(max(0.0, due - time.monotonic())):
                due += TICK_SECONDS
                for rate, count in zip(rates, _bytes(port), strict=True):
                    rate.tick(count)

        measuring = threading.Thread(target=measure)
        measuring.start()
        try:
            began = time.monotonic()
            settings = {"bootstrap.servers": broker.bootstrap}
            acknowledged = _produced(Producer({**settings, "client.id": "producer", "acks": "all"}), records)
            produced_seconds = time.monotonic() - began
            began = time.monotonic()
            group = {"group.id": "g", "auto.offset.reset": "earliest"}
            settings |= {**group, "client.id": "consumer"}
            consumed = _consumed([Consumer(settings) for _ in range(consumers)], records)
            consumed_seconds = time.monotonic() - began
            time.sleep(TICK_SECONDS)
        finally:
            is_over.set()
            measuring.join()
    return {
        "acknowledged": acknowledged,
        "consumed": consumed,
        "produced_mb_per_s": round(records * RECORD_BYTES / produced_seconds / 1e6, 2),
        "consumed_mb_per_s": round(records * RECORD_BYTES / consumed_seconds / 1e6, 2),
        "highest_in_over_quota": round(rates[0].highest / wanted_in, 3),
        "highest_out_over_quota": round(rates[1].highest / wanted_out, 3),
        "holds": acknowledged == consumed == records
        and rates[0].highest <= wanted_in * 1.05
        and rates[1].highest <= wanted_out * 1.05,
    }


def _make_topic(bootstrap: str, name: str = TOPIC) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 6, 1)])[name].result(30)


def _produced(producer: Any, records: int) -> int:
    acknowledged = 0

    def delivered(error: Any, message: Any) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    value = b"x" * RECORD_BYTES
    for _ in range(records):
        while True:
            try:
                producer.produce(TOPIC, value, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush(SECONDS_MAX)
    return acknowledged


def _consumed(consumers: Sequence[Any], records: int) -> int:
    """The number of records that one group got, without those that came twice."""
    found: set[tuple[int, int]] = set()
    for consumer in consumers:
        consumer.subscribe([TOPIC])
    ends = time.monotonic() + SECONDS_MAX
    while len(found) < records and time.monotonic() < ends:
        for consumer in consumers:
            messages = consumer.consume(1000, 1.0 / len(consumers))
            found |= {(one.partition(), one.offset()) for one in messages if one.error() is None}
    for consumer in consumers:
        consumer.close()
    return len(found)


def others(*, seconds: float = 20.0) -> dict[str, Any]:
    """p99 of produces of a client without a quota: alone, beside a throttled client, and alone again."""
    from confluent_kafka import Producer

    with _broker() as (broker, _):
        _make_topic(broker.bootstrap)
        _set(broker.bootstrap, {ClientEntity(client_id="greedy"): {"producer_byte_rate": 1_000_000.0}})
        settings = {"bootstrap.servers": broker.bootstrap, "linger.ms": 0}
        quiet = Producer({**settings, "client.id": "quiet"})
        before = _p99_ms(quiet, seconds)
        is_over = threading.Event()
        greedy = Producer({**settings, "client.id": "greedy", "message.timeout.ms": 600_000})

        def flood() -> None:
            value = b"x" * RECORD_BYTES
            while not is_over.is_set():
                try:
                    greedy.produce(TOPIC, value)
                except BufferError:
                    greedy.poll(0.1)
                greedy.poll(0)

        flooding = threading.Thread(target=flood)
        flooding.start()
        # Its burst of ten seconds is over.
        time.sleep(15)
        beside = _p99_ms(quiet, seconds)
        is_over.set()
        flooding.join()
        greedy.purge()
        greedy.flush(5)
        after = _p99_ms(quiet, seconds)
    alone = statistics.mean((before, after))
    return {
        "p99_alone_ms": [round(before, 2), round(after, 2)],
        "p99_beside_ms": round(beside, 2),
        "ratio": round(beside / alone, 2),
    }


def _p99_ms(producer: Any, seconds: float) -> float:
    """Of one record at a time, a hundred in a second."""
    taken: list[float] = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        began = time.perf_counter()
        producer.produce(TOPIC, b"x" * 100)
        producer.flush(30)
        taken.append((time.perf_counter() - began) * 1000)
        time.sleep(0.01)
    return statistics.quantiles(taken, n=100)[98]


def main(question: str, *words: str) -> None:
    level = next((word for word in words if word in LEVELS), "client-id")
    consumers = 2 if "two" in words else 1
    answers: dict[str, Callable[[], dict[str, Any]]] = {
        "hold": lambda: hold(is_override=False, level=level, consumers=consumers),
        "override": lambda: hold(is_override=True, level=level, consumers=consumers),
        "others": others,
    }
    print(json.dumps({"question": " ".join([question, *words]), **answers[question]()}), flush=True)


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["hold"]))
