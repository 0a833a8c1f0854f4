"""How many functions a leader calls for one record that two followers take, from its arrival to all answers.

Each call is a tenth of a microsecond and more, and none stands out: their number is what a lone record costs. It counts
what runs for the leader's connections: the Produce, both followers' fetches, and what they wake.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any, Final

import pytest

import odradek
from tests.support.loop import run
from tests.support.network import MemoryTransport
from tests.support.whole_cluster import WholeCluster

FUNCTIONS_MAX: Final = 295
BUILT_INS_MAX: Final = 250
RECORDS: Final = 9
_ROOT: Final = str(Path(odradek.__file__).parent)
# Where the bytes arrived for which code runs now.
_HOST: ContextVar[str] = ContextVar("host", default="")


@pytest.fixture(autouse=True)
def _known_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = MemoryTransport.receive

    def receive_at(self: MemoryTransport, piece: bytes) -> None:
        token = _HOST.set(self.local[0])
        try:
            receive(self, piece)
        finally:
            _HOST.reset(token)

    monkeypatch.setattr(MemoryTransport, "receive", receive_at)


@contextmanager
def _counted(host: str) -> Iterator[Counter[str]]:
    counts: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event in ("call", "c_call") and frame.f_code.co_filename.startswith(_ROOT) and _HOST.get() == host:
            counts[event] += 1

    sys.setprofile(note)
    try:
        yield counts
    finally:
        sys.setprofile(None)


def test_a_lone_replicated_record_takes_few_calls() -> None:
    async def story() -> list[Counter[str]]:
        cluster = await WholeCluster.start(brokers=3)
        cluster.network.piece_bytes_max = 2**30
        assert await cluster.create_topic("t", assignment=[[1, 2, 3]]) == 0
        await cluster.until(lambda: "t" in cluster.image(1).topics)
        counted = []
        for number in range(RECORDS):
            await asyncio.sleep(0.2)
            with _counted(cluster.host(1)) as counts:
                answer = await cluster.produce(1, "t", 0, b"v", acks=-1)
                await asyncio.sleep(0.1)
            assert (answer.error_code, answer.base_offset) == (0, number)
            counted.append(counts)
        return counted

    counted = run(story())
    functions, built_ins = (median(one[event] for one in counted) for event in ("call", "c_call"))
    assert 100 < functions <= FUNCTIONS_MAX, f"{functions} functions of the product"
    assert built_ins <= BUILT_INS_MAX, f"{built_ins} built-in functions"
