"""Fuzzing with cost: requests whose time in the event loop, log lines or memory are more than their size allows.

    make fuzz-costs SECONDS=3600 SEED=1

A case is a kind of request that can be made of any size. It is sent to a whole broker at one size and at four times
that. The larger one may cost eight times as much. No turn of the loop may take longer than a bound, and what is logged
and kept is bounded. A case that exceeds this is made as small as it can be. Time is the processor's, so that other work
of the machine counts little; what exceeds is measured again before it is believed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import inspect
import logging
import os
import random
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

import psutil

from odradek.foundation.errors import OdradekError
from odradek.network.connection import Connection
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.framing import SIZE_BYTES
from odradek.wire.records.builder import build_batch
from odradek.wire.records.compression import Compression
from tests.fuzz import logins
from tests.fuzz.damage import START_MS
from tests.fuzz.requests import RequestMaker
from tests.support import memory_peaks
from tests.support.costs import YARDSTICK_CPU_SECONDS, measure_yardstick, set_heap_aside
from tests.support.large_requests import ROWS
from tests.support.loop import VirtualTimeLoop
from tests.support.rights import DELETE, DESCRIBE, GROUP, READ, acl
from tests.support.whole_broker import WholeBroker

# A turn is to take 20 ms at most, and a search for garbage may come on top. Both times are those of the machine that
# the yardstick is written for: a slower or busy one has longer ones.
TURN_SECONDS_MAX: Final = 0.06
GROWTH: Final = 4
RATIO_MAX: Final = 8.0
# Below this, ratios say nothing.
SECONDS_COMPARED_MIN: Final = 0.04
# Denials are logged up to 600 times a minute.
LOGGED_BYTES_MAX: Final = 160 * 1024
KEPT_BYTES_MAX: Final = 48 << 20
# While it is answered: some for any request, and a multiple of its bytes for decoded elements and their answers.
PEAK_BYTES_MAX: Final = 16 << 20
PEAK_TIMES_REQUEST_MAX: Final = 100
SIZES: Final = (500, 2000, 4000)
TRIES: Final = 3
CASES_PER_WORLD: Final = 12

AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}
WORLDS: Final[tuple[dict[str, str], ...]] = ({}, AUTHORIZER, logins.ENTRIES, {**logins.ENTRIES, **AUTHORIZER})


class Case(NamedTuple):
    """A kind of request: `body(size)` is its frame without the size of the frame."""

    name: str
    body: Callable[[int], memoryview]
    declared_bytes: Callable[[int], int] = lambda _: 0
    """Memory that a request of a size may take for a while by its nature, as a batch that is decompressed."""


class Cost(NamedTuple):
    """What a request took: of the loop in all and in its longest turn, of the log, and of memory afterwards."""

    seconds: float
    longest_seconds: float
    logged_bytes: int
    kept_bytes: int
    peak_bytes: int = 0
    """The most memory while it was answered, beyond that before it; 0 where the system does not count it."""
    request_bytes: int = 0


class Excess(NamedTuple):
    """A case that costs more than its size allows, at the smallest size that shows it."""

    case: str
    size: int
    reason: str


class Played(NamedTuple):
    """What was found in one world, and of how many requests."""

    excesses: list[Excess]
    requests: int


class CostLoop(VirtualTimeLoop):
    """Virtual time, and the processor's time of each turn; work for threads is not counted."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.longest_seconds = 0.0

    def reset(self) -> None:
        self.seconds = self.longest_seconds = 0.0

    def call_soon(  # type: ignore[override]  # as in the loop of virtual time
        self, callback: Any, *args: Any, context: Any = None
    ) -> Any:
        return super().call_soon(self._timed, callback, args, context=context)

    def _timed(self, callback: Any, args: Any) -> None:
        begin = time.thread_time()
        try:
            callback(*args)
        finally:
            self.took(time.thread_time() - begin)

    def took(self, seconds: float) -> None:
        self.seconds += seconds
        self.longest_seconds = max(self.longest_seconds, seconds)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except BaseException as failure:
                future.set_exception(failure)
            else:
                future.set_result(result)

        VirtualTimeLoop.call_soon(self, work)
        return future


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=CostLoop) as runner:
        return runner.run(coroutine)


