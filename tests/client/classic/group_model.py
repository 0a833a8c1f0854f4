"""Algorithm 1 as a model: real connectors share partitions in a registry in memory, in virtual time, under one seed.

Members join, leave, crash, stand still beyond their sessions and lose their connections; partitions and topics come.
Brokers come and go, so that some partitions have no leader. Nodes, shares, streams and leases are the product's own.
Only the brokers are the model's: a reader gives the records of logs whose leader is there.

    python -m tests.client.classic.group_model FIRST_SEED COUNT

A record is handed out only by the owner of its partition, and without faults only once. An offset is committed only by
the owner, and never goes back. An owner node is deleted only by its session. 5 s after the last change every partition
has the owner that Kafka's rule names, whether it has a leader or not. Those with a leader are read while others have
none, and the others once they have one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from unittest import mock

from odradek.client.classic import connector as connector_module
from odradek.client.classic import lease as lease_module
from odradek.client.classic import streams as streams_module
from odradek.client.classic.connector import Connector
from odradek.client.classic.messages import DefaultDecoder
from odradek.client.classic.properties import CONSUMER, Properties
from odradek.client.classic.registrations import STATIC, WHITE_LIST, Registration
from odradek.client.classic.streams import AsyncKafkaStream, StreamBuffer
from odradek.client.metadata import NO_LEADER
from odradek.client.results import ListedOffset
from odradek.foundation.errors import LeaderNotAvailable, OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.registry_errors import NoNode
from odradek.foundation.tasks import TaskOwner
from odradek.metadata.registry.node_tree import Changes
from odradek.metadata.registry.store import Create, Delete, Operation, Put, SessionState
from odradek.wire.records.record import Record
from tests.support.loop import VirtualTimeLoop
from tests.support.memory_registry import MemoryRegistry, MemoryStore
from tests.support.registry_faults import RegistryFaults

GROUP = "g"
SESSION_SECONDS = 2.0
QUIET_SECONDS = 5.0
STEPS = 12
BROKERS = (1, 2, 3)
# Streams of the model read some dozens of records in a second.
READING_SECONDS = 120
MEMBERS_MAX = 5
OWNERS, OFFSETS = f"/consumers/{GROUP}/owners/", f"/consumers/{GROUP}/offsets/"


class Violation(AssertionError):
    """Something that must hold does not."""


class WatchedRegistry(MemoryRegistry):
    """Looks at each write before it is done."""

    def run(self, operations: Sequence[Operation], *, session: int) -> Changes:
        before = {one.path: self.node(one.path) for one in operations}
        changes = super().run(operations, session=session)
        for one in operations:
            self._check(one, before[one.path], session)
        return changes

    def _check(self, done: Operation, before: tuple[bytes, int] | None, session: int) -> None:
        if done.path.startswith(OFFSETS) and isinstance(done, Put | Create) and done.data:
            owner = self.node(OWNERS + done.path.removeprefix(OFFSETS))
            if owner is None or owner[1] != session:
                raise Violation(f"session {session} commits {done.path}, which it does not own: {owner}")
            if before is not None and int(done.data) < int(before[0]):
                raise Violation(f"{done.path} goes back from {before[0]!r} to {done.data!r}")
        is_release = done.path.startswith(OWNERS) and isinstance(done, Delete)
        if is_release and before is not None and before[1] != session:
            raise Violation(f"session {session} deletes {done.path} of session {before[1]}")

    def node(self, path: str) -> tuple[bytes, int] | None:
        """Bytes and owner of a node."""
        try:
            found = self.tree.get(path)
        except NoNode:
            return None
        return found.data, found.owner


class OrderedStore(MemoryStore):
    """Watches fire in the order of their paths: a history must not depend on the order of a set."""

    def _arrived(self, paths: set[str], connection: int) -> None:
        if connection == self._connection:
            self.watches.notify(sorted(paths))
        else:
            super()._arrived(paths, connection)

    def _notify_missed(self) -> None:
        if self.session_state is SessionState.CONNECTED:
            self.watches.notify(sorted(self._missed))
            self._missed = set()


class Block:
    """The records of one batch, as a stream wants them."""

    def __init__(self, key: TopicPartition, start: int, end: int) -> None:
        self.topic_partition = key
        self.end_offset = end
        self._start = start

    def records(self) -> list[Record]:
        return [Record(offset, 0, None, b"", ()) for offset in range(self._start, self.end_offset)]


class Reader:
    """Gives the records of all partitions of a stream in turn."""

    def __init__(self, model: Model, buffer: StreamBuffer, starts: Mapping[TopicPartition, int]) -> None:
        self._model = model
        self._buffer = buffer
        self._generation = buffer.generation
        self._next = dict(starts)
        self._tasks = TaskOwner("reader")
        self._tasks.start(self._read(), name="read")

    async def _read(self) -> None:
        rng = self._model.rng
        while True:
            await self._buffer.wait_for_room()
            await asyncio.sleep(rng.uniform(0.001, 0.1))
            key = rng.choice(list(self._next))
            if not self._model.has_leader(key):
                continue
            end = min(self._next[key] + rng.randint(1, 4), self._model.ends[key])
            if self._next[key] < end:
                self._buffer.put([Block(key, self._next[key], end)], self._generation)  # type: ignore[list-item]
                self._next[key] = end

    def add(self, starts: Mapping[TopicPartition, int]) -> None:
        self._next |= starts

    async def close(self) -> None:
        await self._tasks.close()


class Logs:
    """Answers for the first offsets, as LogAdmin does, after a while."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def list_offsets_each(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | OdradekError]:
        model = self._model
        if {model.leader(key) for key in wanted} & model.silent:
            await asyncio.sleep(30)
        await asyncio.sleep(model.rng.uniform(0, 0.01))
        missing = LeaderNotAvailable("no leader")
        return {key: ListedOffset(0, -1, 0) if model.has_leader(key) else missing for key in wanted}


