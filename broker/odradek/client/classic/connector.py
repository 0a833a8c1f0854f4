"""ConsumerConnector: a consumer of a group that shares partitions through ZooKeeper (document 004, 5.1 and 5.6).

    register -> watch ids and topics
    on a change: compute shares -> stop reading -> commit -> release -> claim -> read offsets -> read

This is the engine of both faces; it lives on one event loop. `registrations` is pure, as `shares` here. The nodes
are in `group_nodes`, and what programs see in `streams`.

Changes close together make one pass. A claim that another consumer's partitions prevent is tried again until it
succeeds, with growing pauses. A consumer whose share does not change continues to read. A partition whose first offset
no leader reports is owned, and read once there is a leader; the others do not wait for it.

Algorithm 1 says which consumer thread reads which partitions of a topic (document 000, and 002 "rebalancing"). The
documents give each consumer size(P)/size(C) partitions, which leaves the remainder without an owner. Kafka's own
consumers give one partition more to each of the first threads. They share by threads, in the order of their ids as
text: `G_host-1-10` is before `G_host-1-2`. A group of mixed members needs the same rule, so this is Kafka's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from random import Random
from typing import Final

from odradek.client.classic import consumer_paths as paths
from odradek.client.classic.brokers import find_registered_brokers, open_session
from odradek.client.classic.errors import (
    InvalidConfigException,
    MessageStreamsExistException,
    OutOfRangeException,
)
from odradek.client.classic.group_nodes import GroupNodes
from odradek.client.classic.group_offsets import GroupOffsets, StartOffsets, Starts
from odradek.client.classic.known_registrations import share_registrations, unique_name
from odradek.client.classic.lease import Lease, lease_clock
from odradek.client.classic.properties import Properties
from odradek.client.classic.registrations import STATIC, Registration
from odradek.client.classic.stream_fetcher import StreamFetcher
from odradek.client.classic.streams import StreamBuffer
from odradek.client.client import Client
from odradek.client.errors import RETRIABLE_OR_LATE
from odradek.foundation.client_limits import (
    CONSUMER_CHANGES_SECONDS_MAX,
    CONSUMER_FIRST_OFFSETS_PAUSE_SECONDS,
    CONSUMER_QUIET_SECONDS,
    CONSUMER_REBALANCE_PAUSE_SECONDS_MIN,
    CONSUMER_RECORD_IN_HAND_SECONDS_MAX,
)
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.registry_errors import StoreConnectionLost, StoreError, StoreSessionExpired
from odradek.foundation.tasks import TaskOwner
from odradek.metadata.registry.store import SessionState, Store
from odradek.network.network import Network

logger = logging.getLogger(__name__)

_PINGS_PER_TIMEOUT: Final = 6


class Connector:
    """One consumer. `start`, `create_streams` once, then `close`. All calls belong to one event loop."""

    def __init__(
        self,
        properties: Properties,
        *,
        start_offsets: StartOffsets | None = None,
        network: Network | None = None,
        store: Store | None = None,
    ) -> None:
        """`start_offsets` gives the offsets that a program keeps itself: then none is committed here. `store` is for
        tests. Raises InvalidConfigException.
        """
        for name in ("group.id", "zookeeper.connect"):
            if not properties[name] and not (store is not None and name == "zookeeper.connect"):
                raise InvalidConfigException(f"{name} is missing; a ConsumerConnector needs it")
        if "/" in properties["group.id"]:
            raise InvalidConfigException(f"group.id is {properties['group.id']!r}; it may not have a '/'")
        self._properties = properties
        self._start_offsets = start_offsets
        self._network = properties.security.network(network, client_id=properties["client.id"])
        self._given_store = store
        self._random = Random()
        self.group: str = properties["group.id"]
        self.id = f"{self.group}_{properties['consumer.id'] or unique_name()}"
        self.lease = Lease(properties["zookeeper.session.timeout.ms"] / 1000)
        self._own: Registration | None = None
        self.buffers: dict[tuple[str | None, int], StreamBuffer] = {}
        self._readers: dict[StreamBuffer, StreamFetcher] = {}
        self._held: dict[TopicPartition, int] = {}
        self._unstarted: dict[TopicPartition, int] = {}  # of those held, without an offset to begin at
        self._is_unstarted = asyncio.Event()
        self._session_of_held = 0
        self._unreleased: set[TopicPartition] = set()  # their nodes may be of this session
        self._watched: dict[str, Callable[[], None]] = {}
        self._wake = asyncio.Event()
        self._has_tried = asyncio.Event()
        self._changed_at = 0.0
        self._rebalancing = asyncio.Lock()
        self._tasks = TaskOwner("consumer connector")
        self._closed = False

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to ZooKeeper and to the brokers. Raises StoreConnectionLost, NoBrokersForPartitionException, …"""
        self._store = self._given_store or await open_session(self._properties)
        try:
            await self._connect()
        except BaseException:
            await self._store.close()
            raise
        is_excluding_internal = self._properties["exclude.internal.topics"]
        connect = self._properties["zookeeper.connect"]
        known = (
            None
            if self._given_store is not None
            else share_registrations(connect, self.group, is_excluding_internal=is_excluding_internal)
        )
        self._nodes = GroupNodes(
            self._store, self.group, self.id, is_excluding_internal=is_excluding_internal, known=known
        )
        self._offsets = GroupOffsets(self._properties, self._nodes, self._client, self._start_offsets)

    async def _connect(self) -> None:
        self._client = Client(
            ",".join(await find_registered_brokers(self._store, self._properties.security.protocol)),
            client_id=self._properties["client.id"],
            request_timeout_ms=self._properties["request.timeout.ms"],
            network=self._network,
        )
        await self._client.connect()

    def create_streams(self, own: Registration) -> dict[tuple[str | None, int], StreamBuffer]:
        """The buffers of all streams, by topic (None with a filter) and number. Raises MessageStreamsExistException."""
        if self._own is not None:
            raise MessageStreamsExistException(
                "this connector has its streams already; name all topics in one call, or make another connector"
            )
        self._own = own
        topics: list[str | None] = [None] if own.pattern != STATIC else [*own.subscription]
        chunks_max = self._properties["queued.max.message.chunks"]
        for topic in topics:
            count = own.subscription[topic] if topic is not None else next(iter(own.subscription.values()))
            for number in range(count):
                self.buffers[topic, number] = StreamBuffer(self.lease, chunks_max=chunks_max)
        return self.buffers

    async def join(self) -> None:
        """Register, and try to own partitions once; further tries follow by themselves.

        Raises ConsumerRebalanceFailedException if the id is taken.
        """
        assert self._own is not None, "create_streams comes first"
        try:
            await self._register()
        except (StoreConnectionLost, StoreSessionExpired) as failure:
            logger.info("group %s: %s will be registered later: %s", self.group, self.id, failure)
        self._watched["session"] = self._store.on_session_change(self._session_changed)
        self._watch(paths.ids(self.group))
        if self._own.pattern == STATIC:
            for topic in self._own.subscription:
                self._watch(paths.topic(topic))
        else:
            self._watch(paths.TOPICS)
        self._wake.set()
        self._tasks.start(self._follow(), name="rebalance")
        self._tasks.start(self._keep_lease(), name="lease")
        self._tasks.start(self._start_late_ones(), name="late starts")
        if self.is_committing and self._properties["auto.commit.enable"]:
            self._tasks.start(self._commit_regularly(), name="commit")
        await self._has_tried.wait()

    async def close(self, caller: object = None) -> None:
        """Stop reading, commit if that is automatic, release and unregister. Streams end.

        What the `caller` itself has in hand is not waited for, nor committed: it may be closing because of an error.
        """
        if self._closed:
            return
        self._closed = True
        for unwatch in self._watched.values():
            unwatch()
        try:
            # A rebalance under way ends first. Cancelled, it would lose what it was about to commit.
            async with self._rebalancing:
                await self._tasks.close()
                await self._give_up(self._held, caller)
                for buffer in self.buffers.values():
                    buffer.close()
                await self._nodes.unregister()
        except StoreError as failure:
            logger.warning(
                "group %s: ZooKeeper did not learn of the end of %s: %s", self.group, self.id, failure
            )
        finally:
            for buffer in self.buffers.values():
                buffer.close()
            for reader in self._readers.values():
                await reader.close()
            await self._store.close()
            await self._client.close()

    # --- what programs ask for --------------------------------------------------------------------------------------

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that this consumer owns now."""
        return frozenset(self._held)

    @property
    def is_committing(self) -> bool:
        """Whether offsets are kept for the program."""
        return self._start_offsets is None

    async def commit(self, *, is_including_hand: bool = True) -> None:
        """Commit what was consumed: with the records in hand, since the program says so. Raises StoreError."""
        if is_including_hand:
            self._finish_hands()
        async with self._rebalancing:
            await self._commit(self._positions())

    def _finish_hands(self) -> None:
        for buffer in self.buffers.values():
            buffer.finish_hand()

    async def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue from `offset`, and commit it at once, so that it survives a rebalance.

        Raises InvalidConfigException for a partition that this consumer does not own.
        """
        self._finish_hands()
        async with self._rebalancing:
            number = self._held.get(partition)
            if number is None:
                raise InvalidConfigException(
                    f"partition {partition} is not owned by this consumer at the moment"
                )
            buffer = self._buffer_of(partition, number)
            buffer.revoke()
            starts = buffer.positions() | {partition: offset}
            if self.is_committing:
                await self._offsets.write({partition: offset}, is_rewinding=True)
            self._unstarted.pop(partition, None)
            if buffer in self._readers:
                await self._readers.pop(buffer).close()
            self._read(buffer, starts)

    # --- the session ------------------------------------------------------------------------------------------------

    async def _register(self) -> None:
        assert self._own is not None
        asked_at = lease_clock()
        await self._nodes.register(self._own, timestamp_ms=time.time_ns() // 1_000_000)
        self.lease.extend(asked_at)

    def _session_changed(self, state: SessionState) -> None:
        if state in (SessionState.EXPIRED, SessionState.CLOSED):
            self._lose("ZooKeeper ended the session")
        self._note_change()

    def _lose(self, reason: str) -> None:
        """Hand out and commit nothing more of what was owned."""
        self.lease.end()
        if self._held:
            logger.warning("group %s: %s owns nothing any more: %s", self.group, self.id, reason)
        self._held, self._unstarted = {}, {}
        self._unreleased.clear()
        for buffer in self.buffers.values():
            buffer.revoke()
            buffer.forget()

    async def _keep_lease(self) -> None:
        seconds = self._properties["zookeeper.session.timeout.ms"] / 1000 / _PINGS_PER_TIMEOUT
        while True:
            asked_at = lease_clock()
            was_valid = self.lease.is_valid
            try:
                if await self._nodes.is_registered():
                    self.lease.extend(asked_at)
                    if not was_valid:
                        for buffer in self.buffers.values():
                            buffer.notify()
                else:
                    self._note_change()
            except StoreError as failure:
                logger.debug("group %s: ZooKeeper does not answer: %s", self.group, failure)
            await asyncio.sleep(seconds)

    # --- rebalancing ------------------------------------------------------------------------------------------------

    def _watch(self, path: str) -> None:
        if path not in self._watched:
            self._watched[path] = self._store.watch(path, lambda _: self._note_change())

    def _note_change(self) -> None:
        self._changed_at = asyncio.get_running_loop().time()
        self._wake.set()

    async def _follow(self) -> None:
        pause_seconds = CONSUMER_REBALANCE_PAUSE_SECONDS_MIN
        while True:
            await self._wake.wait()
            await self._wait_for_quiet()
            self._wake.clear()
            if self._closed:  # `close` releases what it owns
                return
            is_settled = False
            try:
                async with self._rebalancing:
                    is_settled = await self._rebalance()
            except (StoreConnectionLost, StoreSessionExpired) as failure:
                logger.info("group %s: ZooKeeper did not answer: %s", self.group, failure)
            except OdradekError as failure:
                logger.error("group %s: %s owns nothing for now: %s", self.group, self.id, failure)
            self._has_tried.set()
            if is_settled:
                pause_seconds = CONSUMER_REBALANCE_PAUSE_SECONDS_MIN
            else:
                await self._wait_for_release(pause_seconds * self._random.uniform(0.5, 1))
                pause_seconds = min(pause_seconds * 2, self._properties["rebalance.backoff.ms"] / 1000)
                self._wake.set()

    async def _wait_for_release(self, seconds: float) -> None:
        """Pause after a try that failed, until the partition that prevented it is released at most."""
        path, released = self._nodes.blocked_by, asyncio.Event()
        unwatch = self._store.watch(path, lambda _: released.set()) if path else None
        try:
            async with asyncio.timeout(seconds):
                if path is None or await self._store.exists(path):
                    await released.wait()
        except TimeoutError:
            return
        except StoreError as failure:
            logger.debug("group %s: ZooKeeper does not answer: %s", self.group, failure)
            await asyncio.sleep(seconds)
        finally:
            if unwatch:
                unwatch()

    async def _wait_for_quiet(self) -> None:
        """Wait until changes stop for a moment, so that a group's start is few passes and not hundreds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + CONSUMER_CHANGES_SECONDS_MAX
        while (left := min(self._changed_at + CONSUMER_QUIET_SECONDS, until) - loop.time()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)

    async def _rebalance(self) -> bool:
        """Own what the group's present members leave to this one. False: try again."""
        assert self._own is not None
        await self._store.reopen()
        if not await self._nodes.is_registered():
            self._lose("its id node was gone")
            await self._register()
        await self._release()
        members = await self._nodes.members()
        if self.id not in members or self._closed:
            return self._closed
        names = self._own.subscription if self._own.pattern == STATIC else await self._nodes.topics()
        topics = await self._nodes.partitions(select_subscribed(self._own, names))
        for topic in topics:
            self._watch(paths.topic(topic))
        wanted = own_shares(self.id, members, topics)
        if wanted == self._held and self._session_of_held == self._store.session_id:
            return True
        await self._give_up(self._held)
        self._session_of_held = self._store.session_id
        # An answer that is lost leaves open whether they are owned.
        self._unreleased |= wanted.keys()
        if not await self._nodes.claim({key: thread_id(self.id, number) for key, number in wanted.items()}):
            self._unreleased.clear()
            return False
        return await self._take_up(wanted)

    async def _release(self) -> None:
        if self._unreleased:
            await self._nodes.release(sorted(self._unreleased))
            self._unreleased.clear()

    async def _give_up(self, held: Mapping[TopicPartition, int], caller: object = None) -> None:
        """Stop reading, commit what is finished, and release."""
        buffers = [buffer for buffer in self.buffers.values() if buffer in self._readers]
        for buffer in buffers:
            buffer.revoke()
        for buffer in buffers:
            await self._readers.pop(buffer).close()
        waited = [buffer for buffer in buffers if caller is None or buffer.taker != caller]
        await asyncio.gather(*(one.wait_until_asked(CONSUMER_RECORD_IN_HAND_SECONDS_MAX) for one in waited))
        positions = self._positions()
        for buffer in buffers:
            buffer.forget()
        self._unreleased |= held.keys()
        self._held, self._unstarted = {}, {}
        if self._properties["auto.commit.enable"]:
            await self._commit(positions)
        await self._release()

    async def _take_up(self, wanted: Mapping[TopicPartition, int]) -> bool:
        """Read what was claimed from the group's offsets on."""
        session_id = self._store.session_id
        try:
            starts = await self._offsets.starts(wanted)
        except OdradekError as failure:
            if isinstance(failure, OutOfRangeException):
                for buffer in self.buffers.values():
                    buffer.fail(failure)
            raise
        if self._store.session_id != session_id or self._store.session_state is SessionState.EXPIRED:
            return False
        self._held = dict(wanted)
        self._unreleased.clear()
        self._unstarted = {key: number for key, number in wanted.items() if key not in starts.offsets}
        for buffer, offsets in self._by_buffer(starts.offsets).items():
            self._read(buffer, offsets)
        self._note_unstarted(starts)
        logger.info("group %s: %s owns %d partitions", self.group, self.id, len(wanted))
        return True

    def _by_buffer(
        self, starts: Mapping[TopicPartition, int]
    ) -> dict[StreamBuffer, dict[TopicPartition, int]]:
        """The offsets of partitions that are held, by the streams that read them."""
        found: dict[StreamBuffer, dict[TopicPartition, int]] = {}
        for key, offset in starts.items():
            found.setdefault(self._buffer_of(key, self._held[key]), {})[key] = offset
        return found

    def _note_unstarted(self, starts: Starts) -> None:
        if not self._unstarted:
            return
        first = next(iter(self._unstarted))
        logger.warning(
            "group %s: %d partitions are owned and not read yet: %s",
            self.group,
            len(self._unstarted),
            starts.failures.get(first),
        )
        for key, failure in starts.failures.items():
            if not isinstance(failure, RETRIABLE_OR_LATE):
                self._buffer_of(key, self._held[key]).fail(failure)
        self._is_unstarted.set()

    async def _start_late_ones(self) -> None:
        """Read partitions that had no leader when they were claimed, as soon as a leader reports where they begin."""
        while True:
            await self._is_unstarted.wait()
            await asyncio.sleep(CONSUMER_FIRST_OFFSETS_PAUSE_SECONDS)
            asked = self._unstarted
            try:
                first = await self._offsets.find_first(list(asked))
            except OdradekError as failure:
                logger.debug("group %s: the first offsets are unknown, trying again: %s", self.group, failure)
                continue
            async with self._rebalancing:
                # Another rebalance has made another dictionary, and `seek` takes out what it starts.
                if asked is not self._unstarted:
                    continue
                starts = {key: offset for key, offset in first.offsets.items() if key in asked}
                for buffer, offsets in self._by_buffer(starts).items():
                    self._read_more(buffer, offsets)
                for key in starts:
                    del asked[key]
                if not asked:
                    self._is_unstarted.clear()

    def _read_more(self, buffer: StreamBuffer, starts: Mapping[TopicPartition, int]) -> None:
        if buffer not in self._readers:
            self._read(buffer, starts)
            return
        buffer.add(starts)
        self._readers[buffer].add(starts)

    def _read(self, buffer: StreamBuffer, starts: Mapping[TopicPartition, int]) -> None:
        buffer.begin(starts)
        self._readers[buffer] = self._reader(buffer, starts)

    def _reader(self, buffer: StreamBuffer, starts: Mapping[TopicPartition, int]) -> StreamFetcher:
        return StreamFetcher(self._client, self._properties, buffer, starts)

    def _buffer_of(self, key: TopicPartition, number: int) -> StreamBuffer:
        found = self.buffers.get((key.topic, number))
        return self.buffers[None, number] if found is None else found

    # --- offsets ----------------------------------------------------------------------------------------------------

    def _positions(self) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for buffer in self.buffers.values():
            found |= buffer.positions()
        return {key: offset for key, offset in found.items() if key in self._held}

    async def _commit(self, positions: Mapping[TopicPartition, int]) -> None:
        if positions and self.is_committing and self.lease.is_valid:
            await self._offsets.write(positions, is_rewinding=False)

    async def _commit_regularly(self) -> None:
        seconds = self._properties["auto.commit.interval.ms"] / 1000
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.commit(is_including_hand=False)
            except OdradekError as failure:
                logger.warning("group %s: offsets were not committed: %s", self.group, failure)


def thread_id(consumer_id: str, number: int) -> str:
    """The id of a consumer's stream, which owns partitions."""
    return f"{consumer_id}-{number}"


def shares(partitions: Collection[int], threads: Collection[str]) -> dict[int, str]:
    """The owner of each partition of one topic; none without threads."""
    if not threads:
        return {}
    ordered = sorted(threads)
    each, remainder = divmod(len(partitions), len(ordered))
    numbers = sorted(partitions)
    owners: dict[int, str] = {}
    start = 0
    # Of many threads most may get nothing.
    for position, thread in enumerate(ordered if each else ordered[:remainder]):
        end = start + each + (position < remainder)
        owners |= dict.fromkeys(numbers[start:end], thread)
        start = end
    return owners


def threads_of(topic: str, members: Mapping[str, Registration]) -> list[str]:
    """The threads of all members that read a topic."""
    return [
        thread_id(consumer_id, number)
        for consumer_id, member in members.items()
        for number in range(member.stream_count(topic))
    ]


def own_shares(
    consumer_id: str, members: Mapping[str, Registration], topics: Mapping[str, Collection[int]]
) -> dict[TopicPartition, int]:
    """The partitions of one member, each with the number of its stream. `topics` has the partitions of every topic."""
    own = members[consumer_id]
    # Hundreds of members and topics have few kinds of subscriptions, and so few lists of threads.
    kinds = {member.kind: member for member in members.values()}
    lists: dict[tuple[int, ...], list[str]] = {}
    mine: dict[TopicPartition, int] = {}
    for topic in select_subscribed(own, topics):
        counts = tuple(member.stream_count(topic) for member in kinds.values())
        if counts not in lists:
            lists[counts] = sorted(threads_of(topic, members))
        numbers = {thread_id(consumer_id, number): number for number in range(own.stream_count(topic))}
        for partition, thread in shares(topics[topic], lists[counts]).items():
            if thread in numbers:
                mine[TopicPartition(topic, partition)] = numbers[thread]
    return mine


def select_subscribed(member: Registration, topics: Iterable[str]) -> list[str]:
    """The topics among `topics` that a member reads."""
    return sorted(topic for topic in topics if member.stream_count(topic))
