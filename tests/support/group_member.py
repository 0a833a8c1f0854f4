"""A member of a group in a process of its own, so that it can be killed: `python -m tests.support.group_member`.

It reads one JSON object from its arguments (number, client, protocol, bootstrap, group, topic, session_ms, log), and
consumes until SIGTERM. It prints what happens to it on standard output, one JSON list a line: [what, seconds, details].
Times are of the system's monotonic clock, the same in all processes. `got` carries [partition, first, last] of records
that were taken, reported before they are committed: so everything that is committed has been reported.

Each commit has a name, "MEMBER.COUNT", which is its metadata in the log. It is reported before it begins (`commits`:
its name, then [partition, position] each), and when it is over (`committed` or `commit failed`).

It reports and commits the records that it took before it gives a partition up. An application that wants each record at
least once, and few twice, does so too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

POLL_SECONDS = 0.2
KAFKA_PYTHON_POLL_MS = 2000
BATCH_MAX = 200

# A member that polls no more for so long leaves its group. One that is asked for a partition and keeps it is fenced.
MAX_POLL_INTERVAL_MS = 80_000

Taken = dict[int, list[int]]  # offsets by partition


def report(what: str, partitions: Iterable[Any] = ()) -> None:
    line = json.dumps([what, time.monotonic(), list(partitions)])
    os.write(1, line.encode() + b"\n")


class Commits:
    """What a member has taken and not yet committed. A failed commit is repeated with the next one, as long as the
    partition is held. Brokers refuse commits in the middle of a rebalance, and clients leave the retry to the
    application.
    """

    def __init__(self, member: int) -> None:
        self.positions: dict[int, int] = {}  # by partition
        self._member = member
        self._count = 0

    def take(self, taken: Taken) -> None:
        report_taken(taken)
        self.positions.update((partition, offsets[-1] + 1) for partition, offsets in taken.items())

    def forget(self, partitions: Iterable[int]) -> None:
        """They are not this member's any more."""
        for partition in partitions:
            self.positions.pop(partition, None)

    def begin(self) -> str:
        """A commit of all positions is about to begin; its name."""
        self._count += 1
        name = f"{self._member}.{self._count}"
        report("commits", [name, *self.positions.items()])
        return name

    def end(self, name: str, error: BaseException | None) -> None:
        if error is None:
            self.positions.clear()
            report("committed", [name])
        else:
            report("commit failed", [name, repr(error)])


def report_taken(taken: Taken) -> None:
    """Offsets of one partition arrive in order; records of producers without transactions leave no gaps."""
    if taken:
        report("got", [[partition, offsets[0], offsets[-1]] for partition, offsets in taken.items()])