class ModelConnector(Connector):
    """Without brokers."""

    model: Model

    async def _connect(self) -> None:
        self._client = mock.AsyncMock(cluster=self.model)

    def _reader(self, buffer: StreamBuffer, starts: Mapping[TopicPartition, int]) -> Reader:  # type: ignore[override]
        return Reader(self.model, buffer, starts)


class Member:
    """A connector and the tasks that take its messages."""

    def __init__(self, model: Model, name: str, own: Registration) -> None:
        self.model = model
        self.own = own
        self.store = OrderedStore(model.registry, session_timeout_seconds=SESSION_SECONDS)
        given = {
            "group.id": GROUP,
            "consumer.id": name,
            "auto.offset.reset": "smallest",
            "auto.commit.interval.ms": 300,
            "zookeeper.session.timeout.ms": int(SESSION_SECONDS * 1000),
            "rebalance.backoff.ms": 400,
        }
        self.connector = ModelConnector(Properties(CONSUMER, given), store=self.store)
        self.connector.model = model
        self.connector._random = model.rng
        self.is_up = asyncio.Event()
        self.is_up.set()
        self.tasks = TaskOwner(name, on_failure=lambda _, failure: model.failures.append(failure))

    async def start(self) -> None:
        await self.connector.start()
        self.connector._offsets._logs = Logs(self.model)  # type: ignore[assignment]
        for buffer in self.connector.create_streams(self.own).values():
            decoder = DefaultDecoder()
            stream = AsyncKafkaStream(
                buffer, self.connector.lease, decoder=decoder, key_decoder=decoder, timeout_ms=-1
            )
            self.tasks.start(self._take(stream), name="take")
        self.joining = self.tasks.start(self.connector.join(), name="join")

    async def _take(self, stream: AsyncKafkaStream) -> None:
        async for message in stream:
            self.model.handed_out(self, TopicPartition(message.topic, message.partition), message.offset)
            await asyncio.sleep(self.model.rng.uniform(0, 0.05))
            await self.is_up.wait()

    async def leave(self) -> None:
        self.joining.cancel()
        await self.connector.close()
        await self.tasks.close()

    async def crash(self) -> None:
        """All of its tasks end at once; its session ends by its timeout."""
        self.store.sever()
        await self.tasks.close()
        await self.connector._tasks.close()
        for reader in self.connector._readers.values():
            await reader.close()
        for unwatch in self.connector._watched.values():
            unwatch()

    async def stall(self, seconds: float) -> None:
        """Nothing of it reaches the registry, and its program takes nothing. On waking the program is the first."""
        self.is_up.clear()
        self.store.sever()
        await asyncio.sleep(seconds)
        self.is_up.set()
        await asyncio.sleep(self.model.rng.choice([0, 0.02]))
        self.store.mend()


