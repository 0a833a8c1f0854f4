"""Clients of a compacted topic in a simulation: producers that overwrite and delete keys, and readers of all of it.

Segments are small, the cleaners pause for fractions of a second, and tombstones may go soon. A witness looks at each
round before it begins, so the checks know all that was ever written. At the end every replica is compared with it (I1,
I4, I8, I10), and so is each reading. Left out: DeleteRecords, and changes of the policy.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from odradek.broker.replication.partition import Partition
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.consumer.fetches import FetchBounds
from odradek.client.errors import RETRIABLE_OR_LATE
from odradek.client.producer.batches import Delivery
from odradek.client.producer.producer import Producer
from odradek.client.producer.transactions import Phase
from odradek.foundation.errors import CorruptRecord, OdradekError, OffsetOutOfRange, TopicAlreadyExists
from odradek.foundation.ids import TopicPartition
from odradek.storage.compaction.candidates import cleanable, first_dirty_offset
from odradek.storage.log import Log
from odradek.wire.records.record import records
from tests.histories.compaction import Kept, check_compacted
from tests.histories.compaction_reads import Scan, check_answers, check_scans
from tests.histories.transactions import Breach, Outcome
from tests.simulation.cluster import BROKERS, COMPACTED_TOPIC, SimulatedCluster
from tests.simulation.compaction_witness import ID, WatchedWork, Witness, name_of, verify_all
from tests.simulation.tasks import end_all, raise_failure_of
from tests.simulation.workload import DELIVERY_TIMEOUT_MS, Workload
from tests.support.logs import stored_batches, visible_offsets
from tests.support.whole_cluster import ClusterBroker

# Half of the writes go to a few keys, the others to keys that are soon left as they are: with a value, or deleted.
KEYS: Final = tuple(b"key-%d" % number for number in range(4))
KEYS_AT_ONCE: Final = 3
KEY_SECONDS: Final = 3.0
TOMBSTONE_CHANCE: Final = 0.3
TRANSACTION_TIMEOUT_MS: Final = 1_500
# How long writers continue once nothing fails: replicas that are back are compacted, and deletions are forgotten.
WRITES_ON_SECONDS: Final = (1.0, 5.0)
# Until when every cleaner has done what is due, once nothing fails any more.
CLEAN_SECONDS_MAX: Final = 60.0
SETTINGS: Final = {
    "log.cleaner.backoff.ms": "700",
    "log.segment.delete.delay.ms": "1000",
    "log.retention.check.interval.ms": "1000",
}
_LEFTOVERS: Final = (".cleaned", ".swap")


class Compactors:
    """Two producers, one of them transactional, and a reader. An `Actor`."""

    def __init__(self, workload: Workload, rng: random.Random) -> None:
        self._workload = workload
        self._cluster: SimulatedCluster = workload.cluster
        self._require = workload.history.require
        self._rng = rng
        self._name = TopicPartition(COMPACTED_TOPIC, 0)
        self._retention_ms = rng.choice([300, 1_000, 3_000])
        self._is_deleting = rng.random() < 0.25
        self._witness = Witness(COMPACTED_TOPIC)
        self._tasks: list[asyncio.Task[None]] = []
        self._reader: asyncio.Task[None] | None = None
        self._answered: dict[str, int] = {}
        self._newest: dict[bytes, int] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._scans: list[Scan] = []
        self._lives = 0
        self._is_over = False
        self._cluster.entries |= {
            **SETTINGS,
            # Room for a few keys or for all; the latter often enough.
            "log.cleaner.dedupe.buffer.size": rng.choice(["100", "1000000", "1000000"]),
        }
        self._cluster.has_one_clock = True
        self._cluster.on_broker_made = self._watch

    def _watch(self, broker_id: int, broker: ClusterBroker) -> None:
        disk = self._cluster.disks[broker_id]
        broker._new_cleaning_work = lambda: WatchedWork(disk, broker_id, self._witness)  # type: ignore[method-assign]

    def start(self) -> None:
        self._tasks.append(asyncio.create_task(self._begin()))

    def raise_failure(self) -> None:
        raise_failure_of([*self._tasks, *([self._reader] if self._reader else [])])
        for conflict in self._witness.conflicts:
            self._require(False, "I10", f"changed record: {conflict}")

    async def stop(self) -> None:
        await end_all([*self._tasks, *([self._reader] if self._reader else [])])

    # --- life ----------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        rng = self._rng
        configs: dict[str, str | float | None] = {
            "cleanup.policy": "compact,delete" if self._is_deleting else "compact",
            "internal.segment.bytes": rng.choice([300, 600, 1_200]),
            "delete.retention.ms": self._retention_ms,
            "min.cleanable.dirty.ratio": rng.choice([0.01, 0.3, 0.5]),
            "min.compaction.lag.ms": rng.choice([0, 0, 500]),
            "index.interval.bytes": rng.choice([1, 4096]),
        }
        if rng.random() < 0.5:
            configs["max.compaction.lag.ms"] = 2_000
        if self._is_deleting:
            configs["retention.ms"] = 8_000
        client = self._workload.client("compaction", random.Random(rng.getrandbits(64)))
        try:
            while True:
                try:
                    await TopicAdmin(client).create(
                        COMPACTED_TOPIC, partitions=1, replication_factor=3, configs=configs
                    )
                    break
                except TopicAlreadyExists:
                    break
                except OdradekError:
                    await asyncio.sleep(0.5)
        finally:
            await client.close()
        self._workload.history.add("compaction", f"begins: {configs}")
        for live in (self._write, self._transact):
            self._tasks.append(asyncio.create_task(self._lives_of(live, random.Random(rng.getrandbits(64)))))
        self._reader = asyncio.create_task(self._read(random.Random(rng.getrandbits(64))))

    async def _lives_of(
        self, live: Callable[[Producer, str, random.Random], Awaitable[None]], rng: random.Random
    ) -> None:
        """One producer after another: each ends by chance, or where it cannot continue."""
        while not self._is_over:
            self._lives += 1
            name = f"{live.__name__.strip('_')}.{self._lives}"
            is_transactional = live == self._transact
            client = self._workload.client(name, rng)
            producer = Producer(
                client,
                compression=rng.choice(["none", "none", "gzip"]),
                transactional_id=f"{COMPACTED_TOPIC}-transactions" if is_transactional else None,
                transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
                delivery_timeout_ms=DELIVERY_TIMEOUT_MS // 2,
                linger_ms=rng.choice([0, 50]),
            )
            try:
                while not self._is_over and not await self._try(name, producer.start):
                    await asyncio.sleep(0.5)
                if not self._is_over:
                    await live(producer, name, rng)
            finally:
                await producer.close(is_flushing=False)
                await client.close()

    async def _write(self, producer: Producer, name: str, rng: random.Random) -> None:
        deliveries = []
        number = 0
        while not self._is_over and rng.random() > 0.01:
            delivery = await self._send(producer, f"{name}-{number}", rng)
            number += 1
            if delivery is None:
                break
            deliveries.append(asyncio.create_task(self._deliver(*delivery)))
            await asyncio.sleep(rng.choice([0.0, 0.05, 0.4]))
        await asyncio.gather(*deliveries)

    async def _transact(self, producer: Producer, name: str, rng: random.Random) -> None:
        transactions = producer._transactional()
        number = 0
        while producer.is_usable and not self._is_over and rng.random() > 0.03:
            if not await self._try(name, producer.begin_transaction):
                return
            sent = []
            for _ in range(rng.randint(1, 4)):
                delivery = await self._send(producer, f"{name}-{number}", rng)
                number += 1
                if delivery is not None:
                    sent.append(delivery)
                    self._outcomes[delivery[0]] = Outcome.ABORTED  # until a commit is asked for
            await asyncio.sleep(rng.choice([0.0, 0.1, 0.1, 2.0]))
            if rng.random() < 0.6 and transactions.phase is Phase.OPEN:
                self._outcomes |= dict.fromkeys((one[0] for one in sent), Outcome.UNKNOWN)
                if not await self._try(name, producer.commit_transaction):
                    return  # how it ended is not known: another life begins by ending it
                self._outcomes |= dict.fromkeys((one[0] for one in sent), Outcome.COMMITTED)
                for one in sent:
                    await self._deliver(*one)
            elif not await self._try(name, producer.abort_transaction):
                return

    async def _send(
        self, producer: Producer, name: str, rng: random.Random
    ) -> tuple[str, bytes, Delivery] | None:
        key = _key(rng)
        value = None if rng.random() < TOMBSTONE_CHANCE else name.encode()
        self._workload.history.add(name, f"writes {value!r} as {key!r}")
        try:
            delivery = await producer.send(
                COMPACTED_TOPIC,
                value,
                key=key,
                headers=[(ID, name.encode())],
                partition=0,
                timestamp_ms=self._cluster.wall_ms(),
            )
        except OdradekError as failure:
            self._workload.history.add(name, f"could not be sent: {failure}")
            return None
        return name, key, delivery

    async def _deliver(self, name: str, key: bytes, delivery: Delivery) -> None:
        try:
            offset = (await delivery).offset
        except OdradekError as failure:
            self._workload.history.add(name, f"failed: {type(failure).__name__}")
            return
        self._workload.history.add(name, f"acknowledged at {offset}")
        self._answered[name] = offset
        self._newest[key] = max(offset, self._newest.get(key, -1))

    async def _try(self, name: str, call: Callable[[], Awaitable[object]]) -> bool:
        for _ in range(3):
            try:
                await call()
            except RETRIABLE_OR_LATE as failure:
                self._workload.history.add(name, f"not answered: {failure}")
            except OdradekError as failure:
                self._workload.history.add(name, f"failed: {type(failure).__name__}: {failure}")
                return False
            else:
                return True
        return False

    # --- reading -------------------------------------------------------------------------------------------------

    async def _read(self, rng: random.Random) -> None:
        """Read all from the start, again and again, each time as another reader."""
        client = self._workload.client("compacted", rng)
        try:
            while True:
                await asyncio.sleep(rng.uniform(0.5, 3.0))
                scan = Scan(f"reader {len(self._scans)}", dict(self._newest))
                try:
                    await self._scan(client, scan)
                except OffsetOutOfRange as failure:
                    self._require(self._is_deleting, "I10", f"the start of the log is gone: {failure}")
                except OdradekError as failure:
                    self._workload.history.add(scan.name, f"failed: {failure}")
        finally:
            await client.close()

    async def _scan(self, client: Any, scan: Scan) -> None:
        loop = asyncio.get_running_loop()
        began, leader = loop.time(), self._leader()
        name = self._name
        start = (await LogAdmin(client).offsets_at([name], EARLIEST))[name]
        end = (await LogAdmin(client).offsets_at([name], LATEST, read_committed=True))[name]
        async with PartitionConsumer(
            client, bounds=FetchBounds(wait_ms_max=100), is_read_committed=True
        ) as consumer:
            consumer.assign({name: start})
            while consumer.position(name) < end:
                for one in await consumer.poll(timeout_ms=1_000):
                    scan.found.append((one.offset, one.key or b"", one.value))
            scan.end = consumer.position(name)
        took_ms = (loop.time() - began) * 1000
        scan.is_steady = took_ms < self._retention_ms and leader == self._leader() and leader is not None
        self._workload.history.add(scan.name, f"read {len(scan.found)} records from {start} to {scan.end}")
        self._scans.append(scan)

    def _leader(self) -> tuple[int, int] | None:
        """The broker that leads, and its epoch; None while several say that they do."""
        led = [(broker_id, one.leader_epoch) for broker_id, one in self._replicas() if one.is_leader]
        return led[0] if len(led) == 1 else None

    def _replicas(self) -> Iterator[tuple[int, Partition]]:
        for broker_id, broker in self._cluster.brokers.items():
            try:
                yield broker_id, broker.partitions.get(COMPACTED_TOPIC, 0)
            except OdradekError:
                continue  # it does not know of it, or its disk fails

    # --- when nothing fails any more -----------------------------------------------------------------------------

    async def settle(self) -> None:
        """Write on for a while, then wait until the cleaners have nothing to do."""
        await asyncio.sleep(self._rng.uniform(*WRITES_ON_SECONDS))
        self._is_over = True
        await asyncio.gather(*self._tasks)
        began = asyncio.get_running_loop().time()
        while (waiting := list(self._unsettled())) != []:
            waited = asyncio.get_running_loop().time() - began
            self._require(waited < CLEAN_SECONDS_MAX, "I12", f"after {waited:.0f} s {'; '.join(waiting)}")
            await asyncio.sleep(0.3)

    def is_settled(self) -> bool:
        """Whether all replicas are alike, and no cleaner has anything to do."""
        return not any(self._unsettled())

    def _unsettled(self) -> Iterator[str]:
        replicas = dict(self._replicas())
        if set(replicas) != set(BROKERS):
            yield f"only {sorted(replicas)} have {self._name}"
        ends = {
            (one.log.log_end_offset, one.high_watermark, one.last_stable_offset) for one in replicas.values()
        }
        if len(ends) != 1 or len(set(next(iter(ends)))) != 1:
            yield f"{self._name} ends differently: {sorted(ends)}"
        for broker_id, replica in replicas.items():
            broker = self._cluster.brokers[broker_id]
            if self._is_stuck_by_rot(broker_id):
                continue
            if self._name in broker.cleaner._rounds or self._is_due(replica.log, replica.last_stable_offset):
                yield f"{self._name} is not compacted on broker {broker_id}"

    def _is_stuck_by_rot(self, broker_id: int) -> bool:
        """A cleaner refuses a batch whose bit flipped, as Kafka's does. No start reads what was flushed before."""
        is_rotten = (broker_id, str(self._name)) in self._cluster.rotten
        return is_rotten and self._name in self._cluster.brokers[broker_id].cleaner.uncleanable

    def _is_damaged_by_rot(self, broker_id: int, log: Log) -> bool:
        """A reader of a batch with a flipped bit notices it, so there is nothing to compare."""
        if (broker_id, str(self._name)) not in self._cluster.rotten:
            return False
        try:
            verify_all(stored_batches(log), below=log.log_end_offset)
        except (CorruptRecord, OffsetOutOfRange):
            return True
        return False

    def _is_due(self, log: Log, stable: int) -> bool:
        bound = min(stable, log.recovery_point)
        return bound > first_dirty_offset(log) and (
            cleanable(log, last_stable_offset=bound, now_ms=self._cluster.wall_ms()).is_due
        )

    # --- checks --------------------------------------------------------------------------------------------------

    async def check(self) -> None:
        """Compare every replica, and what every reader got, with all that was written."""
        for broker_id, broker in self._cluster.brokers.items():
            uncleanable = {
                str(name): why
                for name, (_, why) in broker.cleaner.uncleanable.items()
                if (broker_id, str(name)) not in self._cluster.rotten
            }
            self._require(not uncleanable, "I12", f"broker {broker_id} gave up to compact {uncleanable}")
        for breach in self._breaches():
            self._require(False, breach.invariant, f"{breach.name}: {breach.what}")
        self.raise_failure()
        self._workload.history.add(
            "compaction", f"holds: {self._witness.rounds} rounds, {len(self._scans)} readings"
        )

    def _breaches(self) -> Iterator[Breach]:
        logs = {
            broker_id: replica.log
            for broker_id, replica in self._replicas()
            if not self._is_damaged_by_rot(broker_id, replica.log)
        }
        for broker_id, log in logs.items():
            self._witness.observe(broker_id, str(self._name), stored_batches(log))
        written = self._witness.written(str(self._name))
        start = max(log.log_start_offset for log in logs.values())
        names = {offset: name_of(one) for offset, one in written.items()}
        yield from check_answers(written, names, self._answered, start=start)
        yield from self._check_outcomes({names[offset]: one for offset, one in written.items()}, start)
        replicas = {broker_id: _kept(log, written, start) for broker_id, log in logs.items()}
        yield from check_compacted(
            [one for one in written.values() if one.offset >= start],
            replicas,
            clean_from=max(self._witness.cleaned_below.get(str(self._name), 0), start),
            compacted_below=min(first_dirty_offset(log) for log in logs.values()),
        )
        for broker_id, log in logs.items():
            yield from self._check_replica(broker_id, log, replicas[broker_id])
        # What is on every replica was never gone.
        left = set.intersection(
            *({one.offset for one in kept if one.is_visible} for kept in replicas.values())
        )
        yield from check_scans(written, self._scans, kept=left, start=start)

    def _check_outcomes(self, written: dict[str, Kept], start: int) -> Iterator[Breach]:
        for name, outcome in self._outcomes.items():
            one = written.get(name)
            is_lost = start == 0 if one is None else not one.is_visible and one.offset >= start
            if outcome is Outcome.COMMITTED and is_lost:
                yield Breach("I8", "lost write", f"{name} is committed, and there is {one}")
            if outcome is Outcome.ABORTED and one is not None and one.is_visible and one.offset >= start:
                yield Breach("I8", "aborted read", f"{name} is aborted, and can be read at {one.offset}")

    def _check_replica(self, broker_id: int, log: Log, kept: list[Kept]) -> Iterator[Breach]:
        shown = [offset for offset in visible_offsets(log) if offset >= log.log_start_offset]
        expected = [one.offset for one in kept if one.is_visible]
        wrong = sorted(set(shown[-len(expected) :] if expected else ()) ^ set(expected))
        if wrong:
            what = f"broker {broker_id} shows readers of committed records another thing at {wrong[:5]}"
            yield Breach("I8", "aborted read", what)
        left = [path for path in self._cluster.disks[broker_id].paths("") if path.endswith(_LEFTOVERS)]
        if left:
            yield Breach("I10", "unfinished swap", f"broker {broker_id} still has {left}")


def _key(rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return rng.choice(KEYS)
    now = int(asyncio.get_running_loop().time() / KEY_SECONDS)
    return b"key-of-%d-%d" % (now, rng.randrange(KEYS_AT_ONCE))


def _kept(log: Log, written: dict[int, Kept], start: int) -> list[Kept]:
    """What is in the log from `start` on; whether it is visible is known by what was written."""
    return [
        Kept(
            one.offset,
            one.key or b"",
            one.value,
            one.timestamp_ms,
            tuple(one.headers),
            is_visible=one.offset not in written or written[one.offset].is_visible,
        )
        for batch in stored_batches(log)
        if not batch.is_control
        for one in records(batch)
        if one.offset >= start
    ]
