"""All that a topic holds, with kafka-python: everything.py BOOTSTRAP TOPIC

It reads every partition from its start to where it ended when the program began. It prints one line of JSON: a list of
[partition, offset, key, value].
"""

from __future__ import annotations

import json
import sys

from kafka import KafkaConsumer, TopicPartition

POLL_MS = 1000


def everything(bootstrap: str, topic: str) -> list[tuple[int, int, str | None, str | None]]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, group_id=None)
    partitions = [
        TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())
    ]
    ends = consumer.end_offsets(partitions)
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    found: list[tuple[int, int, str | None, str | None]] = []
    while any(consumer.position(one) < ends[one] for one in partitions):
        for records in consumer.poll(timeout_ms=POLL_MS).values():
            found += [(one.partition, one.offset, _text(one.key), _text(one.value)) for one in records]
    consumer.close()
    return found


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


if __name__ == "__main__":
    print(json.dumps(everything(sys.argv[1], sys.argv[2])))
