"""Connections take turns: with pipelined requests, and with the steps of TLS handshakes."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from odradek.foundation.turn_limits import PIPELINED_SECONDS_PER_TURN_MAX
from odradek.network.handshake_turns import Handshakes
from odradek.network.request_turns import RequestTurns
from tests.network.support import Stage, framed
from tests.support.loop import run

FLOOD = 5000


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Pipeline:
    """A connection whose turns take half of what all have together."""

    def __init__(self, name: str, turns: RequestTurns, clock: Clock, served: list[str]) -> None:
        self._name = name
        self._turns = turns
        self._clock = clock
        self._served = served
        self.left = 2

    def take_turn(self) -> None:
        self._clock.seconds += PIPELINED_SECONDS_PER_TURN_MAX / 2
        self._served.append(self._name)
        self.left -= 1
        if self.left:
            self._turns.wait(self)


def test_many_pipelines_have_one_bounded_part_of_each_turn() -> None:
    async def story() -> None:
        clock, served = Clock(), list[str]()
        turns = RequestTurns(clock)
        for name in "abcdef":
            turns.wait(Pipeline(name, turns, clock, served))
        per_turn = []
        while len(served) < 12:
            before = len(served)
            await asyncio.sleep(0)
            per_turn.append(len(served) - before)
        assert max(per_turn) == 3
        assert "".join(served) == "abcdefabcdef"

    run(story())


class Faulty:
    """Fails in its turn."""

    address = "192.0.2.1"

    def take_turn(self) -> None:
        raise ValueError("a fault")

    step = take_turn


class Counted:
    """Counts its turns."""

    address = "192.0.2.2"
    turns = 0

    def take_turn(self) -> None:
        self.turns += 1

    step = take_turn


@pytest.mark.parametrize("of", ["requests", "handshakes"])
def test_a_fault_in_one_turn_ends_no_others_turns(of: str) -> None:
    async def story() -> None:
        failures: list[Any] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
        wait = RequestTurns(Clock()).wait if of == "requests" else cast(Any, Handshakes().step_soon)
        counted = [Counted(), Counted(), Counted()]
        wait(Faulty())
        for one in counted[:2]:
            wait(one)
        for _ in range(5):
            await asyncio.sleep(0)
        wait(counted[2])
        await asyncio.sleep(0)
        assert [one.turns for one in counted] == [1, 1, 1]
        assert [str(one) for one in failures] == ["a fault"]

    run(story())


async def _echoed(stage: Stage, count: int) -> list[bytes]:
    peer = await stage.peer()
    bodies = [b"%d" % number for number in range(count)]
    peer.send(*bodies)
    return await peer.frames(count)


def test_thousands_of_requests_at_once_are_answered_in_order() -> None:
    async def story() -> None:
        async with Stage(lambda connection, frame: framed(bytes(frame))) as stage:
            assert await _echoed(stage, FLOOD) == [b"%d" % number for number in range(FLOOD)]

    run(story())


class Stream:
    """What `Handshakes` sees of a connection."""

    def __init__(self, address: str, handshakes: Handshakes, steps: list[str]) -> None:
        self.address = address
        self._handshakes = handshakes
        self._steps = steps
        self.failure: Exception | None = None

    def step(self) -> None:
        self._steps.append(self.address)

    def fail(self, failure: Exception) -> None:
        self.failure = failure
        self._handshakes.end(cast(Any, self))


def test_a_flood_of_handshakes_ends_its_own_and_waits_for_itself() -> None:
    async def story() -> None:
        handshakes = Handshakes(open_max=10)
        steps: list[str] = []
        honest = Stream("honest", handshakes, steps)
        others = [Stream("flood", handshakes, steps) for _ in range(100)]
        for stream in (*others[:50], honest, *others[50:]):
            handshakes.begin(cast(Any, stream))
            handshakes.step_soon(cast(Any, stream))
        assert honest.failure is None
        assert len(handshakes) == 10
        assert "most" in str(others[0].failure)
        while len(steps) < 101:
            await asyncio.sleep(0)
        assert steps.index("honest") <= 1
        handshakes.close()

    run(story())