class Held:
    """What a client with whole assignments holds: when it is fenced, some of them report only the next one."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._partitions: set[int] = set()

    def assigned(self, partitions: Iterable[Any]) -> None:
        new = {part.partition for part in partitions}
        if self._partitions - new:
            report("lost", sorted(self._partitions - new))
            self._commits.forget(self._partitions - new)
        self._partitions = new
        report("assigned", sorted(new))

    def revoked(self, partitions: Iterable[Any], *, is_lost: bool = False) -> None:
        given_up = {part.partition for part in partitions}
        self._partitions -= given_up
        self._commits.forget(given_up)
        report("lost" if is_lost else "revoked", sorted(given_up))


def run_confluent(options: dict[str, Any], is_stopping: Callable[[], bool]) -> None:
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    has_moved = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE)
    settings = {
        "bootstrap.servers": options["bootstrap"],
        "group.id": options["group"],
        "group.protocol": options["protocol"],
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "max.poll.interval.ms": MAX_POLL_INTERVAL_MS,
        "reconnect.backoff.max.ms": 500,
        # librdkafka forgets a request for metadata when its connection is replaced, as after a broker's return. It
        # joins no group before the next request, five minutes later by default.
        "topic.metadata.refresh.interval.ms": 2000,
        "log_level": 7 if options["log"] else 0,
    }
    if options["log"]:
        settings["debug"] = "cgrp,topic,broker"
    if options["protocol"] == "classic":
        settings["heartbeat.interval.ms"] = 300
        settings["session.timeout.ms"] = options["session_ms"]
        settings["partition.assignment.strategy"] = options["strategy"]
    consumer = Consumer(settings)
    taken: Taken = {}
    commits = Commits(options["number"])

    def commit() -> None:
        commits.take(taken)
        taken.clear()
        if not commits.positions:
            return
        name = commits.begin()
        try:
            consumer.commit(
                offsets=[
                    TopicPartition(options["topic"], partition, position, metadata=name)
                    for partition, position in commits.positions.items()
                ],
                asynchronous=False,
            )
        except KafkaException as error:
            commits.end(name, error)
        else:
            commits.end(name, None)

    def on_assign(_: Any, partitions: list[Any]) -> None:
        report("assigned", [part.partition for part in partitions])

    def on_revoke(_: Any, partitions: list[Any]) -> None:
        commit()
        given_up = [part.partition for part in partitions]
        commits.forget(given_up)
        report("revoked", given_up)

    def on_lost(_: Any, partitions: list[Any]) -> None:
        commits.take(taken)
        taken.clear()
        lost = [part.partition for part in partitions]
        commits.forget(lost)
        report("lost", lost)

    def assign_again() -> bool:
        """Make librdkafka ask for committed positions again; returns whether it could: in a rebalance it may refuse.

        It does not by itself when the coordinator has moved away. It gives the application an error for each
        partition, and fetches nothing from one that is not assigned again.
        """
        held = consumer.assignment()
        try:
            if options["protocol"] == "classic" and options["strategy"] == "range":
                consumer.assign(held)
            else:
                consumer.incremental_unassign(held)
                consumer.incremental_assign(held)
        except KafkaException:
            return False
        return True

    consumer.subscribe([options["topic"]], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)
    has_no_position = False
    while not is_stopping():
        message = consumer.poll(POLL_SECONDS)
        for count in range(1, BATCH_MAX + 1):
            if message is not None and message.error() is None:
                partition, offset = message.partition(), message.offset()
                assert partition is not None and offset is not None
                taken.setdefault(partition, []).append(offset)
            elif message is not None and (error := message.error()) is not None:
                has_no_position |= error.code() in has_moved
            if message is None or count == BATCH_MAX:
                break
            message = consumer.poll(0)
        commit()
        if has_no_position:
            has_no_position = not assign_again()
    consumer.close()


def run_kafka_python(options: dict[str, Any], is_stopping: Callable[[], bool]) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError, RetriableError
    from kafka.structs import OffsetAndMetadata, TopicPartition

    commits = Commits(options["number"])
    held = Held(commits)

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
        def on_partitions_revoked(self, revoked: Any) -> None:
            held.revoked(revoked)

        def on_partitions_lost(self, lost: Any) -> None:
            held.revoked(lost, is_lost=True)

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
        try:
            # It loses the answer to a join that its poll does not wait for.
            records = consumer.poll(timeout_ms=KAFKA_PYTHON_POLL_MS, max_records=BATCH_MAX)
        except RetriableError:
            # Raised when the broker is away at the moment in which it is asked for the group's coordinator.
            time.sleep(POLL_SECONDS)
            continue
        commits.take({part.partition: [record.offset for record in batch] for part, batch in records.items()})
        if commits.positions:
            name = commits.begin()
            try:
                consumer.commit(
                    {
                        TopicPartition(options["topic"], partition): OffsetAndMetadata(position, name, -1)
                        for partition, position in commits.positions.items()
                    }
                )
            except KafkaError as error:
                commits.end(name, error)
            else:
                commits.end(name, None)
    held.revoked(consumer.assignment())
    consumer.close()


async def run_aiokafka(options: dict[str, Any], is_stopping: Callable[[], bool]) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import IllegalStateError, KafkaConnectionError, KafkaError
    from aiokafka.structs import TopicPartition

    commits = Commits(options["number"])
    under_way: list[asyncio.Task[None]] = []
    held = Held(commits)

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
        async def on_partitions_revoked(self, revoked: Any) -> None:
            for commit in under_way:
                commit.cancel()  # or it may be sent again as of the next generation
            held.revoked(revoked)

        async def on_partitions_assigned(self, assigned: Any) -> None:
            held.assigned(assigned)

    async def connected() -> Any:
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
        try:
            await consumer.start()
        except KafkaConnectionError:
            await consumer.stop()
            return None
        return consumer

    while (consumer := await connected()) is None:
        # It asks once, and the broker may be away at that moment.
        if is_stopping():
            return
        await asyncio.sleep(POLL_SECONDS)
    while not is_stopping():
        records = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000), max_records=BATCH_MAX)
        commits.take({part.partition: [record.offset for record in batch] for part, batch in records.items()})
        if commits.positions:
            name = commits.begin()
            named = {
                TopicPartition(options["topic"], partition): (position, name)
                for partition, position in commits.positions.items()
            }
            under_way[:] = [asyncio.ensure_future(consumer.commit(named))]
            (failure,) = await asyncio.gather(*under_way, return_exceptions=True)
            if failure is not None and not isinstance(
                failure, KafkaError | IllegalStateError | asyncio.CancelledError
            ):
                raise failure
            commits.end(name, failure)
    held.revoked(consumer.assignment())
    await consumer.stop()


def main() -> None:
    options = json.loads(sys.argv[1])
    if options["log"]:
        log = os.open(options["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 2)  # librdkafka writes there, too
        logging.basicConfig(level=logging.DEBUG, format="%(created).3f %(name)s %(message)s")
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    report("started")

    def is_stopping() -> bool:
        return bool(stopping)

    if options["client"] == "aiokafka":
        asyncio.run(run_aiokafka(options, is_stopping))
    elif options["client"] == "kafka-python":
        run_kafka_python(options, is_stopping)
    else:
        run_confluent(options, is_stopping)
    report("ended")


if __name__ == "__main__":
    main()
