"""Transactional clients of a simulation: producers that commit, abort, stall and are fenced; copiers, whose offsets
belong to their transactions; readers of committed records. All with the product's own client, in either generation.

They write to a topic of their own, so that every record in it belongs to a transaction. `tests.histories.transactions`
checks what they did (I4, I8). Left out: checks of the records' order across transactions of one producer.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from odradek.broker.replication.partition import Partition
from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.logs import LATEST, LogAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.consumer.fetches import FetchBounds
from odradek.client.consumer.group import GroupConsumer
from odradek.client.errors import RETRIABLE_OR_LATE
from odradek.client.producer.producer import Producer
from odradek.client.producer.transactions import Phase
from odradek.foundation.errors import OdradekError, OffsetOutOfRange, TopicAlreadyExists
from odradek.foundation.ids import TopicPartition
from odradek.foundation.transaction_errors import UnstableOffsetCommit
from tests.histories.transactions import (
    Attempt,
    Breach,
    Key,
    Outcome,
    Poll,
    check_final,
    check_offsets,
    check_polls,
)
from tests.simulation.cluster import TOPIC, TRANSACTIONAL_TOPIC
from tests.simulation.tasks import end_all, raise_failure_of
from tests.simulation.workload import DELIVERY_TIMEOUT_MS, START_MS, Workload

PARTITIONS: Final = 2
GROUP: Final = "copiers"
SESSION_MS: Final = 6_000
TIMEOUTS_MS: Final = (1_500, 6_000)
# Longer than each of the timeouts: what comes after it belongs to a transaction that the broker has aborted.
STALL_SECONDS: Final = 8.0
STALL_CHANCE: Final = 0.04
SUCCESSOR_CHANCE: Final = 0.05
DEATH_CHANCE: Final = 0.05
END_TRIES: Final = 3
# How long the last stable offset may stand still once nothing fails: the longest timeout, and 10 s.
STABLE_SECONDS: Final = 16.0


class OldClient(Client):
    """Sees no features, so it speaks the first generation (TV1)."""

    def finalized_level(self, feature: str) -> int:
        return 0


class Transactors:
    """Two producers, two copiers in one group, and a reader. An `Actor`."""

    def __init__(self, workload: Workload, rng: random.Random) -> None:
        self._workload = workload
        self._cluster = workload.cluster
        self._rng = rng
        self._kind = rng.choice([Client, Client, OldClient])
        self._tasks: list[asyncio.Task[None]] = []
        self._readers: list[asyncio.Task[None]] = []
        self._attempts: list[Attempt] = []
        self._polls: list[Poll] = []
        self._is_over = False
        self._is_stable = False
        self._lives = 0
        self._started_at = asyncio.get_running_loop().time()

    def start(self) -> None:
        self._readers.append(asyncio.create_task(self._begin()))
        self._readers.append(asyncio.create_task(self._watch_stable_offsets()))

    async def settle(self) -> None:
        """No more transactions; those that are open end by themselves."""
        self._is_over = True
        while self._tasks:
            await asyncio.gather(*self._tasks)
            self._tasks = [task for task in self._tasks if not task.done()]
        began = asyncio.get_running_loop().time()
        # The clock of a broker that started late may be behind that of the one which noted when a transaction began.
        behind_seconds = 0.0 if self._cluster.has_one_clock else began - self._started_at
        while (open_ones := list(self._unstable())) != []:
            waited = asyncio.get_running_loop().time() - began
            self._workload.history.require(
                waited < STABLE_SECONDS + behind_seconds,
                "I8",
                f"after {waited:.0f} s transactions are open in {open_ones}",
            )
            await asyncio.sleep(0.5)
        self._is_stable = True

    def is_settled(self) -> bool:
        """Whether no transaction is open any more."""
        return self._is_stable

    async def stop(self) -> None:
        await end_all([*self._tasks, *self._readers])

    def raise_failure(self) -> None:
        raise_failure_of([*self._tasks, *self._readers])

    async def check(self) -> None:
        """Compare what is there for readers of committed records with what each transaction asked for."""
        client = self._workload.client("auditor", random.Random(self._rng.getrandbits(64)))
        try:
            logs = {
                (TRANSACTIONAL_TOPIC, number): await self._read_all(client, number)
                for number in range(PARTITIONS)
            }
            found = await GroupAdmin(client).offsets(GROUP, require_stable=True)
        except UnstableOffsetCommit as failure:
            # The client has tried for a minute, long after the last transaction's timeout.
            self._workload.history.require(False, "I8", f"a transaction never ends: {failure}")
            raise
        finally:
            await client.close()
        committed = {(key.topic, key.partition): one.offset for key, one in found.items()}
        inputs = {key: range(end) for key, end in committed.items()}
        for breach in self._breaches(logs, committed, inputs):
            self._workload.history.require(False, breach.invariant, f"{breach.name}: {breach.what}")

    def _breaches(
        self, logs: dict[Key, list[tuple[int, bytes]]], committed: dict[Key, int], inputs: dict[Key, range]
    ) -> Iterator[Breach]:
        yield from check_final(self._attempts, logs)
        yield from check_polls(self._attempts, logs, self._polls)
        copies = [attempt for attempt in self._attempts if attempt.reads]
        yield from check_offsets(copies, logs, committed, inputs=inputs)

    # --- life ----------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        client = self._workload.client("transactions", random.Random(self._rng.getrandbits(64)))
        try:
            while True:
                try:
                    await TopicAdmin(client).create(
                        TRANSACTIONAL_TOPIC, partitions=PARTITIONS, replication_factor=3
                    )
                    break
                except TopicAlreadyExists:
                    break
                except OdradekError:
                    await asyncio.sleep(0.5)
        finally:
            await client.close()
        for number in range(2):
            self._succeed(self._produce, f"tx{number}")
            self._succeed(self._copy, f"copier{number}")
        self._readers.append(asyncio.create_task(self._read(random.Random(self._rng.getrandbits(64)))))

    def _succeed(self, live: Callable[[str, str, random.Random], Awaitable[None]], name: str) -> None:
        """Begin another life under a transactional id, whether or not there is an older one."""
        if self._is_over:
            return
        self._lives += 1
        rng = random.Random(self._rng.getrandbits(64))

        async def to_the_end() -> None:
            await live(name, f"{name}.{self._lives}", rng)
            await asyncio.sleep(rng.uniform(0.0, 1.0))
            self._succeed(live, name)

        self._tasks.append(asyncio.create_task(to_the_end()))

    def _client(self, name: str, rng: random.Random) -> Client:
        return self._workload.client_of_kind(self._kind, name, rng)

    def _producer(self, client: Client, transactional_id: str, rng: random.Random) -> Producer:
        return Producer(
            client,
            transactional_id=transactional_id,
            transaction_timeout_ms=rng.choice(TIMEOUTS_MS),
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS // 4,
            linger_ms=rng.choice([0, 5]),
        )

    async def _produce(self, transactional_id: str, name: str, rng: random.Random) -> None:
        """One life of a producer: it ends by chance, with its cluster, or because another one has taken over."""
        client = self._client(name, rng)
        producer = self._producer(client, transactional_id, rng)
        number = 0
        try:
            while not self._is_over and not await self._try(name, producer.start):
                await asyncio.sleep(0.5)
            while producer.is_usable and not self._is_over and rng.random() > 0.03:
                attempt = Attempt(f"{name}/{number}")
                number += 1
                if not await self._try(name, producer.begin_transaction):
                    await asyncio.sleep(0.3)
                    continue
                self._attempts.append(attempt)
                attempt.outcome = Outcome.ABORTED  # until a commit is asked for
                for count in range(rng.randint(1, 4)):
                    key = (TRANSACTIONAL_TOPIC, rng.randrange(PARTITIONS))
                    await self._send(producer, attempt, key, b"%s/%d" % (attempt.name.encode(), count))
                    await self._dawdle(name, rng)
                if rng.random() < DEATH_CHANCE:
                    self._workload.history.add(name, "dies amid its transaction")
                    await client.close()
                    return
                await self._end(producer, attempt, is_commit=rng.random() < 0.7)
                if rng.random() < SUCCESSOR_CHANCE:
                    self._succeed_now(self._produce, transactional_id)
                await asyncio.sleep(self._cluster.pause_seconds(rng.uniform(0.0, 0.4)))
        finally:
            await producer.close(is_flushing=False)
            await client.close()

    def _succeed_now(
        self, live: Callable[[str, str, random.Random], Awaitable[None]], transactional_id: str
    ) -> None:
        self._workload.history.add(transactional_id, "gets a second life beside the first")
        rng = random.Random(self._rng.getrandbits(64))
        self._lives += 1
        name = f"{transactional_id}.{self._lives}"
        self._tasks.append(asyncio.create_task(_done(live(transactional_id, name, rng))))

    async def _copy(self, transactional_id: str, name: str, rng: random.Random) -> None:
        """One life of a copier: what it reads it writes again, and where it is belongs to the same transaction."""
        client = self._client(name, rng)
        producer = self._producer(client, transactional_id, rng)
        consumer = GroupConsumer(
            client,
            GROUP,
            [TOPIC],
            on_no_offset="earliest",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=1_000,
            bounds=FetchBounds(wait_ms_max=500),
            is_read_committed=True,
        )
        number = 0
        try:
            await consumer.start()
            while not self._is_over and not await self._try(name, producer.start):
                await asyncio.sleep(0.5)
            while producer.is_usable and not self._is_over and rng.random() > 0.03:
                number += 1
                if not await self._copy_once(producer, consumer, f"{name}/{number}", rng):
                    await asyncio.sleep(0.3)
        finally:
            await producer.close(is_flushing=False)
            await consumer.close()
            await client.close()

    async def _copy_once(
        self, producer: Producer, consumer: GroupConsumer, name: str, rng: random.Random
    ) -> bool:
        attempt = Attempt(name, Outcome.ABORTED)
        try:
            records = await consumer.poll(records_max=rng.randint(1, 5), timeout_ms=500)
            if not records:
                return True
            metadata = consumer.group_metadata()
            await producer.begin_transaction()
        except OffsetOutOfRange as failure:
            self._workload.history.require(False, "I1", f"what was committed is gone: {failure}")
        except OdradekError as failure:
            self._workload.history.add(name, f"failed: {failure}")
            return await self._go_back(consumer, name)
        self._attempts.append(attempt)
        offsets: dict[TopicPartition, int] = {}
        for record in records:
            source = TopicPartition(record.topic, record.partition)
            offsets[source] = record.offset + 1
            attempt.reads.append(((TOPIC, record.partition), record.offset))
            value = b"%s %d:%d" % (name.encode(), record.partition, record.offset)
            await self._send(producer, attempt, (TRANSACTIONAL_TOPIC, record.partition % PARTITIONS), value)
        attempt.offsets = {(key.topic, key.partition): offset for key, offset in offsets.items()}
        await self._dawdle(name, rng)
        is_whole = await self._try(name, lambda: producer.send_offsets_to_transaction(offsets, metadata))
        await self._end(producer, attempt, is_commit=is_whole and rng.random() < 0.8)
        return attempt.outcome is Outcome.COMMITTED or await self._go_back(consumer, name)

    async def _go_back(self, consumer: GroupConsumer, name: str) -> bool:
        """Nothing that was read may be skipped. Without an answer the member joins again, as a new one."""
        if not await self._try(name, consumer.seek_to_committed):
            consumer._note_lost_place(OdradekError("its position is not known"))
        return False

    # --- parts of a transaction ----------------------------------------------------------------------------------

    async def _send(self, producer: Producer, attempt: Attempt, key: Key, value: bytes) -> None:
        attempt.writes.append((key, value))
        self._workload.history.add(attempt.name, f"sends {value.decode()} to {key[1]}")
        await self._try(
            attempt.name,
            lambda: producer.send(
                key[0], value, partition=key[1], timestamp_ms=START_MS + len(self._attempts)
            ),
        )

    async def _dawdle(self, name: str, rng: random.Random) -> None:
        if rng.random() < STALL_CHANCE:
            self._workload.history.add(name, f"stalls for {STALL_SECONDS:g} s")
            await asyncio.sleep(STALL_SECONDS)
        else:
            await asyncio.sleep(self._cluster.pause_seconds(rng.uniform(0.0, 0.1)))

    async def _end(self, producer: Producer, attempt: Attempt, *, is_commit: bool) -> None:
        phase = producer._transactional().phase
        if is_commit and phase is Phase.OPEN:
            attempt.commit_asked_at = asyncio.get_running_loop().time()
            attempt.outcome = Outcome.UNKNOWN
            for _ in range(END_TRIES):
                try:
                    await producer.commit_transaction()
                except RETRIABLE_OR_LATE as failure:
                    self._workload.history.add(attempt.name, f"commit not answered: {failure}")
                    if producer._transactional().phase is not Phase.COMMITTING:
                        break
                except OdradekError as failure:
                    self._workload.history.add(attempt.name, f"not committed: {failure}")
                    break
                else:
                    attempt.outcome = Outcome.COMMITTED
                    break
        for _ in range(END_TRIES):
            if producer._transactional().phase not in (Phase.OPEN, Phase.FAILED, Phase.ABORTING):
                break
            if await self._try(attempt.name, producer.abort_transaction):
                attempt.outcome = Outcome.ABORTED
        self._workload.history.add(attempt.name, attempt.outcome.value)
        if producer._transactional().phase is not Phase.IDLE and producer.is_usable:
            # How it ended is not known: another life begins by ending it.
            await producer.close(is_flushing=False)

    async def _try(self, name: str, call: Callable[[], Awaitable[object]]) -> bool:
        try:
            await call()
        except OdradekError as failure:
            self._workload.history.add(name, f"failed: {type(failure).__name__}: {failure}")
            return False
        return True

    # --- reading -------------------------------------------------------------------------------------------------

    async def _read(self, rng: random.Random) -> None:
        """Committed records as they come; now and then again from somewhere before, as another reader."""
        client = self._workload.client("committed", rng)
        consumer = PartitionConsumer(client, bounds=FetchBounds(wait_ms_max=500), is_read_committed=True)
        keys = [TopicPartition(TRANSACTIONAL_TOPIC, number) for number in range(PARTITIONS)]
        life = 0
        try:
            consumer.assign(dict.fromkeys(keys, 0))
            while True:
                if rng.random() < 0.05:
                    life += 1
                    for key in keys:
                        consumer.seek(key, rng.randint(0, consumer.position(key)))
                try:
                    records = await consumer.poll(timeout_ms=1_000)
                except OdradekError as failure:
                    self._workload.history.add("committed", f"failed: {failure}")
                    await asyncio.sleep(0.5)
                    continue
                for record in records:
                    now = asyncio.get_running_loop().time()
                    where = (record.topic, record.partition)
                    self._polls.append(Poll(now, f"reader {life}", where, record.offset, record.value or b""))
        finally:
            await consumer.close()
            await client.close()

    async def _read_all(self, client: Client, number: int) -> list[tuple[int, bytes]]:
        key = TopicPartition(TRANSACTIONAL_TOPIC, number)
        end = (await LogAdmin(client).offsets_at([key], LATEST, read_committed=True))[key]
        found: list[tuple[int, bytes]] = []
        async with PartitionConsumer(client, is_read_committed=True) as consumer:
            consumer.assign({key: 0})
            while consumer.position(key) < end:
                found += [(one.offset, one.value or b"") for one in await consumer.poll(timeout_ms=1_000)]
        return found

    def _unstable(self) -> Iterator[str]:
        """Where a transaction is open, or what ended it is not on all replicas."""
        for number in range(PARTITIONS):
            led = [replica for _, replica in self._replicas(number) if replica.is_leader]
            if not led or any(one.last_stable_offset < one.log.log_end_offset for one in led):
                yield f"{TRANSACTIONAL_TOPIC}-{number}"

    def _replicas(self, number: int) -> Iterator[tuple[int, Partition]]:
        for broker_id, broker in self._cluster.brokers.items():
            replica = broker.partitions.find(TRANSACTIONAL_TOPIC, number)
            if replica is not None:
                yield broker_id, replica

    async def _watch_stable_offsets(self) -> None:
        """The last stable offset is never above the high watermark, and falls in no leader's epoch."""
        seen: dict[tuple[int, int, int, int], int] = {}
        while True:
            for number in range(PARTITIONS):
                for broker_id, replica in self._replicas(number):
                    stable, mark = replica.last_stable_offset, replica.high_watermark
                    what = f"broker {broker_id}: the last stable offset of {TRANSACTIONAL_TOPIC}-{number} is {stable}"
                    self._workload.history.require(
                        stable <= mark, "I8", f"{what}, above the high watermark {mark}"
                    )
                    if replica.is_leader:
                        key = (broker_id, id(replica), number, replica.leader_epoch)
                        before = seen.get(key, 0)
                        self._workload.history.require(
                            stable >= before, "I8", f"{what} and was {before} in the same epoch"
                        )
                        seen[key] = stable
            await asyncio.sleep(0.2)


async def _done(life: Awaitable[None]) -> None:
    await life
