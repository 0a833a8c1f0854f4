"""A steady producer which remembers what was acknowledged: load.py BOOTSTRAP TOPIC PER_SECOND PREFIX [SETTING=VALUE…]

It prints `begun` after its first acknowledgement, sends until its standard input ends, and waits for unacknowledged
records. Then it prints one line of JSON: `sent`, `acknowledged` ([partition, offset, value] each), `failed` (why, once
for each record) and `errors` (librdkafka's). `gap_seconds` is the longest time between two acknowledgements,
`latency_seconds` the longest one between a record and its own.
"""

from __future__ import annotations

import json
import select
import sys
import time
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

FLUSH_SECONDS_MAX = 90


class Load:
    """One producer with idempotence, as librdkafka is by default but for acks=all being said."""

    def __init__(self, bootstrap: str, topic: str, prefix: str, more: dict[str, str]) -> None:
        self.topic, self.prefix = topic, prefix
        self.acknowledged: list[tuple[int, int, str]] = []
        self.failed: list[str] = []
        self.errors: list[str] = []
        self.sent = 0
        self.gap_seconds = self.latency_seconds = 0.0
        self.last = time.monotonic()
        settings = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5}
        self.producer = Producer({**settings, **more, "error_cb": self.noted})

    def noted(self, error: KafkaError) -> None:
        self.errors.append(f"{time.strftime('%H:%M:%S')} {error}")

    def send(self) -> None:
        value = f"{self.prefix}-{self.sent}"
        began = time.monotonic()

        def delivered(error: KafkaError | None, message: Message) -> None:
            self.delivered(error, message, value, began)

        self.producer.produce(self.topic, value.encode(), key=value.encode(), on_delivery=delivered)
        self.sent += 1

    def delivered(self, error: KafkaError | None, message: Message, value: str, began: float) -> None:
        if error is not None:
            self.failed.append(f"{value}: {error}")
            return
        now = time.monotonic()
        if not self.acknowledged:
            print("begun", flush=True)
        else:
            self.gap_seconds = max(self.gap_seconds, now - self.last)
        self.last = now
        self.latency_seconds = max(self.latency_seconds, now - began)
        self.acknowledged.append((message.partition() or 0, message.offset() or 0, value))

    def run(self, records_per_second: float) -> None:
        began = time.monotonic()
        while not select.select([sys.stdin], [], [], 0)[0]:
            due = int((time.monotonic() - began) * records_per_second)
            while self.sent < due:
                self.send()
            self.producer.poll(0.01)
        self.producer.flush(FLUSH_SECONDS_MAX)

    def report(self) -> dict[str, Any]:
        return {
            "sent": self.sent,
            "acknowledged": self.acknowledged,
            "failed": self.failed,
            "gap_seconds": round(self.gap_seconds, 2),
            "latency_seconds": round(self.latency_seconds, 2),
            "errors": self.errors,
        }


if __name__ == "__main__":
    given = dict(argument.split("=", 1) for argument in sys.argv[5:])
    load = Load(sys.argv[1], sys.argv[2], sys.argv[4], given)
    load.run(float(sys.argv[3]))
    print(json.dumps(load.report()), flush=True)
