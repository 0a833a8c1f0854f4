"""Clients that run for hours and keep a journal: honest.py ROLE TOPIC JOURNAL [PREFIX] [SETTING=VALUE…]

They log in by the Secret of a User, which is mounted at /etc/user. ROLE is

- `produce`: RECORDS_PER_SECOND records with acks=all. Each acknowledgement is a line `TIME PARTITION OFFSET VALUE`, and
  each record that failed for good is `TIME failed VALUE WHY`.
- `consume`: a member of the group `honest`. Each record that it was given is such a line.
- `read`: JOURNAL has the offsets to begin at (`PARTITION:OFFSET,…`); all that is there from then on is printed so.

TIME is the machine's clock that no one sets, in seconds.
"""

from __future__ import annotations

import sys
import time
import uuid
from pathlib import Path
from typing import Any, TextIO

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

RECORDS_PER_SECOND = 50
SETTINGS = Path("/etc/user")
READ_SECONDS_MAX = 60.0
# A client that waits: whether it is given up is for the attack to say.
DELIVERY_MS = 300_000


def connection() -> dict[str, Any]:
    """librdkafka's settings, as the User's Secret has them now."""
    found = {
        name: (SETTINGS / name).read_text().strip()
        for name in ("bootstrap.servers", "security.protocol", "sasl.mechanism")
    }
    return {
        **found,
        "sasl.username": (SETTINGS / "username").read_text().strip(),
        "sasl.password": (SETTINGS / "password").read_text().strip(),
        "ssl.ca.location": str(SETTINGS / "ca.crt"),
    }


def produce(topic: str, journal: TextIO, prefix: str, more: dict[str, str]) -> None:
    producer = Producer({
        **connection(),
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 5,
        "message.timeout.ms": DELIVERY_MS,
        "error_cb": noted,
        **more,
    })  # fmt: skip
    began, sent, life = time.monotonic(), 0, uuid.uuid4().hex[:4]
    while True:
        due = int((time.monotonic() - began) * RECORDS_PER_SECOND)
        while sent < due:
            value = f"{prefix}-{life}-{sent}"

            def delivered(error: KafkaError | None, message: Message, value: str = value) -> None:
                where = (
                    f"failed {value} {error}"
                    if error
                    else f"{message.partition()} {message.offset()} {value}"
                )
                journal.write(f"{time.monotonic():.3f} {where}\n")

            producer.produce(topic, value.encode(), key=value.encode(), on_delivery=delivered)
            sent += 1
        producer.poll(0.01)
        journal.flush()


def consume(topic: str, journal: TextIO, more: dict[str, str]) -> None:
    consumer = Consumer({
        **connection(),
        "group.id": "honest",
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 500,
        "error_cb": noted,
        **more,
    })  # fmt: skip
    consumer.subscribe([topic])
    while True:
        message = consumer.poll(0.1)
        if message is None:
            continue
        if error := message.error():
            noted(error)
            continue
        journal.write(line_of(message))
        journal.flush()


def read(topic: str, offsets: str) -> None:
    consumer = Consumer({**connection(), "group.id": "reads", "enable.auto.commit": False})
    begins = dict(part.split(":") for part in offsets.split(",") if part)
    found = consumer.list_topics(topic, timeout=READ_SECONDS_MAX).topics[topic].partitions
    wanted = {
        number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=READ_SECONDS_MAX)[1]
        for number in found
    }
    at = {number: int(begins.get(str(number), 0)) for number in found}
    consumer.assign([TopicPartition(topic, number, at[number]) for number in found])
    while any(at[number] < wanted[number] for number in found):
        message = consumer.poll(READ_SECONDS_MAX)
        if message is None:
            raise SystemExit(f"{topic} cannot be read: at {at} of {wanted}")
        if error := message.error():
            noted(error)
            continue
        sys.stdout.write(line_of(message))
        at[message.partition() or 0] = (message.offset() or 0) + 1
    consumer.close()


def line_of(message: Message) -> str:
    value = (message.value() or b"").decode()
    return f"{time.monotonic():.3f} {message.partition()} {message.offset()} {value}\n"


def noted(error: KafkaError) -> None:
    print(f"{time.strftime('%H:%M:%S')} {error}", file=sys.stderr, flush=True)


def main(role: str, topic: str, journal: str, *rest: str) -> None:
    more = dict(one.split("=", 1) for one in rest if "=" in one)
    if role == "read":
        read(topic, journal)
        return
    with Path(journal).open("a") as file:
        if role == "produce":
            produce(topic, file, next(one for one in rest if "=" not in one), more)
        else:
            consume(topic, file, more)


if __name__ == "__main__":
    main(*sys.argv[1:])