class Model:
    """One history. `is_calm`: members only join and leave cleanly, and no message of the registry is lost."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.is_calm = self.rng.random() < 0.4
        lost = 0.0 if self.is_calm else 0.003
        self.registry = WatchedRegistry(
            faults=RegistryFaults(
                self.rng,
                latency_seconds=(0.0005, 0.02),
                lost_requests=lost,
                lost_answers=lost,
                reconnect_seconds=(0.05, 0.5),
            )
        )
        self.members: list[Member] = []
        self.topics: dict[str, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.seen: Counter[tuple[TopicPartition, int]] = Counter()
        self.failures: list[BaseException] = []
        self.leaders: dict[TopicPartition, int] = {}
        self.down: set[int] = set()
        """The brokers that are down, whose partitions have no leader."""
        self.silent: set[int] = set()
        """Those that stand still: they lead, and do not answer."""
        self._names = 0

    # --- brokers ------------------------------------------------------------------------------------------------------

    def leader(self, key: TopicPartition) -> int:
        """As ClusterInfo has it."""
        leader = self.leaders[key]
        return NO_LEADER if leader in self.down else leader

    def has_leader(self, key: TopicPartition) -> bool:
        """Whether a leader answers for it."""
        return self.leader(key) != NO_LEADER and self.leaders[key] not in self.silent

    def _move_broker(self) -> None:
        """A broker goes, stands still, or comes back, and partitions that have replicas get other leaders."""
        rng = self.rng
        broker = rng.choice(BROKERS)
        for gone in (self.down, self.silent):
            gone.discard(broker)
        rng.choice([self.down, self.down, self.silent, set()]).add(broker)
        for key in self.leaders:
            if rng.random() < 0.2:
                self.leaders[key] = rng.choice(BROKERS)

    # --- what happens -------------------------------------------------------------------------------------------------

    def handed_out(self, member: Member, key: TopicPartition, offset: int) -> None:
        owner = self.registry.node(f"{OWNERS}{key.topic}/{key.partition}")
        if owner is None or owner[1] != member.store.session_id:
            raise Violation(f"{member.connector.id} hands out {key} at {offset}, which belongs to {owner}")
        self.seen[key, offset] += 1

    def _set_topic(self, name: str, partitions: int) -> None:
        data = json.dumps(
            {"version": 1, "partitions": {str(number): [1] for number in range(partitions)}}
        ).encode()
        path = f"/brokers/topics/{name}"
        operation: Operation = Create(path, data) if name not in self.topics else Put(path, data)
        self.registry.run([operation], session=0)
        self.topics[name] = partitions
        for number in range(partitions):
            self.ends.setdefault(TopicPartition(name, number), self.rng.randint(0, 40))
            self.leaders.setdefault(TopicPartition(name, number), self.rng.choice(BROKERS))

    async def _step(self) -> None:
        rng = self.rng
        choices = ["join", "join", "leave", "partition", "topic", "broker", "broker"]
        if not self.is_calm:
            choices += ["crash", "stall", "stall", "cut", "expire", "poison"]
        step = rng.choice(choices)
        member = rng.choice(self.members) if self.members else None
        if step == "join" and len(self.members) < MEMBERS_MAX:
            await self._join()
        elif step == "partition":
            name = rng.choice(list(self.topics))
            self._set_topic(name, self.topics[name] + rng.randint(1, 3))
        elif step == "broker":
            self._move_broker()
        elif step == "topic":
            self._set_topic(f"t{len(self.topics)}", rng.randint(1, 5))
        elif step == "poison" and self.registry.node(f"/consumers/{GROUP}/ids") is not None:
            self._names += 1
            self.registry.run([Create(f"/consumers/{GROUP}/ids/poison{self._names}", b'{"t0":1}')], session=0)
        elif member is not None and step in ("leave", "crash"):
            self.members.remove(member)
            await (member.leave() if step == "leave" else member.crash())
        elif member is not None and step == "stall":
            await member.stall(rng.uniform(0.2, 3 * SESSION_SECONDS))
        elif member is not None and step == "cut":
            member.store.sever()
            await asyncio.sleep(rng.uniform(0, SESSION_SECONDS))
            member.store.mend()
        elif member is not None and step == "expire" and member.store.session_state is SessionState.CONNECTED:
            # Before its timeout, as when another client closes it; ZooKeeper does so to no session that is silent.
            member.store.expire()

    async def _join(self) -> None:
        rng = self.rng
        self._names += 1
        count = rng.choice([1, 1, 2, 3, 12])
        if rng.random() < 0.3:
            own = Registration(WHITE_LIST, {"t.*": count})
        else:
            topics = rng.sample(sorted(self.topics), rng.randint(1, len(self.topics)))
            own = Registration(STATIC, dict.fromkeys(topics, count))
        # Most names differ in their random part alone, as real ones do.
        member = Member(self, f"h-{10**12 + rng.randrange(16**4)}-{self._names:x}", own)
        self.members.append(member)
        await member.start()

    # --- the history --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        for path in ("/brokers", "/brokers/ids", "/brokers/topics"):
            self.registry.run([Create(path)], session=0)
        self._set_topic("t0", self.rng.randint(1, 14))
        await self._join()
        for _ in range(STEPS):
            await asyncio.sleep(self.rng.choice([0.0, 0.05, 0.5, 2.0]))
            await self._step()
        if not self.members:
            await self._join()
        self.registry.faults = None
        # A crashed member's session ends, a lost connection is back, a stalled one has noticed.
        await asyncio.sleep(SESSION_SECONDS + 1)
        await asyncio.sleep(QUIET_SECONDS)
        self._check_owners()
        await self._check_records()
        self.down.clear()
        self.silent.clear()
        await self._check_records()
        for member in self.members:
            await member.leave()

    def _check_owners(self) -> None:
        """Every partition that has a reader is owned as Kafka's rule says, which is computed here once more."""
        for topic, partitions in self.topics.items():
            threads = sorted(
                f"{member.connector.id}-{number}"
                for member in self.members
                for number in range(member.own.stream_count(topic))
            )
            for number in range(partitions if threads else 0):
                wanted = next(
                    thread
                    for position, thread in enumerate(threads)
                    if number < _end(partitions, len(threads), position)
                )
                found = self.registry.node(f"{OWNERS}{topic}/{number}")
                if found is None or found[0].decode() != wanted:
                    raise Violation(f"{topic}-{number} should be owned by {wanted}, not {found}")

    async def _check_records(self) -> None:
        """All records of partitions with leaders come, whatever the others do."""
        for _ in range(READING_SECONDS):
            if all(self.seen[one] for one in self._readable()):
                break
            await asyncio.sleep(1)
        for key, offset in self._readable():
            count = self.seen[key, offset]
            if not count:
                raise Violation(f"{key} at {offset} was never handed out")
            if self.is_calm and count > 1:
                raise Violation(f"{key} at {offset} was handed out {count} times, and nothing had failed")

    def _readable(self) -> list[tuple[TopicPartition, int]]:
        """All records of the topics that present members read, in partitions that have leaders."""
        read = {
            topic for topic in self.topics if any(member.own.stream_count(topic) for member in self.members)
        }
        return [
            (key, offset)
            for key, end in self.ends.items()
            if key.topic in read and self.has_leader(key)
            for offset in range(end)
        ]


