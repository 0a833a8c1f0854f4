"""A member of a group in a process of its own, so that it can be killed: `python -m tests.support.group_member`.

It reads one JSON object from its arguments (client, protocol, bootstrap, group, topic, session_ms), consumes
until SIGTERM, and tells on standard output what happens to it, one JSON list a line: [what, seconds, partitions].
Times are of the system's monotonic clock, the same in all processes. `got` carries [partition, first, last] of
records that were taken, told before they are committed: so whatever is committed has been told of.

What was taken is told and committed before a partition is given up, as an application that wants each record at
least once and few of them twice does.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

POLL_SECONDS = 0.2
BATCH_MAX = 200

Taken = dict[int, list[int]]  # offsets by partition


def tell(what: str, partitions: Iterable[Any] = ()) -> None:
    line = json.dumps([what, time.monotonic(), list(partitions)])
    os.write(1, line.encode() + b"\n")


def tell_taken(taken: Taken) -> None:
    """Offsets of one partition come in order; records of producers without transactions leave no gaps."""
    if taken:
        tell("got", [[partition, offsets[0], offsets[-1]] for partition, offsets in taken.items()])


class Held:
    """What a client with whole assignments holds: when it is fenced, some of them tell only of the next one."""

    def __init__(self) -> None:
        self._partitions: set[int] = set()

    def assigned(self, partitions: Iterable[Any]) -> None:
        new = {part.partition for part in partitions}
        if self._partitions - new:
            tell("lost", sorted(self._partitions - new))
        self._partitions = new
        tell("assigned", sorted(new))

    def revoked(self, partitions: Iterable[Any]) -> None:
        given_up = {part.partition for part in partitions}
        self._partitions -= given_up
        tell("revoked", sorted(given_up))


def run_confluent(options: dict[str, Any], is_stopping: Callable[[], bool]) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    settings = {
        "bootstrap.servers": options["bootstrap"],
        "group.id": options["group"],
        "group.protocol": options["protocol"],
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "reconnect.backoff.max.ms": 500,
        "log_level": 0,
    }
    if options["protocol"] == "classic":
        settings["heartbeat.interval.ms"] = 300
        settings["session.timeout.ms"] = options["session_ms"]
        settings["partition.assignment.strategy"] = options["strategy"]
    consumer = Consumer(settings)
    taken: Taken = {}

    def commit() -> None:
        tell_taken(taken)
        positions = [
            TopicPartition(options["topic"], partition, offsets[-1] + 1)
            for partition, offsets in taken.items()
        ]
        taken.clear()
        if positions:
            try:
                consumer.commit(offsets=positions, asynchronous=False)
            except KafkaException as error:
                tell("commit failed", [str(error)])

    def on_assign(_: Any, partitions: list[Any]) -> None:
        tell("assigned", [part.partition for part in partitions])

    def on_revoke(_: Any, partitions: list[Any]) -> None:
        commit()
        tell("revoked", [part.partition for part in partitions])

    def on_lost(_: Any, partitions: list[Any]) -> None:
        tell_taken(taken)
        taken.clear()
        tell("lost", [part.partition for part in partitions])

    consumer.subscribe([options["topic"]], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)
    while not is_stopping():
        message = consumer.poll(POLL_SECONDS)
        for count in range(1, BATCH_MAX + 1):
            if message is not None and message.error() is None:
                partition, offset = message.partition(), message.offset()
                assert partition is not None and offset is not None
                taken.setdefault(partition, []).append(offset)
            if message is None or count == BATCH_MAX:
                break
            message = consumer.poll(0)
        commit()
    consumer.close()


def run_kafka_python(options: dict[str, Any], is_stopping: Callable[[], bool]) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

    held = Held()

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
        def on_partitions_revoked(self, revoked: Any) -> None:
            held.revoked(revoked)

        def on_partitions_assigned(self, assigned: Any) -> None:
            held.assigned(assigned)

    consumer = KafkaConsumer(
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=300,
        session_timeout_ms=options["session_ms"],
        partition_assignment_strategy=(RangePartitionAssignor,),
        reconnect_backoff_max_ms=500,
    )
    consumer.subscribe([options["topic"]], listener=Listener())
    while not is_stopping():
        # Listeners are called within poll alone: between it and the commit nothing can be taken away.
        records = consumer.poll(timeout_ms=int(POLL_SECONDS * 1000), max_records=BATCH_MAX)
        tell_taken({part.partition: [record.offset for record in batch] for part, batch in records.items()})
        if records:
            positions = {
                part: OffsetAndMetadata(batch[-1].offset + 1, "", -1) for part, batch in records.items()
            }
            try:
                consumer.commit(positions)
            except KafkaError as error:
                tell("commit failed", [repr(error)])
    held.revoked(consumer.assignment())
    consumer.close()


async def run_aiokafka(options: dict[str, Any], is_stopping: Callable[[], bool]) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import IllegalStateError, KafkaError

    commits: list[asyncio.Task[None]] = []  # the one under way

    held = Held()

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
        async def on_partitions_revoked(self, revoked: Any) -> None:
            for commit in commits:
                commit.cancel()  # or it may be sent again as of the next generation
            held.revoked(revoked)

        async def on_partitions_assigned(self, assigned: Any) -> None:
            held.assigned(assigned)

    consumer = AIOKafkaConsumer(
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=300,
        session_timeout_ms=options["session_ms"],
        partition_assignment_strategy=(RangePartitionAssignor,),
    )
    consumer.subscribe([options["topic"]], listener=Listener())
    await consumer.start()
    while not is_stopping():
        records = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000), max_records=BATCH_MAX)
        tell_taken({part.partition: [record.offset for record in batch] for part, batch in records.items()})
        if records:
            positions = {part: batch[-1].offset + 1 for part, batch in records.items()}
            commits[:] = [asyncio.ensure_future(consumer.commit(positions))]
            (failure,) = await asyncio.gather(*commits, return_exceptions=True)
            if isinstance(failure, KafkaError | IllegalStateError | asyncio.CancelledError):
                tell("commit failed", [repr(failure)])
            elif failure is not None:
                raise failure
    held.revoked(consumer.assignment())
    await consumer.stop()


def main() -> None:
    options = json.loads(sys.argv[1])
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    tell("started")

    def is_stopping() -> bool:
        return bool(stopping)

    if options["client"] == "aiokafka":
        asyncio.run(run_aiokafka(options, is_stopping))
    elif options["client"] == "kafka-python":
        run_kafka_python(options, is_stopping)
    else:
        run_confluent(options, is_stopping)
    tell("ended")


if __name__ == "__main__":
    main()
