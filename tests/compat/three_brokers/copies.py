"""Kafka's TransactionalMessageCopier under faults: two copiers of one group copy a topic on three brokers.

At the same time brokers are stopped and killed, one after the other, and so are the copiers. Each is started again. A
third of the transactions is aborted by the copiers themselves, at random and without a seed. In the end the output must
be the input: each record once, in order by partition, and no transaction may be open.

python -m tests.compat.three_brokers.copies                     five runs of each version: 100,000 records, 750 each
python -m tests.compat.three_brokers.copies --runs 1 --versions 3.9.1 --seed 7
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.compat.three_brokers.bounces import PATIENCE_SECONDS, REPLICAS, SETTINGS, running_cluster
from tests.support.cluster_processes import Cluster
from tests.support.copiers import Copier, CopyVerdict, compared, read_to_the_end
from tests.support.java import KAFKA_OLD_VERSION, KAFKA_VERSION
from tests.support.peers import topic_creator

PARTITIONS: Final = 4
COPIERS: Final = 2
STALLED_SECONDS_MAX: Final = 180.0
PAUSE_SECONDS_MAX: Final = 0.6
NOTES_MAX: Final = 100
# Longer than a producer waits for an answer (30 s): a broker that is away must not end the transaction.
TRANSACTION_TIMEOUT_MS: Final = 40_000
COPIES_SETTINGS: Final = {**SETTINGS, "transaction.state.log.num.partitions": "6"}
FAULTS: Final = (
    *("broker stopped", "broker killed", "copier stopped", "copier killed"),
    *("broker stopped, copier killed", "broker killed, copier killed"),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is copied and by which version of Kafka's tools; `seed` chooses the faults."""

    records: int
    transaction_size: int
    version: str
    seed: int
    faults: Sequence[str] | None = None
    """These, one after the other. None: the seed's choice, until all is copied."""


@dataclass(frozen=True, slots=True)
class CopyRun:
    """One run: the verdict, and what happened on the way."""

    verdict: CopyVerdict
    seconds: float
    faults: Mapping[str, int]
    failures: Sequence[str]
    """Ends of copiers that nobody asked for."""

    @property
    def is_clean(self) -> bool:
        return self.verdict.is_clean and not self.failures

    def __str__(self) -> str:
        one = self.verdict
        faults = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items()))
        return (
            f"{one.copied} copied in {self.seconds:.0f} s, {one.aborted} more aborted; {one.missing} missing, "
            f"{one.doubled} doubled, {one.foreign} foreign, disordered {list(one.disordered)}, open "
            f"{list(one.unstable)}; copiers failed {len(self.failures)} times; {faults}"
        )


