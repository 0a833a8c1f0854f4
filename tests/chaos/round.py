"""One round: clients begin, faults begin and end as planned, all is healed, and every answer is checked.

A round has a topic and groups of its own, so that its history is whole; the cluster may have been through rounds
before.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.foundation.errors import CorruptRecord
from tests.chaos.anomalies import Anomaly, account
from tests.chaos.checker import check
from tests.chaos.deletions import Deletions
from tests.chaos.epoch_ends import answered_epoch_ends
from tests.chaos.faults import Faults
from tests.chaos.final_logs import (
    OFFSETS_TOPIC,
    FinalPartition,
    FinalState,
    StoredLog,
    TopicPartitionKey,
    end_of,
    read_any_log,
    read_commits,
    read_keyed,
    read_log,
)
from tests.chaos.groups import CLASSIC, COOPERATIVE, MODERN, Groups
from tests.chaos.history import (
    Acknowledged,
    EpochEndAnswered,
    FaultReported,
    HistoryFile,
    Probed,
    Sent,
    now,
    read_events,
)
from tests.chaos.keyed_clients import topic_of
from tests.chaos.librdkafka_clients import COMMON
from tests.chaos.moves import Moves
from tests.chaos.observer import Observer
from tests.chaos.probes import Probes
from tests.chaos.schedule import plan
from tests.chaos.warden import Warden
from tests.chaos.workers import Worker
from tests.chaos.world import BROKERS, ChaosCluster, broker
from tests.support.group_commits import LoggedCommits
from tests.support.polling import SECONDS_MAX

PARTITIONS: Final = 4
OFFSETS_PARTITIONS: Final = 3
# Long enough to outlast a round: a producer that gives up may write a record twice. In every third round they do give
# up soon, and what follows from that is tried, too.
PATIENT_DELIVERY_MS: Final = 180_000
DELIVERY_MS: Final = 15_000
TICK_SECONDS: Final = 0.05
FINISH_SECONDS_MAX: Final = 120.0
WRITERS: Final = (
    "tests.chaos.own_clients",
    "tests.chaos.librdkafka_clients",
    "tests.chaos.transactional_clients",
    "tests.chaos.keyed_clients",
)
READERS: Final = "tests.chaos.readers"
ATTACKERS: Final = "tests.chaos.attackers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A round's result. `report` is the readable account of `anomalies`."""

    seed: int
    anomalies: list[Anomaly]
    report: str
    faults: int
    sent: int
    acknowledged: int
    seconds: float
    phases: str
    attacks: int


