"""One broker in memory under fire, and what must hold all the while.

A world is a whole broker on a simulated disk and network in virtual time. In each episode hostile clients connect, send
whole, damaged and random frames, and leave. For everything that they send:

- no handler fails: nothing is logged as an error, no task dies, no answer says UNKNOWN_SERVER_ERROR;
- a request that its schema allows is answered or refused by closing, in order, with an answer that can be read;
- no request takes more than CPU_SECONDS_MAX of processor time;
- afterwards the broker answers others, and nothing of those clients is left: connections, waiting fetches, tasks;
- it stops cleanly, and starts again from what they made it write.

A world is made of its seed alone, so a failure replays.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from types import FrameType
from typing import Any, Final

from odradek.broker.process.broker_process import BrokerProcess
from odradek.broker.replication.partition import Partition
from odradek.broker.requests.table import HANDLERS
from odradek.foundation.errors import InvalidRequest
from odradek.foundation.ids import ANONYMOUS
from odradek.foundation.limits import LOGIN_SECONDS_MAX
from odradek.network.connection import Connection
from odradek.storage.log import Log
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_response, encode_request
from odradek.wire.protocol.framing import FrameReader
from odradek.wire.protocol.messages import request
from tests.fuzz import logins
from tests.fuzz.damage import changed, edge
from tests.fuzz.requests import RequestMaker
from tests.support.framing import feed
from tests.support.whole_broker import WholeBroker

CPU_SECONDS_MAX: Final = 20.0
EPISODES_PER_WORLD: Final = 120
REQUESTS_PER_PEER_MAX: Final = 12
# Of the episodes of a world with logins, how many are played by clients without a password.
STRANGERS_PART: Final = 0.4
UNKNOWN_SERVER_ERROR: Final = -1
# Made by fuzzing itself when it creates topics; a world with more would only be slow.
PARTITIONS_PER_WORLD_MAX: Final = 2000
ENTRIES: Final = {
    "auto.create.topics.enable": "true",
    "num.partitions": "2",
    "offsets.topic.num.partitions": "3",
    "socket.request.max.bytes": "2000000",
    "group.initial.rebalance.delay.ms": "50",
}


class FuzzFailure(AssertionError):
    """Something that must hold did not."""


class TooSlow(Exception):
    """Raised within the broker when one request takes too long; a handler that catches it logs it."""


class Watch(logging.Handler):
    """Collects what the broker logs as an error, and failures that reached the loop."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        self.failures: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.failures.append(self.format(record))

    def loop_failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        failure = context.get("exception")
        self.failures.append(f"{context.get('message')}: {failure!r}")


@contextmanager
def watching() -> Iterator[Watch]:
    watch = Watch()
    root = logging.getLogger("odradek")
    propagate, level = root.propagate, root.level
    root.addHandler(watch)
    root.propagate = False
    root.setLevel(logging.ERROR)
    before = signal.signal(signal.SIGVTALRM, _too_slow)
    try:
        yield watch
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        root.removeHandler(watch)
        root.propagate = propagate
        root.setLevel(level)


def _too_slow(_: int, frame: FrameType | None) -> None:
    raise TooSlow(f"more than {CPU_SECONDS_MAX} s of processor time for one step")