def _end(partitions: int, threads: int, position: int) -> int:
    """Where a thread's partitions end, as Kafka's RangeAssignor computes it."""
    return partitions // threads * (position + 1) + min(position + 1, partitions % threads)


@contextlib.contextmanager
def _clock_of(loop: VirtualTimeLoop) -> Iterator[None]:
    """Leases and registrations by the loop's time."""
    with (
        mock.patch.object(lease_module, "lease_clock", loop.time),
        mock.patch.object(streams_module, "lease_clock", loop.time),
        mock.patch.object(connector_module, "lease_clock", loop.time),
    ):
        yield


def run(seed: int) -> None:
    """One history. Raises Violation, with the seed."""
    loop = VirtualTimeLoop()
    model = Model(seed)

    async def main() -> None:
        task = asyncio.ensure_future(model.run())
        while not task.done() and not model.failures:
            await asyncio.wait([task], timeout=1)
        if model.failures:
            task.cancel()
            raise model.failures[0]
        await task

    try:
        with _clock_of(loop):
            loop.run_until_complete(main())
    except Violation as violation:
        raise Violation(f"seed {seed}: {violation}") from violation
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    first, count = int(sys.argv[1]), int(sys.argv[2])
    started = time.perf_counter()
    for seed in range(first, first + count):
        run(seed)
        if seed % 100 == 99:
            print(f"up to seed {seed}", file=sys.stderr, flush=True)
    print(f"{count} histories from seed {first} in {time.perf_counter() - started:.0f} s")