class Round:
    """Make it, `play` it; `close` at the end, also of one that failed."""

    def __init__(
        self,
        world: ChaosCluster,
        folder: Path,
        *,
        seed: int,
        seconds: float,
        per_second: float,
        has_attackers: bool = False,
    ) -> None:
        self._world = world
        self._folder = folder
        self._seed = seed
        self._seconds = seconds
        self._has_attackers = has_attackers
        folder.mkdir(parents=True)
        self._path = folder / "history.jsonl"
        self._history = HistoryFile(self._path)
        self._topic = f"records-{seed}-{folder.name}"
        options = {
            "bootstrap": world.bootstrap,
            "topic": self._topic,
            "partitions": PARTITIONS,
            "history": str(self._path),
            "seed": seed,
            "per_second": per_second,
            "delivery_ms": DELIVERY_MS if seed % 3 == 0 else PATIENT_DELIVERY_MS,
            "admin_prefix": f"admin-{seed}-{folder.name}",
            "obsolete": [],
            "addresses": world.addresses,
            "attacked": f"attacked-{seed}-{folder.name}",
        }
        self._options = options
        self._workers: dict[str, Worker] = {}
        self._is_over = threading.Event()
        self._watch = threading.Thread(target=self._watch_processes, name="watch", daemon=True)
        self._groups = Groups(
            {
                f"classic-{seed}-{folder.name}": [COOPERATIVE if seed % 2 else CLASSIC] * 2,
                f"modern-{seed}-{folder.name}": [MODERN, MODERN],
            },
            bootstrap=world.bootstrap,
            topic=self._topic,
            history=self._history,
        )
        self._observer = Observer(world, self._history, topic=self._topic, partitions=PARTITIONS)
        self._deletions = Deletions(
            world.bootstrap, topic=f"deleted-{seed}-{folder.name}", seed=seed, folder_of=world.data
        )
        self._moves = Moves(
            world.bootstrap,
            topics=[
                (self._topic, PARTITIONS),
                (OFFSETS_TOPIC, OFFSETS_PARTITIONS),
                (topic_of(options), 1),
                (self._deletions.topic, 1),
            ],
        )
        self._faults = Faults(
            world,
            self._groups,
            self._moves,
            self._deletions,
            self._history,
            topic=self._topic,
            partitions=PARTITIONS,
        )
        self._warden = (
            Warden(world.bootstrap, self._history, topic=f"forbidden-{seed}-{folder.name}", seed=seed)
            if world.is_guarded
            else None
        )
        self._probes = Probes(world.bootstrap, self._history, topic=self._topic, partitions=PARTITIONS)

    def play(self) -> Outcome:
        """Raises AssertionError where a part of the test itself failed."""
        times = [time.monotonic()]
        self._clear_away()
        self._make_topic()
        self._begin_clients()
        times.append(time.monotonic())
        self._hurt()
        attacks = self._finish_attackers()
        self._faults.heal()
        if self._warden is not None:
            self._warden.stop()
        times.append(time.monotonic())
        self._groups.fill_up()
        self._moves.stop()
        self._deletions.stop()
        self._probes.probe("every partition has three replicas again", self._moves.restore)
        self._probes.run()
        self._probes.probe("replicas that start inside batches are in sync", self._deletions.missing)
        times.append(time.monotonic())
        self._finish_clients()
        final = self._final_state()
        self._end_watch()
        times.append(time.monotonic())
        events = [*read_events(self._path), *self._answered_epoch_ends()]
        anomalies = check(events, final, topic=self._topic)
        times.append(time.monotonic())
        names = ("begin", "faults", "probes", "finish", "check")
        spent = [
            f"{name} {after - before:.1f}"
            for name, before, after in zip(names, times, times[1:], strict=False)
        ]
        return Outcome(
            seed=self._seed,
            anomalies=anomalies,
            report=account(anomalies, events) if anomalies else "",
            faults=sum(isinstance(event, FaultReported) and not event.has_ended for event in events),
            sent=sum(isinstance(event, Sent) for event in events),
            acknowledged=sum(isinstance(event, Acknowledged) for event in events),
            seconds=times[-1] - times[0],
            phases=", ".join(spent),
            attacks=attacks,
        )

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()
        self._groups.close()
        self._moves.stop()
        self._deletions.stop()
        self._observer.stop()
        self._end_watch()
        if self._warden is not None:
            self._warden.stop()
        self._history.close()

    def _end_watch(self) -> None:
        self._is_over.set()
        if self._watch.ident is not None:
            self._watch.join(SECONDS_MAX)

    # --- its parts -----------------------------------------------------------------------------------------------

    def _clear_away(self) -> None:
        """Topics of the round before are deleted during this one's faults; older ones that are left are deleted now."""
        topics: set[str] = set()
        self._probes.probe("all topics are in the metadata", lambda: _read_topics(self._probes, topics))
        topics.discard(OFFSETS_TOPIC)
        newest = max((_round_of(topic) for topic in topics), default=-1)
        self._options["obsolete"] = sorted(topic for topic in topics if _round_of(topic) == newest)
        older = sorted(topic for topic in topics if _round_of(topic) != newest)
        if older:
            admin = AdminClient({**COMMON, "bootstrap.servers": self._world.bootstrap})
            for deletion in admin.delete_topics(older, request_timeout=20).values():
                with contextlib.suppress(KafkaException):  # the next round tries again
                    deletion.result(SECONDS_MAX)

    def _make_topic(self) -> None:
        admin = AdminClient({**COMMON, "bootstrap.servers": self._world.bootstrap})
        asked = NewTopic(self._topic, num_partitions=PARTITIONS, replication_factor=3)
        deadline = time.monotonic() + 90
        while True:
            try:
                admin.create_topics([asked], request_timeout=20)[self._topic].result(SECONDS_MAX)
            except KafkaException as failure:
                if "exists" in str(failure):
                    return
                assert time.monotonic() < deadline, f"{self._topic} could not be made: {failure}"
                time.sleep(0.2)
            else:
                return

    def _begin_clients(self) -> None:
        if self._warden is not None:
            self._warden.start()
        for module in (*WRITERS, READERS, *((ATTACKERS,) if self._has_attackers else ())):
            self._workers[module] = Worker(module, self._options, log=self._log_of(module))
        self._groups.start()
        self._moves.start()
        self._deletions.start()
        self._observer.start()
        self._watch.start()
        for worker in self._workers.values():
            worker.await_ready()

    def _hurt(self) -> None:
        planned = plan(self._seed, self._seconds)
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < self._seconds:
            self._faults.tick()
            while planned and planned[0].at_seconds <= elapsed:
                self._faults.begin(planned.pop(0))
            self._check_clients()
            time.sleep(TICK_SECONDS)

    def _log_of(self, module: str) -> Path:
        return self._folder / f"{module.rpartition('.')[2]}.log"

    def _finish_attackers(self) -> int:
        """How many attacks there were."""
        if not self._has_attackers:
            return 0
        self._finish(ATTACKERS)
        return len(self._log_of(ATTACKERS).read_text().splitlines())

    def _watch_processes(self) -> None:
        """All through the round: a process that gives up after the faults is started again, too."""
        while not self._is_over.wait(TICK_SECONDS):
            for event in self._world.look():
                self._history.add(event)

    def _check_clients(self) -> None:
        for worker in self._workers.values():
            worker.check_alive()
        self._groups.raise_failure()

    def _finish_clients(self) -> None:
        for module in WRITERS:
            self._finish(module)
        ends: dict[int, int] = {}
        if self._probes.probe("all partitions answer their ends", lambda: _read_ends(self._probes, ends)):
            begun_at = now()
            missing = self._groups.at_rest(ends, seconds_max=FINISH_SECONDS_MAX)
            what = "every group takes and commits everything"
            self._history.add(Probed(at=now(), begun_at=begun_at, what=what, error=missing))
        self._finish(READERS)
        begun_at = now()
        error = self._groups.stop()
        self._history.add(
            Probed(at=now(), begun_at=begun_at, what="every member leaves its group", error=error)
        )
        self._observer.stop()

    def _finish(self, module: str) -> None:
        begun_at = now()
        worker = self._workers.pop(module)
        try:
            is_done = worker.finish(seconds_max=FINISH_SECONDS_MAX)
        finally:
            worker.close()
        what = f"{module} comes to its end"
        error = "" if is_done else f"it still waits after {FINISH_SECONDS_MAX:g} s"
        self._history.add(Probed(at=now(), begun_at=begun_at, what=what, error=error))

    # --- what is left --------------------------------------------------------------------------------------------

    def _final_state(self) -> FinalState:
        ends: dict[int, int] = {}
        self._probes.probe("all partitions answer their ends", lambda: _read_ends(self._probes, ends))
        topics: set[str] = set()
        self._probes.probe("all topics are in the metadata", lambda: _read_topics(self._probes, topics))
        self._probes.probe("the logs of all replicas end alike", self._end_alike)
        self._observer.look()
        partitions: dict[TopicPartitionKey, FinalPartition] = {}
        for number in range(PARTITIONS):
            state = self._observer.states[number]
            partitions[self._topic, number] = FinalPartition(
                leader=int(state["leader"]),
                epoch=int(state["leader_epoch"]),
                in_sync=[int(one) for one in state["isr"]],
                replicas=self._observer.replicas[number],
                high_watermark=ends.get(number, 0),
                logs=self._logs(number),
            )
        return FinalState(
            partitions=partitions,
            compared=self._offsets_topic(),
            keyed={number: read_keyed(folder) for number, folder in self._keyed_folders().items()},
            topics=frozenset(topics),
            commits=self._commits(),
        )

    def _answered_epoch_ends(self) -> Iterator[EpochEndAnswered]:
        for number in BROKERS:
            process = self._world.processes[broker(number)]
            yield from answered_epoch_ends(process.name, process.log, topic=self._topic)

    def _keyed_folders(self) -> dict[int, Path]:
        return {number: self._world.data(number) / f"{topic_of(self._options)}-0" for number in BROKERS}

    def _logs(self, partition: int) -> dict[int, StoredLog]:
        folders = {number: self._world.data(number) / f"{self._topic}-{partition}" for number in BROKERS}
        return {number: read_log(folder) for number, folder in folders.items() if folder.exists()}

    def _offsets_topic(self) -> dict[TopicPartitionKey, FinalPartition]:
        """The replicas of the offsets topic as far as all of them go: what is written to it never stops."""
        found: dict[TopicPartitionKey, FinalPartition] = {}
        for number in range(OFFSETS_PARTITIONS):
            folders = {broker: self._world.data(broker) / f"{OFFSETS_TOPIC}-{number}" for broker in BROKERS}
            logs = {broker: read_any_log(folder) for broker, folder in folders.items() if folder.exists()}
            leader = self._world.leader_of(OFFSETS_TOPIC, number)
            if leader is not None and leader in logs:
                found[OFFSETS_TOPIC, number] = FinalPartition(
                    leader=leader,
                    epoch=0,
                    in_sync=BROKERS,
                    replicas=BROKERS,
                    high_watermark=min(log.end for log in logs.values()),
                    logs=logs,
                )
        return found

    def _end_alike(self) -> str:
        for partition in range(PARTITIONS):
            ends = {number: log.end for number, log in self._logs(partition).items()}
            if len(ends) != len(BROKERS) or len(set(ends.values())) != 1:
                return f"partition {partition} ends at {ends} by broker"
        try:
            ends = {number: end_of(folder) for number, folder in self._keyed_folders().items()}
        except (FileNotFoundError, CorruptRecord) as failure:
            return f"the compacted topic cannot be read: {failure}"
        if len(set(ends.values())) != 1:
            return f"the compacted topic ends at {ends} by broker"
        return ""

    def _commits(self) -> dict[str, dict[TopicPartitionKey, LoggedCommits]]:
        """Those in the offsets topic, by group, topic and partition."""
        found: dict[str, dict[TopicPartitionKey, LoggedCommits]] = {}
        for partition in range(OFFSETS_PARTITIONS):
            leader = self._world.leader_of(OFFSETS_TOPIC, partition)
            if leader is None:
                continue
            found.update(read_commits(self._world.data(leader) / f"{OFFSETS_TOPIC}-{partition}"))
        return found


def _round_of(topic: str) -> int:
    """The number at the end of "records-7-round-3" and of "admin-7-round-3-11"; -1 of a probe's topic."""
    number = topic.partition("-round-")[2].partition("-")[0]
    return int(number) if number.isdecimal() else -1


def _read_ends(probes: Probes, ends: dict[int, int]) -> str:
    ends.update(probes.high_watermarks())
    return ""


def _read_topics(probes: Probes, topics: set[str]) -> str:
    topics.clear()
    topics.update(probes.topics())
    return ""


def summary(outcome: Outcome) -> str:
    """One line of how a round went."""
    attacks = f"{outcome.attacks} attacks, " if outcome.attacks else ""
    return (
        f"seed {outcome.seed}: {outcome.faults} faults, {attacks}"
        f"{outcome.acknowledged} of {outcome.sent} records acknowledged, "
        f"{outcome.seconds:.0f} s ({outcome.phases}), {len(outcome.anomalies)} anomalies"
    )