class _Logged(logging.Handler):
    """Counts the bytes of lines, as a file would get them."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.size = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.size += len(self.format(record))


class CostWorld:
    """One broker, and what requests cost it. Make it with `await CostWorld.start(entries)`."""

    def __init__(self, whole: WholeBroker, entries: dict[str, str]) -> None:
        self._whole = whole
        self._entries = entries
        self._dispatch = whole.broker.listeners[0]._dispatch
        self._logs_in = entries.keys() >= logins.ENTRIES.keys()
        self._process = psutil.Process()
        self.judged = 0
        """Requests whose cost was judged."""

    @classmethod
    async def start(cls, entries: dict[str, str]) -> CostWorld:
        set_heap_aside()
        whole = await WholeBroker.start({"auto.create.topics.enable": "false", **entries})
        await whole.create_topic("known")
        await whole.create_topic("compacted", cleanup_policy="compact")
        await whole.create_topic("zstd", compression_type="zstd")
        # The coordinators serve from now on: requests to them are not refused before any work.
        whole.connection.principal = "User:root"
        for key_type in (0, 1):
            await whole.ask(ApiKey.FIND_COORDINATOR, 3, key_type=key_type, key="any")
        await asyncio.sleep(1)
        if "authorizer.class.name" in entries:
            # Groups may be described, their topics not: each name is looked at.
            await whole.broker.control.controller.create_acls(
                [acl(operation, GROUP, "*", principal="User:*") for operation in (DESCRIBE, READ, DELETE)]
            )
        return cls(whole, entries)

    async def stop(self) -> None:
        await self._whole.broker.stop()

    async def cost(self, case: Case, size: int) -> Cost:
        """What one request costs, sent by a client of its own."""
        connection = Connection(id=1, listener_name="PLAINTEXT", peer=("client.test", 5000))
        if self._logs_in:
            for frame in _frames(logins.right_login()):
                self._dispatch(connection, frame)
        body = case.body(size)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CostLoop)
        logged = _Logged()
        root = logging.getLogger("odradek")
        root.addHandler(logged)
        level = root.level
        root.setLevel(logging.INFO)
        gc.collect()
        gc.disable()
        # Else a turn may give back what earlier tests have freed.
        memory_peaks.give_back_free()
        before = self._process.memory_info().rss
        if memory_peaks.are_counted():
            memory_peaks.reset_peak()
        # A turn of its own: what made the request is not the broker's cost.
        await asyncio.sleep(0)
        loop.reset()
        answer: Any = None
        try:
            answer = self._dispatch(connection, body)
            if inspect.isawaitable(answer):
                answer = await asyncio.ensure_future(_waited(answer))
        except OdradekError:
            pass  # The connection would be closed.
        finally:
            gc.enable()
            root.removeHandler(logged)
            root.setLevel(level)
        # The turn of the answer is timed when it is over.
        await asyncio.sleep(0)
        seconds, longest = loop.seconds, loop.longest_seconds
        peak = memory_peaks.peak_bytes() - before if memory_peaks.are_counted() else 0
        size_of_request = len(body)
        del answer, body
        gc.collect()
        memory_peaks.give_back_free()
        kept = self._process.memory_info().rss - before
        return Cost(seconds, longest, logged.size, kept, peak, size_of_request)

    async def excess(self, case: Case, size: int) -> str | None:
        """The reason for which a case of this size costs too much; without one it does not."""
        reason = None
        for number in range(TRIES):
            # A broker that has made the request's changes would make none the next time.
            world = self if number == 0 else await CostWorld.start(self._entries)
            few = await world.cost(case, max(1, size // GROWTH))
            many = await world.cost(case, size)
            if world is not self:
                await world.stop()
            self.judged += 2
            reason = _reason(few, many, slowness=_slowness()) or _peak_reason(many, case.declared_bytes(size))
            if reason is None:
                return None
        return reason

    async def minimised(self, case: Case, size: int, reason: str) -> Excess:
        """The smallest size that still costs too much, as halving finds it."""
        while size > 1:
            smaller = await self.excess(case, size // 2)
            if smaller is None:
                break
            size, reason = size // 2, smaller
        return Excess(case.name, size, reason)


async def _waited(answer: Any) -> Any:
    return await answer


def _slowness() -> float:
    """How much longer this machine takes at the moment than the one that bounds are written for; 1 at least."""
    return max(1.0, measure_yardstick() / YARDSTICK_CPU_SECONDS)


def _reason(few: Cost, many: Cost, *, slowness: float) -> str | None:
    """What is too much of a request's cost, beside that of a quarter of it."""
    reasons = []
    if many.longest_seconds > TURN_SECONDS_MAX * slowness:
        reasons.append(f"a turn of {many.longest_seconds * 1000:.0f} ms")
    if many.seconds > SECONDS_COMPARED_MIN * slowness and many.seconds > RATIO_MAX * few.seconds:
        ratio = many.seconds / max(few.seconds, 1e-6)
        reasons.append(
            f"{GROWTH} times the size costs {ratio:.0f} times the time ({many.seconds * 1000:.0f} ms)"
        )
    if many.logged_bytes > LOGGED_BYTES_MAX:
        reasons.append(f"{many.logged_bytes} bytes of log")
    if many.kept_bytes > KEPT_BYTES_MAX:
        reasons.append(f"{many.kept_bytes >> 20} MB of memory that are not given back")
    return "; ".join(reasons) or None


def _peak_reason(cost: Cost, declared_bytes: int) -> str | None:
    """What is too much of a request's memory while it is answered."""
    bytes_max = PEAK_BYTES_MAX + PEAK_TIMES_REQUEST_MAX * cost.request_bytes + declared_bytes
    if cost.peak_bytes <= bytes_max:
        return None
    return f"a peak of {cost.peak_bytes >> 20} MB of memory, of {bytes_max >> 20} for its size"


