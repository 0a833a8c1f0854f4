"""A member of a consumer group, with librdkafka: member.py BOOTSTRAP TOPIC GROUP

It commits what it reads, and ends when its standard input does. It prints `joined` once it has partitions, each value
on a line of its own, and `lost` when its partitions were taken.
"""

from __future__ import annotations

import select
import sys
from typing import Any

from confluent_kafka import Consumer


def main(bootstrap: str, topic: str, group: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 45_000,
            "auto.commit.interval.ms": 500,
        }
    )
    callbacks: dict[str, Any] = {
        "on_assign": lambda _, partitions: partitions and print("joined", flush=True),
        "on_revoke": lambda *_: print("lost", flush=True),
        "on_lost": lambda *_: print("lost", flush=True),
    }
    consumer.subscribe([topic], **callbacks)
    while not select.select([sys.stdin], [], [], 0)[0]:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error() is not None:
            print(f"error {message.error()}", flush=True)
            continue
        print((message.value() or b"").decode(), flush=True)
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:4])
