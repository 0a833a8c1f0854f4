"""A member of the queue with librdkafka's share consumer; options and life are those of `own_member`."""

from __future__ import annotations

import json
import random
import sys
import threading
from pathlib import Path
from typing import Any, Final

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer, TopicPartition

from tests.chaos.librdkafka_clients import COMMON
from tests.queues.member_log import Delivered, MemberLog, choose_work_seconds, describe
from tests.queues.records import ACCEPT, REJECT, RELEASE

REST_SECONDS: Final = 0.3
_TYPES: Final = {
    ACCEPT: AcknowledgeType.ACCEPT,
    RELEASE: AcknowledgeType.RELEASE,
    REJECT: AcknowledgeType.REJECT,
}


def run(options: dict[str, Any]) -> None:
    log = MemberLog(Path(options["log"]))
    chance = random.Random(options["member"])
    is_over = threading.Event()
    threading.Thread(target=_await_end, args=(is_over,), daemon=True).start()

    def note_answers(offsets: dict[TopicPartition, set[int]], failure: KafkaException | None) -> None:
        for key, of_partition in offsets.items():
            log.note_answers(key.partition, of_partition, "" if failure is None else describe(failure))

    consumer = ShareConsumer(
        {
            **COMMON,
            "bootstrap.servers": options["bootstrap"],
            "client.id": options["member"],
            "group.id": options["group"],
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": options["records_max"],
            "socket.timeout.ms": 6000,
        }
    )
    consumer.set_acknowledgement_commit_callback(note_answers)
    consumer.subscribe([options["topic"]])
    while not is_over.is_set():
        try:
            messages = [one for one in consumer.poll(0.5) if one.error() is None]
            if not messages:
                continue
            delivered = [
                Delivered(one.partition() or 0, one.offset() or 0, one.delivery_count() or 0, one.value())
                for one in messages
            ]
            log.note_poll(delivered)
            is_over.wait(choose_work_seconds(chance, options["work_seconds"], len(messages)))
            for message, told in zip(messages, delivered, strict=True):
                consumer.acknowledge(message, _TYPES[told.answer])
            if options["commits"]:
                consumer.commit_sync(10.0)
        except KafkaException as failure:
            log.note_failure(failure)
            is_over.wait(REST_SECONDS)
    consumer.close()


def _await_end(is_over: threading.Event) -> None:
    sys.stdin.read()
    is_over.set()


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