class Stranger(asyncio.Protocol):
    """Sends frames and reads what comes back."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.is_lost = asyncio.Event()
        self.frames: list[bytes] = []
        self._reader = FrameReader(1 << 30)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.frames += [bytes(frame) for frame in feed(self._reader, data)]

    def connection_lost(self, failure: Exception | None) -> None:
        self.is_lost.set()


class FuzzedBroker:
    """`await FuzzedBroker.play(seed, watch)` plays one to its end; raises FuzzFailure.

    With `logins` clients log in before they send, but for some that never manage to.
    """

    def __init__(self, seed: int, watch: Watch, *, logins: bool = False) -> None:
        self._logins = logins
        self.chance = random.Random(seed)
        self.maker = RequestMaker(self.chance)
        self.watch = watch
        self.requests = 0
        self.broker: WholeBroker
        self.sent: list[str] = []

    @classmethod
    async def play(
        cls, seed: int, watch: Watch, *, episodes: int = EPISODES_PER_WORLD, logins: bool = False
    ) -> int:
        """The number of requests sent."""
        world = cls(seed, watch, logins=logins)
        asyncio.get_running_loop().set_exception_handler(watch.loop_failed)
        try:
            await world._play(seed, episodes)
        except FuzzFailure as failure:
            raise FuzzFailure(f"{failure}\nthe episode sent: {', '.join(world.sent)}") from failure
        return world.requests

    async def _play(self, seed: int, episodes: int) -> None:
        entries = {**ENTRIES, **logins.ENTRIES} if self._logins else ENTRIES
        self.broker = await WholeBroker.start(entries, seed=seed)
        await self.broker.create_topic("plain")
        await self.broker.create_topic("compacted", cleanup_policy="compact")
        await self.broker.create_topic("wide", partitions=5, max_message_bytes="5000")
        coordinators = self.broker.broker.coordinators
        served = (coordinators.groups, coordinators.transactions, coordinators.shares)
        assert None not in served, "their tasks are there from the start, so that they can be counted"
        for number in range(episodes):
            self._limit_time()
            self.sent = []
            if self._logins and self.chance.random() < STRANGERS_PART:
                await self._stay_out()
            else:
                await self._episode()
            self._check(f"episode {number}")
            topics = self.broker.broker.images.current.topics.values()
            if sum(len(topic.partitions) for topic in topics) > PARTITIONS_PER_WORLD_MAX:
                break
        self._limit_time()
        restarted = await self.broker.restart()
        self._check("the restart")
        await self._probe(restarted)
        await restarted.broker.stop()
        self._check("the second stop")

    # --- an episode ----------------------------------------------------------------------------------------

    async def _episode(self) -> None:
        tasks_before = len(asyncio.all_tasks())
        peers = [await self._connect(self.broker) for _ in range(self.chance.choice((1, 1, 2, 3)))]
        awaited: list[list[tuple[ApiKey, int, int] | None]] = [[] for _ in peers]
        for _ in range(self.chance.randint(1, REQUESTS_PER_PEER_MAX)):
            for peer, expected in zip(peers, awaited, strict=True):
                self._send(peer, expected)
            if self.chance.random() < 0.7:  # answers come, and teach the next requests
                await asyncio.sleep(self.chance.choice((0.01, 0.1)))
        await asyncio.sleep(self.chance.choice((0.05, 1, 1, 20, 120, 4000)))
        for peer, expected in zip(peers, awaited, strict=True):
            self._read(peer, expected)
            peer.transport.close() if self.chance.random() < 0.7 else peer.transport.abort()
        await asyncio.gather(*(peer.is_lost.wait() for peer in peers))
        await self._probe(self.broker)
        await self._settle(tasks_before)

    async def _connect(self, broker: WholeBroker) -> Stranger:
        peer = await self._reach(broker)
        # A restarted broker is one without logins.
        if broker.broker.secured.logins:
            peer.transport.write(logins.right_login())
            await asyncio.sleep(1)
            if len(peer.frames) != 2:
                raise FuzzFailure("the right password is refused")
            peer.frames.clear()
        return peer

    async def _reach(self, broker: WholeBroker) -> Stranger:
        (endpoint,) = broker.broker.endpoints
        _, peer = await broker.network.at("stranger.test").connect(
            Stranger, host=endpoint.host, port=endpoint.port
        )
        return peer  # type: ignore[no-any-return]

    async def _stay_out(self) -> None:
        """Clients that try to log in and have no password: none gets a name, and all are soon gone."""
        tasks_before = len(asyncio.all_tasks())
        peers = [await self._reach(self.broker) for _ in range(self.chance.randint(1, 5))]
        for peer in peers:
            for frame in logins.wrong_login(self.chance):
                peer.transport.write(frame)
                self.requests += 1
                if self.chance.random() < 0.5:
                    await asyncio.sleep(self.chance.choice((0.01, 0.2)))
        for listener in self.broker.broker.listeners:
            if named := [one for one in listener.connections if one.principal != ANONYMOUS]:
                raise FuzzFailure(f"{named} got a name without a password")
        await asyncio.sleep(LOGIN_SECONDS_MAX + 1)
        if not all(peer.is_lost.is_set() for peer in peers):
            raise FuzzFailure("a client that has not logged in stays connected")
        await self._probe(self.broker)
        await self._settle(tasks_before)

    def _send(self, peer: Stranger, expected: list[tuple[ApiKey, int, int] | None]) -> None:
        """One frame: as the schema allows, damaged, or nothing like a request."""
        chance = self.chance
        self.requests += 1
        kind = chance.random()
        if kind < 0.03:
            frame = chance.randbytes(chance.randrange(300))
            frame = struct.pack(">i", len(frame)) + frame if chance.random() < 0.7 else frame
            expected.append(None)
            self.sent.append("noise")
        elif kind < 0.04:
            frame = edge(chance, 4) + chance.randbytes(chance.randrange(100))
            expected.append(None)
            self.sent.append("a size")
        else:
            correlation_id = chance.getrandbits(31)
            api_key, version, frame = self.maker.request(correlation_id)
            self.sent.append(f"{'damaged ' if kind < 0.3 else ''}{api_key.name} {version}")
            if kind < 0.3:
                body = changed(chance, frame[4:])
                frame = struct.pack(">i", len(body)) + body
                expected.append(None)
            else:
                expected.append((api_key, version, correlation_id))
        peer.transport.write(frame)

    def _read(self, peer: Stranger, expected: list[tuple[ApiKey, int, int] | None]) -> None:
        """Compare the answers with the requests, as far as these were whole and so had to be answered in order."""
        whole = {one[2]: one for one in expected if one is not None}
        order = [one[2] for one in expected if one is not None]
        last = -1
        for frame in peer.frames:
            (correlation_id,) = struct.unpack_from(">i", frame)
            if correlation_id not in whole:
                continue  # to a damaged request that could be read all the same
            api_key, version, _ = whole[correlation_id]
            position = order.index(correlation_id)
            if position <= last:
                raise FuzzFailure(f"the answer to {api_key.name} came out of order")
            last = position
            try:
                _, message = decode_response(api_key, version, memoryview(frame))
            except InvalidRequest as failure:
                raise FuzzFailure(f"the answer to {api_key.name} version {version}: {failure}") from failure
            self._check(f"{api_key.name} version {version}")
            if says_unknown_error(message):
                raise FuzzFailure(f"{api_key.name} version {version} was answered {message}")
            self.maker.learn(message)

    # --- what must hold ------------------------------------------------------------------------------------

    def _limit_time(self) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS_MAX)

    def _check(self, when: str) -> None:
        if self.watch.failures:
            raise FuzzFailure(f"{when}:\n" + "\n".join(self.watch.failures))

    async def _probe(self, broker: WholeBroker) -> None:
        """A well-behaved client is answered."""
        peer = await self._connect(broker)
        frame = encode_request(
            ApiKey.API_VERSIONS,
            3,
            77,
            "probe",
            request(ApiKey.API_VERSIONS, 3, client_software_name="probe", client_software_version="1"),
        )
        peer.transport.write(frame)
        await asyncio.sleep(1)
        if len(peer.frames) != 1:
            raise FuzzFailure("the broker no longer answers ApiVersions")
        correlation_id, message = decode_response(ApiKey.API_VERSIONS, 3, memoryview(peer.frames[0]))
        if correlation_id != 77 or len(message.api_keys) != len(HANDLERS):
            raise FuzzFailure(f"the broker answers ApiVersions with {message}")
        peer.transport.close()
        await peer.is_lost.wait()

    async def _settle(self, tasks_before: int) -> None:
        """Nothing of disconnected clients is kept: requests under way may take their time, then all is as before."""
        for _ in range(5):
            connections = self.broker.broker.admission.connections
            tasks = len(asyncio.all_tasks()) - tasks_before
            if connections == 0 and tasks <= 0 and not len(self.broker.broker.purgatory):
                return
            # Joins wait as long as they asked to, up to group.max.session.timeout.ms and some.
            await asyncio.sleep(2000)
        waiting = len(self.broker.broker.purgatory)
        names = sorted(task.get_name() for task in asyncio.all_tasks())
        raise FuzzFailure(
            f"left behind: {connections} connections, {waiting} fetches, {tasks} tasks of {names}"
        )


def left_over() -> list[str]:
    """Parts of brokers that are still in memory; none may be once a world is over."""
    gc.collect()
    # By type, not isinstance: a lazy proxy of some library would import its module.
    kinds = (BrokerProcess, Partition, Connection, Log, Stranger)
    return sorted(type(one).__name__ for one in gc.get_objects() if type(one) in kinds)


def says_unknown_error(message: Any) -> bool:
    """Whether an `error_code` anywhere in an answer is UNKNOWN_SERVER_ERROR."""
    for field in dataclass_fields(message):
        value = getattr(message, field.name)
        if field.name == "error_code" and int(value) == UNKNOWN_SERVER_ERROR:
            return True
        for element in value if isinstance(value, tuple) else (value,):
            if is_dataclass(element) and says_unknown_error(element):
                return True
    return False