class _Copying:
    """The copiers of one run, and how far they are."""

    def __init__(self, cluster: Cluster, folder: Path, plan: Plan) -> None:
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
        create = topic_creator(cluster.bootstrap)
        self.source = create(PARTITIONS, replicas=REPLICAS, min_insync_replicas=2)
        self.target = create(PARTITIONS, replicas=REPLICAS, min_insync_replicas=2)
        self.notes: deque[str] = deque(maxlen=NOTES_MAX)
        self.group = f"of-{self.source}"
        # A consumer that never joins: librdkafka's call for administrators crashed the process when a broker was away.
        self._asker = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": self.group})
        self._bootstrap = cluster.bootstrap
        self._records = plan.records
        self.values: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        # Without the second half the copying cannot end before its faults.
        self.write_up_to(plan.records // 2)
        arguments = [
            *("--consumer-group", self.group, "--input-topic", self.source, "--output-topic", self.target),
            *("--transaction-size", str(plan.transaction_size), "--input-partition", "-1"),
            *("--transaction-timeout", str(TRANSACTION_TIMEOUT_MS)),
            *("--enable-random-aborts", "--group-mode", "--use-group-metadata"),
        ]
        self.copiers = [
            Copier(folder, cluster.bootstrap, f"{self.group}-{number}", arguments, version=plan.version)
            for number in range(COPIERS)
        ]

    def committed(self) -> int | None:
        """Records that the group has committed; None while the brokers do not say, as with a commit under way."""
        parts = [TopicPartition(self.source, number) for number in range(PARTITIONS)]
        try:
            found = self._asker.committed(parts, 10)
        except KafkaException as error:
            self.note(str(error))
            return None
        self.note(str([part.offset for part in found]))
        return sum(max(part.offset, 0) for part in found)

    def note(self, what: str) -> None:
        """Remember what happened, for the case that the copying stands still."""
        self.notes.append(f"{time.strftime('%H:%M:%S')} {what}")

    def write_up_to(self, count: int) -> None:
        """Write the input as far as `count` records, beyond those that are there."""
        _write(self._bootstrap, self.source, self.values, count)

    def write_all(self) -> None:
        """Write what is left of the input."""
        self.write_up_to(self._records)

    def close(self) -> None:
        """End the client that asks what is committed."""
        self._asker.close()

    def start_all(self) -> None:
        """Start the copiers that have ended: by a failure, or because another one had all partitions."""
        for copier in self.copiers:
            copier.note_end()
            if not copier.is_running:
                copier.start()

    def await_in_sync(self) -> None:
        """Until every partition of every topic has a leader and all replicas in sync."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            topics = self.admin.list_topics(timeout=30).topics.values()
            parts = [part for topic in topics for part in topic.partitions.values()]
            if all(part.leader > 0 and len(part.isrs) == len(part.replicas) for part in parts):
                return
            assert time.monotonic() < deadline, "the replicas do not come in sync"
            time.sleep(0.05)


def copied(cluster: Cluster, folder: Path, plan: Plan) -> CopyRun:
    """Copy under the faults of `plan`, and compare. Fails when the copying stands still."""
    chance = random.Random(plan.seed)
    copying = _Copying(cluster, folder, plan)
    faults: Counter[str] = Counter()
    began = time.monotonic()
    with ExitStack() as at_end:
        at_end.callback(copying.close)
        for copier in copying.copiers:
            at_end.callback(copier.kill)
            copier.start()
        wanted = iter(plan.faults) if plan.faults is not None else None
        moved_at, was = began, 0
        while (now := copying.committed()) != plan.records:
            if now is not None and now > was:
                moved_at, was = time.monotonic(), now
            assert time.monotonic() - moved_at < STALLED_SECONDS_MAX, _stalled(copying)
            copying.start_all()
            time.sleep(chance.uniform(0.1, PAUSE_SECONDS_MAX))
            if not now:
                continue
            kind = chance.choice(FAULTS) if wanted is None else next(wanted, None)
            if kind is not None:
                copying.note(kind)
                _fault(cluster, copying, kind, chance)
                faults[kind] += 1
            if wanted is None or kind is None:
                copying.write_all()
        seconds = time.monotonic() - began
        for copier in copying.copiers:
            copier.stop()
    copying.await_in_sync()
    committed, everything = (
        read_to_the_end(cluster.bootstrap, copying.target, PARTITIONS, isolation=level)
        for level in ("read_committed", "read_uncommitted")
    )
    failures = [failure for copier in copying.copiers for failure in copier.failures]
    return CopyRun(compared(copying.values, committed, everything), seconds, faults, failures)


def _write(bootstrap: str, topic: str, values: dict[int, list[bytes]], count: int) -> None:
    """Write the records up to `count`; `values` has what each partition has, in its order."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20})
    for number in range(sum(map(len, values.values())), count):
        value = b"%d" % number
        producer.produce(topic, value, partition=number % PARTITIONS)
        values[number % PARTITIONS].append(value)
        if number % 5000 == 0:
            producer.poll(0.1)
    assert producer.flush(PATIENCE_SECONDS) == 0, "the input could not be written"


def _fault(cluster: Cluster, copying: _Copying, kind: str, chance: random.Random) -> None:
    """Brokers and copiers of `kind` end, and are started again: at once, or some seconds later."""
    broker = cluster.brokers[chance.choice(sorted(cluster.brokers))]
    copier = chance.choice(copying.copiers)
    pause_seconds = chance.choice((0.0, chance.uniform(1.0, 6.0)))
    if "broker" in kind:
        copying.await_in_sync()
        _ = broker.kill() if "broker killed" in kind else broker.stop()
    if "copier" in kind:
        copier.kill() if "copier killed" in kind else copier.stop()
        if "broker" in kind:
            copier.start()
    time.sleep(pause_seconds)
    if "broker" in kind:
        broker.start()
    else:
        copier.start()


def _stalled(copying: _Copying) -> str:
    said = [f"{copier.name}: {copier.events()[-2:]}" for copier in copying.copiers]
    return "\n".join([f"nothing is committed for {STALLED_SECONDS_MAX:.0f} s", *copying.notes, *said])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5, help="of each version (default: 5)")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--transaction-size", type=int, default=750)
    parser.add_argument("--seed", type=int, default=1, help="of the first run of each version (default: 1)")
    parser.add_argument("--versions", nargs="+", default=[KAFKA_VERSION, KAFKA_OLD_VERSION])
    parser.add_argument("--folder", type=Path, help="where logs and data stay; by default they are removed")
    arguments = parser.parse_args()
    is_clean = True
    with ExitStack() as stack:
        folder = arguments.folder or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="odradek-copies-"))
        )
        for number in range(arguments.runs):
            for version in arguments.versions:
                plan = Plan(
                    records=arguments.records,
                    transaction_size=arguments.transaction_size,
                    version=version,
                    seed=arguments.seed + number,
                )
                is_clean &= _run(folder / f"{version}-{plan.seed}", plan)
    return 0 if is_clean else 1


def _run(folder: Path, plan: Plan) -> bool:
    """One run on a cluster of its own; whether it was clean."""
    with running_cluster(folder, COPIES_SETTINGS) as cluster:
        run = copied(cluster, folder / "copiers", plan)
    print(f"{time.strftime('%H:%M:%S')} Kafka {plan.version}, seed {plan.seed}: {run}", flush=True)
    for failure in run.failures:
        print(failure, flush=True)
    return run.is_clean


if __name__ == "__main__":
    sys.exit(main())
