"""A producer that writes to every partition of a topic in turn, evenly, and how long each record took.

For what a user notices while brokers come and go: whether any record was refused, and the longest that one had to wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Producer

_FLUSH_SECONDS_MAX = 120.0


class SteadyLoad:
    """A librdkafka producer with its defaults, acks=all and idempotence, in a thread; `stop` at the end."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        partitions: int,
        per_second: int,
        settings: Mapping[str, str | int | float | bool] | None = None,
    ) -> None:
        self.acknowledged = 0
        self.failed: list[str] = []
        self.longest_seconds = 0.0
        """The longest time from a record's sending to its acknowledgement, since `forget`."""
        self._topic = topic
        self._partitions = partitions
        self._interval_seconds = 1 / per_second
        self._is_over = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "log_level": 2,
                **(settings or {}),
            }
        )
        self._thread = threading.Thread(target=self._run, name="steady load", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        due = time.monotonic()
        while not self._is_over.is_set():
            self._producer.produce(
                self._topic,
                b"x" * 100,
                partition=number % self._partitions,
                on_delivery=self._on_delivery(time.monotonic()),
            )
            number += 1
            due += self._interval_seconds
            self._producer.poll(max(0.0, due - time.monotonic()))
        self._left = self._producer.flush(_FLUSH_SECONDS_MAX)

    def _on_delivery(self, sent_at: float) -> Any:
        def on_delivery(error: Any, message: Any) -> None:
            del message
            if error is not None:
                self.failed.append(str(error))
                return
            self.acknowledged += 1
            self.longest_seconds = max(self.longest_seconds, time.monotonic() - sent_at)

        return on_delivery

    def forget(self) -> float:
        """The longest time so far, which is reset."""
        longest, self.longest_seconds = self.longest_seconds, 0.0
        return longest

    def stop(self) -> None:
        """Send no more, and wait until all is answered."""
        self._is_over.set()
        self._thread.join()
        assert self._left == 0, f"{self._left} records were never answered"
