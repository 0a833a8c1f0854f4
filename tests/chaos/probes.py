"""I12: after everything is healed each kind of request works again, within a bound that also a busy machine keeps."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.history import Acknowledged, HistoryFile, Probed, ProducerBegan, Sent, now, record_name
from tests.chaos.librdkafka_clients import COMMON
from tests.chaos.world import BROKERS
from tests.support.costs import measure_starvation

# The invariant says 30 s. A session that began to expire with the last fault, a retry that waits and a machine with
# other work are on top of it.
SECONDS_MAX: Final = 60.0
# Beside other tests a round may get a small part of the processors: it then has as many times longer, up to this.
_STARVATION_MAX: Final = 3.0
_TRY_SECONDS: Final = 10.0


class Probes:
    """One client that comes after the faults. Every probe is tried until it works, or its time is up."""

    def __init__(self, bootstrap: str, history: HistoryFile, *, topic: str, partitions: int) -> None:
        self._settings: dict[str, Any] = {**COMMON, "bootstrap.servers": bootstrap}
        self._admin = AdminClient(self._settings)
        self._history = history
        self._topic = topic
        self._partitions = partitions

    def run(self) -> bool:
        """Whether all of them worked."""
        return all(
            [
                self.probe("all replicas are in sync", self._all_in_sync),
                self.probe("every partition takes a record", self._write),
                self.probe("a topic is made and deleted", self._make_and_delete),
                self.probe("a group commits and reads its positions", self._commit),
            ]
        )

    def probe(self, what: str, attempt: Callable[[], str]) -> bool:
        """`attempt` says what is missing, "" when nothing is."""
        begun_at = now()
        deadline = time.monotonic() + SECONDS_MAX * min(measure_starvation(), _STARVATION_MAX)
        missing = "not tried"
        while missing and time.monotonic() < deadline:
            try:
                missing = attempt()
            except KafkaException as failure:
                missing = str(failure)
            if missing:
                time.sleep(0.2)
        self._history.add(Probed(at=now(), begun_at=begun_at, what=what, error=missing))
        return not missing

    def _all_in_sync(self) -> str:
        topics = self._admin.list_topics(timeout=_TRY_SECONDS).topics
        for name in (self._topic, "__consumer_offsets"):
            if name not in topics or topics[name].error is not None:
                return f"the topic {name} is not in the metadata"
            for number, part in topics[name].partitions.items():
                if sorted(part.isrs) != list(BROKERS) or part.leader not in BROKERS:
                    return f"{name}-{number} is led by {part.leader} and has in sync {part.isrs}"
        return ""

    def _write(self) -> str:
        name = f"probe-{uuid.uuid4().hex[:8]}"
        self._history.add(
            ProducerBegan(
                at=now(), producer=name, acks=-1, is_idempotent=True, is_ordered=True, renews_itself=True
            )
        )
        producer = Producer(
            {
                **self._settings,
                "acks": "all",
                "enable.idempotence": True,
                "message.timeout.ms": int(_STARVATION_MAX * SECONDS_MAX * 1000),
            }
        )
        failed: list[str] = []

        def delivered(partition: int) -> Any:
            def delivered(error: Any, message: Any) -> None:
                where: dict[str, Any] = {
                    "producer": name,
                    "number": partition,
                    "topic": self._topic,
                    "partition": partition,
                }
                if error is not None:
                    failed.append(f"partition {partition}: {error}")
                else:
                    self._history.add(Acknowledged(at=now(), offset=max(message.offset(), -1), **where))

            return delivered

        for partition in range(self._partitions):
            self._history.add(
                Sent(at=now(), producer=name, number=partition, topic=self._topic, partition=partition)
            )
            value = record_name(name, partition).encode() + b" "
            producer.produce(self._topic, value, partition=partition, on_delivery=delivered(partition))
        left = producer.flush(SECONDS_MAX)
        return "; ".join(failed) or (f"{left} records are without an answer" if left else "")

    def _make_and_delete(self) -> str:
        topic = f"probe-{uuid.uuid4().hex[:8]}"
        asked = NewTopic(topic, num_partitions=3, replication_factor=3)
        self._admin.create_topics([asked], request_timeout=_TRY_SECONDS)[topic].result(2 * _TRY_SECONDS)
        self._admin.delete_topics([topic], request_timeout=_TRY_SECONDS)[topic].result(2 * _TRY_SECONDS)
        return ""

    def _commit(self) -> str:
        part = TopicPartition(self._topic, 0, 1)
        with closing_consumer({**self._settings, "group.id": f"probe-{uuid.uuid4().hex[:8]}"}) as consumer:
            consumer.commit(offsets=[part], asynchronous=False)
            (found,) = consumer.committed([TopicPartition(self._topic, 0)], _TRY_SECONDS)
        return "" if found.offset == 1 else f"position 1 was committed, {found.offset} is read"

    def high_watermarks(self) -> dict[int, int]:
        """By partition, of the topic. Raises KafkaException."""
        with closing_consumer({**self._settings, "group.id": "probe"}) as consumer:
            return {
                number: consumer.get_watermark_offsets(TopicPartition(self._topic, number), _TRY_SECONDS)[1]
                for number in range(self._partitions)
            }

    def topics(self) -> frozenset[str]:
        """All there are. Raises KafkaException."""
        return frozenset(self._admin.list_topics(timeout=_TRY_SECONDS).topics)


@contextlib.contextmanager
def closing_consumer(settings: dict[str, Any]) -> Any:
    consumer = Consumer(settings)
    try:
        yield consumer
    finally:
        consumer.close()
