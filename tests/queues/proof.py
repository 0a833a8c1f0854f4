"""One run: records are written and worked on while faults come, all is healed, the queue is drained and judged."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from odradek import ConfigChange, ResourceType
from odradek.broker.shares.dead_letter_records import (
    DELIVERY_COUNT_HEADER,
    GROUP_HEADER,
    MESSAGE_HEADER,
    OFFSET_HEADER,
    PARTITION_HEADER,
    REJECTED,
    TOPIC_HEADER,
)
from odradek.foundation.errors import OdradekError
from odradek.sync import Admin, Client
from odradek.wire.protocol.group_partitions import partition_of
from odradek.wire.records.record import Record
from odradek.wire.records.record import records as records_of
from tests.chaos.final_logs import batches_of
from tests.chaos.history import ErrorLogged, HistoryFile, ProcessEnded
from tests.chaos.workers import Worker
from tests.chaos.world import ChaosCluster
from tests.queues.check import Breach, Evidence, Figures, Letter, check
from tests.queues.faults import QueueFaults, plan
from tests.queues.members import OWN, Members
from tests.queues.records import read_name
from tests.queues.writers import read_acknowledged
from tests.support.polling import SECONDS_MAX, wait_until

TOPIC, PARTITIONS = "work", 12
LETTERS, LETTERS_PARTITIONS = "dlq.work", 3
STATES, STATES_PARTITIONS = "__share_group_state", 3
GROUP: Final = "workers"
OFFSETS_PARTITIONS: Final = 3
DISK_BYTES: Final = 2 << 30
DELIVERIES_MAX: Final = 5
LOCK_SECONDS: Final = 10.0
SETTINGS: Final = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
    "share.coordinator.state.topic.num.partitions": str(STATES_PARTITIONS),
    "share.coordinator.snapshot.update.records.per.snapshot": "100",
}
GROUP_SETTINGS: Final = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": str(DELIVERIES_MAX),
    "share.record.lock.duration.ms": f"{LOCK_SECONDS * 1000:.0f}",
    "share.partition.max.record.locks": "4000",
    "errors.deadletterqueue.topic.name": LETTERS,
    "errors.deadletterqueue.copy.record.enable": "true",
}
DRAIN_SECONDS_MAX: Final = 300.0
TICK_SECONDS: Final = 0.1
LOOK_SECONDS: Final = 0.5
# Records are written in nearly all of the time of faults: at its end the queue is short.
_WRITING: Final = 0.9
# Writers wait while brokers are away. Beyond this multiple of the time they should take the run ends without them.
_PATIENCE: Final = 1.5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run found. `clients_failures` are the errors that members' clients raised, by client and error."""

    breaches: list[Breach]
    figures: Figures
    faults: Counter[str]
    clients_failures: list[tuple[str, str, int]]
    seconds: float


