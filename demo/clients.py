"""The tour's clients, as their makers ship them: confluent-kafka writes, kafka-python reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

FLUSH_SECONDS_MAX = 60
IDLE_MS = 1000
JOINING_MS_MAX = 30_000
ITEMS = ("lamp", "table", "chair", "shelf", "spool of thread")


@dataclass(slots=True)
class Writer:
    """An idempotent producer that counts what the broker has acknowledged."""

    bootstrap: str
    acknowledged: int = 0
    failed: list[str] = field(default_factory=list)
    _producer: Any = field(default=None, init=False)

    def write(
        self, topic: str, numbers: Iterable[int], *, between: Callable[[int], None] | None = None
    ) -> None:
        """A record for each number; `between` is called with how many were handed over so far."""
        from confluent_kafka import Producer

        if self._producer is None:
            self._producer = Producer(
                {
                    "bootstrap.servers": self.bootstrap,
                    "enable.idempotence": True,
                    "compression.type": "lz4",
                    "reconnect.backoff.max.ms": 500,
                    "log_level": 0,
                }
            )
        for count, number in enumerate(numbers, 1):
            order = {"order": number, "item": ITEMS[number % len(ITEMS)], "amount": number % 7 + 1}
            self._producer.produce(topic, json.dumps(order), key=f"{number}", on_delivery=self._delivered)
            self._producer.poll(0)
            if between is not None:
                between(count)

    def flush(self) -> None:
        self._producer.flush(FLUSH_SECONDS_MAX)

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed.append(str(error))


def read(bootstrap: str, topic: str, *, group: str, count_max: int | None = None) -> list[int]:
    """Order numbers that a member of `group` gets until no more come, or the first `count_max`; commits its place."""
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=count_max or 5000,
    )
    numbers: list[int] = []
    while len(numbers) != count_max:
        room = None if count_max is None else count_max - len(numbers)
        # A poll that ends while the group forms leaves kafka-python 3.0 without its assignment for ever. So the first
        # one waits until records come.
        batches = consumer.poll(timeout_ms=IDLE_MS if numbers else JOINING_MS_MAX, max_records=room)
        if not batches:
            break
        numbers += [json.loads(one.value)["order"] for batch in batches.values() for one in batch]
    consumer.commit()
    consumer.close()
    return numbers
