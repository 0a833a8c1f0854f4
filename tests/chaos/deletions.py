"""Deletes records up to any offset during faults, also inside batches, of a topic whose replicas come and go.

A thread of its own writes batches of a few records and deletes behind them. At the same time replicas move, lose their
log, or are away while what they lack is deleted. Each then begins at its leader's log start. In the end all are in
sync, with one start and one end. What was acknowledged is not compared here: most of it is deleted.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.librdkafka_clients import COMMON
from tests.chaos.world import BROKERS

PAUSE_SECONDS: Final = (0.05, 0.5)
RECORDS: Final = (2, 9)
_REQUEST_SECONDS_MAX: Final = 5.0
_ENDS_SECONDS_MAX: Final = 10.0


class Deletions:
    """One topic with one partition; `folder_of` is the data folder of a broker."""

    def __init__(self, bootstrap: str, *, topic: str, seed: int, folder_of: Callable[[int], Path]) -> None:
        self.topic = topic
        self._rng = random.Random(f"deletions {seed}")
        self._folder_of = folder_of
        self._settings: dict[str, Any] = {**COMMON, "bootstrap.servers": bootstrap}
        self._acknowledged_end = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="deletions", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join(60)

    def wipe(self, number: int) -> str:
        """Remove the partition's log from a broker that is stopped; what it did."""
        shutil.rmtree(self._folder_of(number) / f"{self.topic}-0", ignore_errors=True)
        return f"broker {number} loses {self.topic}-0"

    def _run(self) -> None:
        admin = AdminClient(self._settings)
        while not self._is_over.is_set():
            with contextlib.suppress(KafkaException):
                asked = NewTopic(self.topic, num_partitions=1, replication_factor=len(BROKERS))
                admin.create_topics([asked], request_timeout=_REQUEST_SECONDS_MAX)[self.topic].result(30)
                break
            # A creation without an answer may have been one.
            with contextlib.suppress(KafkaException):
                if self.topic in admin.list_topics(timeout=_REQUEST_SECONDS_MAX).topics:
                    break
            time.sleep(0.2)
        producer = Producer({**self._settings, "acks": "all", "linger.ms": 50})
        while not self._is_over.wait(self._rng.uniform(*PAUSE_SECONDS)):
            for _ in range(self._rng.randint(*RECORDS)):
                with contextlib.suppress(BufferError, KafkaException):
                    producer.produce(self.topic, b"value", partition=0, on_delivery=self._delivered)
            producer.poll(0.1)
            if self._rng.random() < 0.4:
                with contextlib.suppress(KafkaException):
                    self._delete(admin)
        producer.purge()
        producer.flush(1)

    def _delivered(self, error: object, message: Message) -> None:
        offset = message.offset()
        if error is None and offset is not None:
            self._acknowledged_end = max(self._acknowledged_end, offset + 1)

    def _delete(self, admin: AdminClient) -> None:
        below = max(self._acknowledged_end - self._rng.randrange(12), 0)
        deletions = admin.delete_records(
            [TopicPartition(self.topic, 0, below)], request_timeout=_REQUEST_SECONDS_MAX
        )
        for deletion in deletions.values():
            deletion.result(2 * _REQUEST_SECONDS_MAX)

    def missing(self) -> str:
        """What is not as it has to be once nothing fails; "" when all replicas are in sync and their log is read."""
        part = (
            AdminClient(self._settings)
            .list_topics(timeout=_REQUEST_SECONDS_MAX)
            .topics[self.topic]
            .partitions[0]
        )
        if sorted(part.isrs) != list(BROKERS):
            return f"{self.topic}-0 has in sync {part.isrs}"
        consumer = Consumer({**self._settings, "group.id": "deletions", "enable.partition.eof": True})
        try:
            where = TopicPartition(self.topic, 0)
            start, end = consumer.get_watermark_offsets(where, timeout=_ENDS_SECONDS_MAX, cached=False)
            consumer.assign([TopicPartition(self.topic, 0, start)])
            first = None
            while end > start and first is None:
                first = consumer.poll(_ENDS_SECONDS_MAX)
                if first is None:
                    return f"{self.topic}-0 gives no record from {start} on, where it ends at {end}"
            if first is not None and first.error() is None and first.offset() != start:
                return f"{self.topic}-0 starts at {start} and its first record is at {first.offset()}"
        finally:
            consumer.close()
        return ""