class Proof:
    """Make it, `play` it once; `close` in any case."""

    def __init__(self, folder: Path, *, records: int, seed: int, seconds: float) -> None:
        self._folder = folder
        self._records = records
        self._seed = seed
        self._seconds = seconds
        self._history = HistoryFile(folder / "history.jsonl")
        self._world = ChaosCluster(folder, self._history, settings=SETTINGS, disk_bytes=DISK_BYTES)
        self._members = Members(folder, bootstrap=self._world.bootstrap, group=GROUP, topic=TOPIC)
        self._faults = QueueFaults(
            self._world,
            self._members,
            self._history,
            partitions={TOPIC: PARTITIONS, LETTERS: LETTERS_PARTITIONS, STATES: STATES_PARTITIONS},
            group_partition=partition_of(GROUP, OFFSETS_PARTITIONS),
        )
        self._acknowledged = folder / "acknowledged.json"
        self._writer: Worker | None = None
        self._breaches: list[Breach] = []
        self._is_over = threading.Event()
        self._watch = threading.Thread(target=self._watch_processes, name="watch", daemon=True)

    def play(self) -> Outcome:
        """Raises AssertionError where a part of the proof itself failed."""
        began = time.monotonic()
        self._world.start()
        self._watch.start()
        self._make_topics()
        self._members.start()
        self._start_writer()
        self._hurt()
        self._faults.heal()
        self._say("healed")
        self._drain()
        self._breaches += [Breach("member does not end", one) for one in self._members.finish()]
        self._end_watch()
        self._breaches += [
            Breach("member ended by itself", one)
            for one in self._members.ended_by_themselves
            if one.startswith(OWN)
        ]
        self._say("drained")
        verdict = check(self._gather())
        return Outcome(
            [*self._breaches, *verdict.breaches],
            verdict.figures,
            self._faults.counts,
            list(self._members.count_failures()),
            time.monotonic() - began,
        )

    def close(self) -> None:
        self._end_watch()
        self._members.close()
        if self._writer is not None:
            self._writer.close()
        self._world.close()
        self._history.close()

    def _say(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)

    # --- its parts -----------------------------------------------------------------------------------------------

    def _make_topics(self) -> None:
        letters = {"errors.deadletterqueue.group.enable": "true"}
        with Client(self._world.bootstrap) as client:
            admin = Admin(client)
            admin.topics.create(TOPIC, partitions=PARTITIONS, replication_factor=3)
            admin.topics.create(LETTERS, partitions=LETTERS_PARTITIONS, replication_factor=3, configs=letters)
            changes = [ConfigChange(key, value) for key, value in GROUP_SETTINGS.items()]
            admin.configs.alter(ResourceType.GROUP, GROUP, changes)

    def _start_writer(self) -> None:
        options = {
            "bootstrap": self._world.bootstrap,
            "topic": TOPIC,
            "records": self._records,
            "per_second": self._records / (_WRITING * self._seconds),
            "seed": self._seed,
            "acknowledged": str(self._acknowledged),
        }
        log = self._folder / "writers.log"
        self._writer = Worker("tests.queues.writers", options, log=log)
        self._writer.await_ready()

    def _hurt(self) -> None:
        """Faults until all is written, and at least for as long as that should take."""
        assert self._writer is not None
        planned = plan(self._seed, _PATIENCE * self._seconds)
        began = time.monotonic()

        def step() -> bool:
            elapsed = time.monotonic() - began
            self._faults.tick()
            self._members.look()
            while planned and planned[0].at_seconds <= elapsed:
                self._faults.begin(planned.pop(0))
            return self._acknowledged.exists() and elapsed >= _WRITING * self._seconds

        wait_until(
            "all records are written",
            step,
            seconds_max=max(_PATIENCE * self._seconds, SECONDS_MAX),
            pause_seconds=TICK_SECONDS,
        )
        self._writer.finish(seconds_max=SECONDS_MAX)

    def _watch_processes(self) -> None:
        while not self._is_over.wait(LOOK_SECONDS):
            for event in self._world.look():
                self._history.add(event)
                if isinstance(event, ErrorLogged):
                    self._breaches.append(Breach("error in the log", f"{event.process}: {event.text}"))
                elif isinstance(event, ProcessEnded) and not event.excuse:
                    what = f"{event.process} ended with {event.exit_code}: {event.said}"
                    self._breaches.append(Breach("process ended by itself", what))

    def _end_watch(self) -> None:
        self._is_over.set()
        if self._watch.ident is not None:
            self._watch.join(SECONDS_MAX)

    def _drain(self) -> None:
        """Wait until the queue says that nothing is left in it. What is left otherwise is a breach."""
        # Where the queue begins in a partition is stored with its first record.
        begun = {number for number in range(PARTITIONS) if any(self._read(TOPIC, number))}
        try:
            with Client(self._world.bootstrap) as client:
                queues = Admin(client).queues

                def read_lags() -> dict[int, int | None]:
                    self._members.look()
                    return {key.partition: one.lag for key, one in queues.offsets(GROUP, [TOPIC]).items()}

                wait_until(
                    "the queue is empty",
                    read_lags,
                    lambda lags: lags.keys() >= begun and all(lag == 0 for lag in lags.values()),
                    seconds_max=DRAIN_SECONDS_MAX,
                    pause_seconds=LOOK_SECONDS,
                    not_yet=OdradekError,
                )
        except AssertionError as failure:
            self._breaches.append(Breach("queue is not drained", str(failure)))

    # --- what is left --------------------------------------------------------------------------------------------

    def _gather(self) -> Evidence:
        return Evidence(
            written={
                number: {one.offset: read_name(one.value) for one in self._read(TOPIC, number)}
                for number in range(PARTITIONS)
            },
            acknowledged=read_acknowledged(self._acknowledged),
            members=self._members.read_logs(),
            letters=[
                _parse_letter(one)
                for number in range(LETTERS_PARTITIONS)
                for one in self._read(LETTERS, number)
            ],
            stops=self._members.stops,
            delivery_count_max=DELIVERIES_MAX,
            lock_seconds=LOCK_SECONDS,
        )

    def _read(self, topic: str, partition: int) -> Iterator[Record]:
        """All records of a partition, as its leader has them on its disk."""
        leader = wait_until("a partition has a leader", lambda: self._world.leader_of(topic, partition))
        assert leader is not None
        for batch in batches_of(self._world.data(leader) / f"{topic}-{partition}"):
            if not batch.header.is_control:
                yield from records_of(batch)


def _parse_letter(record: Record) -> Letter:
    headers = dict(record.headers)
    assert (headers[TOPIC_HEADER], headers[GROUP_HEADER]) == (TOPIC.encode(), GROUP.encode()), headers
    return Letter(
        int(headers[PARTITION_HEADER] or b"-1"),
        int(headers[OFFSET_HEADER] or b"-1"),
        int(headers[DELIVERY_COUNT_HEADER] or b"-1"),
        headers[MESSAGE_HEADER] == REJECTED,
        read_name(record.value),
    )