def _frames(data: bytes) -> list[memoryview]:
    frames = []
    while data:
        end = SIZE_BYTES + int.from_bytes(data[:SIZE_BYTES], "big")
        frames.append(memoryview(bytearray(data[SIZE_BYTES:end])))
        data = data[end:]
    return frames


# --- cases --------------------------------------------------------------------------------------------------------


def bomb(topic: str, codec_: Compression) -> Case:
    """A batch of `size` KiB of zeros before it is compressed."""

    def body(size: int) -> memoryview:
        batch = build_batch([(START_MS, b"k", bytes(size * 1024))], compression=codec_)
        partitions = [{"index": 0, "records": bytes(batch)}]
        return _encoded(
            ApiKey.PRODUCE,
            9,
            messages.request(
                ApiKey.PRODUCE,
                9,
                acks=1,
                timeout=1000,
                topic_data=[{"name": topic, "partition_data": partitions}],
            ),
        )

    # What is decompressed is checked as a whole, and may be compressed again.
    return Case(
        f"a batch of {codec_.name} for the topic {topic}", body, declared_bytes=lambda size: 2048 * size
    )


def long_names(api: ApiKey, version: int, **fields: Any) -> Case:
    """A request with one name of `size` KiB, up to what the protocol allows."""

    def body(size: int) -> memoryview:
        name = "x" * min(size * 1024, 32_000)
        given = {key: value(name) for key, value in fields.items()}
        return _encoded(api, version, messages.request(api, version, **given), client_id=name)

    return Case(f"{api.name} with a long name", body)


def grown(chance: random.Random) -> Case:
    """A request of the fuzzer, one of whose arrays is repeated `size` times."""
    api, version, frame = RequestMaker(chance).request(7)
    message = _decoded(api, version, frame)
    arrays = [
        field.name
        for field in dataclasses.fields(message)
        if isinstance(getattr(message, field.name), tuple) and getattr(message, field.name)
    ]
    if not arrays:
        return Case(f"{api.name} version {version}", lambda _: memoryview(bytearray(frame[SIZE_BYTES:])))
    name = chance.choice(arrays)
    elements = getattr(message, name)

    def body(size: int) -> memoryview:
        repeated = (elements * (size // len(elements) + 1))[:size]
        return _encoded(api, version, dataclasses.replace(message, **{name: repeated}))

    return Case(f"{api.name} version {version} with many {name}", body)


def _decoded(api: ApiKey, version: int, frame: bytes) -> Any:
    from odradek.wire.protocol.framing import parse_request_header

    body = memoryview(frame)[SIZE_BYTES:]
    header = parse_request_header(body)
    return codec.decode_request(api, version, body, header.body_position)


def _encoded(api: ApiKey, version: int, message: Any, *, client_id: str = "costs") -> memoryview:
    return memoryview(bytearray(codec.encode_request(api, version, 7, client_id, message)))[SIZE_BYTES:]


def row(name: str) -> Case:
    """One of the large requests."""
    return Case(name, ROWS[name].body)


LONG_NAMES: Final = long_names(ApiKey.FIND_COORDINATOR, 3, key=lambda name: name, key_type=lambda _: 0)


def any_case(chance: random.Random) -> Case:
    kind = chance.random()
    if kind < 0.5:
        return row(chance.choice(sorted(ROWS)))
    if kind < 0.6:
        return bomb(chance.choice(("known", "compacted", "zstd")), chance.choice(list(Compression)[1:]))
    if kind < 0.65:
        return LONG_NAMES
    return grown(chance)


async def play(seed: int, entries: dict[str, str] | None = None, *, cases: int = CASES_PER_WORLD) -> Played:
    """What costs too much among some cases sent to one broker."""
    chance = random.Random(seed)
    world = await CostWorld.start(WORLDS[seed % len(WORLDS)] if entries is None else entries)
    found = []
    for _ in range(cases):
        case, size = any_case(chance), chance.choice(SIZES)
        reason = await world.excess(case, size)
        if reason is not None:
            found.append(await world.minimised(case, size, reason))
    await world.stop()
    return Played(found, world.judged)


def main(seconds: float, seed: int) -> int:
    """Exit code 0 when nothing costs too much."""
    logging.getLogger("odradek").propagate = False
    print(f"fuzzing costs for {seconds:.0f} s from seed {seed}", flush=True)
    begin = time.monotonic()
    worlds = requests = failures = 0
    while worlds == 0 or time.monotonic() - begin < seconds:
        played = run(play(seed + worlds))
        requests += played.requests
        for excess in played.excesses:
            failures += 1
            print(
                f"FAILED: {excess.case} of size {excess.size}: {excess.reason}\n"
                f"replay: make fuzz-costs SECONDS=0 SEED={seed + worlds}",
                flush=True,
            )
        worlds += 1
    verdict = "FAILED" if failures else "held"
    print(
        f"{verdict}: {requests} requests judged in {worlds} worlds, half of them behind a login; "
        f"{failures} cost more than their size allows"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(
        main(
            float(os.environ.get("SECONDS_TO_FUZZ") or 600),
            int(os.environ.get("SEED") or random.randrange(1 << 30)),
        )
    )
