"""A process of real librdkafka: writers, and an administrator who makes and deletes topics.

As `own_clients` it is given a JSON object, prints `ready`, and ends cleanly when its standard input does.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.history import (
    Acknowledged,
    ErrorLogged,
    HistoryFile,
    ProducerBegan,
    Refused,
    Sent,
    TopicAsked,
    now,
    record_name,
)

WAITING_MAX: Final = 2_000
ADMIN_SECONDS: Final = 20.0
ADMIN_PAUSE_SECONDS: Final = (0.5, 3.0)
# What is common to all: look around again soon, as applications in such clusters do.
COMMON: Final = {"reconnect.backoff.max.ms": 500, "topic.metadata.refresh.interval.ms": 5000, "log_level": 0}


class Writer:
    """One producer in a thread of its own."""

    def __init__(
        self, name: str, options: dict[str, Any], history: HistoryFile, settings: dict[str, Any]
    ) -> None:
        self.name = name
        self.is_ready = threading.Event()
        self._options = options
        self._history = history
        self._settings = settings
        self._chance = random.Random(f"{options['seed']}{name}")
        self._waiting = 0

    def write(self, is_over: threading.Event) -> None:
        is_idempotent = bool(self._settings.get("enable.idempotence"))
        self._history.add(
            ProducerBegan(
                at=now(),
                producer=self.name,
                acks=-1 if self._settings["acks"] == "all" else int(self._settings["acks"]),
                is_idempotent=is_idempotent,
                # Records that the old leader refuses reach the new one after records that never went to the old. One
                # request in flight is one for each broker, not for each partition.
                is_ordered=is_idempotent,
                renews_itself=is_idempotent,
            )
        )
        producer = Producer(
            {
                **COMMON,
                "bootstrap.servers": self._options["bootstrap"],
                "message.timeout.ms": self._options["delivery_ms"],
                "socket.timeout.ms": 6000,
                "linger.ms": 5,
                **self._settings,
            }
        )
        try:
            self._write(producer, is_over)
        except KafkaException as failure:
            # A fatal error of librdkafka: it holds a broker's answer to be impossible.
            text = f"the producer {self.name} gave up: {failure}"
            self._history.add(ErrorLogged(at=now(), process="librdkafka", text=text))
            producer.purge()
        deadline = time.monotonic() + 3 * self._options["delivery_ms"] / 1000
        while self._waiting and time.monotonic() < deadline:
            producer.poll(0.1)

    def _write(self, producer: Producer, is_over: threading.Event) -> None:
        number = 0
        while not is_over.is_set():
            if self._waiting < WAITING_MAX:
                self._send(producer, number)
                number += 1
            producer.poll(self._chance.uniform(0, 2 / self._options["per_second"]))

    def _send(self, producer: Producer, number: int) -> None:
        topic, partition = self._options["topic"], self._chance.randrange(self._options["partitions"])
        padding = b"." * self._chance.choice([0, 20, 200])
        self._history.add(Sent(at=now(), producer=self.name, number=number, topic=topic, partition=partition))
        self._waiting += 1

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._waiting -= 1
            where = {"producer": self.name, "number": number, "topic": topic, "partition": partition}
            if error is not None:
                self._history.add(Refused(at=now(), error=str(error)[:300], **where))
                return
            offset = message.offset()
            self._history.add(
                Acknowledged(at=now(), offset=-1 if offset is None else max(offset, -1), **where)
            )
            self.is_ready.set()

        value = record_name(self.name, number).encode() + b" " + padding
        producer.produce(topic, value, partition=partition, on_delivery=delivered)


class Administrator:
    """Makes topics and deletes some again, one request after the other; each name is made once."""

    def __init__(self, options: dict[str, Any], history: HistoryFile) -> None:
        self._prefix = options["admin_prefix"]
        self._history = history
        self._chance = random.Random(f"{options['seed']}admin")
        self._admin = AdminClient({**COMMON, "bootstrap.servers": options["bootstrap"]})
        self._made: list[str] = list(options["obsolete"])
        self._count = 0

    def work(self, is_over: threading.Event) -> None:
        while not is_over.wait(self._chance.uniform(*ADMIN_PAUSE_SECONDS)):
            if self._made and self._chance.random() < 0.5:
                self._delete(self._made.pop(self._chance.randrange(len(self._made))))
            else:
                self._make()

    def _make(self) -> None:
        self._count += 1
        topic = f"{self._prefix}-{self._count}"
        self._made.append(topic)
        asked = NewTopic(topic, num_partitions=self._chance.choice([1, 3]), replication_factor=3)
        self._ask(topic, self._admin.create_topics, [asked], is_deletion=False)

    def _delete(self, topic: str) -> None:
        self._ask(topic, self._admin.delete_topics, [topic], is_deletion=True)

    def _ask(self, topic: str, request: Any, what: list[Any], *, is_deletion: bool) -> None:
        begun_at = now()
        outcome, detail = "done", ""
        try:
            request(what, operation_timeout=ADMIN_SECONDS, request_timeout=ADMIN_SECONDS)[topic].result(
                2 * ADMIN_SECONDS
            )
        except KafkaException as failure:
            # A retry inside of the client, or of the broker, may have found the work done.
            outcome, detail = "unknown", str(failure)[:300]
        except TimeoutError:
            outcome, detail = "unknown", "no answer"
        self._history.add(
            TopicAsked(
                at=now(),
                begun_at=begun_at,
                topic=topic,
                is_deletion=is_deletion,
                outcome=outcome,
                detail=detail,
            )
        )


def main(options: dict[str, Any]) -> None:
    history = HistoryFile(Path(options["history"]))
    writers = [
        Writer("rd-all", options, history, {"acks": "all", "enable.idempotence": True}),
        Writer("rd-one", options, history, {"acks": "1", "max.in.flight": 1}),
    ]
    administrator = Administrator(options, history)
    is_over = threading.Event()
    threads = [
        threading.Thread(target=work, args=(is_over,), daemon=True)
        for work in (*(writer.write for writer in writers), administrator.work)
    ]
    for thread in threads:
        thread.start()
    for writer in writers:
        writer.is_ready.wait()
    print("ready", flush=True)
    sys.stdin.read()
    is_over.set()
    for thread in threads:
        thread.join()
    history.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
