"""Each event loop has its own value, and a closed one does not stay in memory for it."""

from __future__ import annotations

import asyncio
import gc
from weakref import ref

from odradek.client.classic.known_registrations import KnownRegistrations
from odradek.foundation.loop_turns import next_turn
from odradek.foundation.per_loop import PerLoop
from tests.support.loop import run


def test_a_loop_gets_the_same_value_again_and_another_loop_its_own() -> None:
    made: list[object] = []

    def make() -> object:
        made.append(object())
        return made[-1]

    values = PerLoop(make)

    async def ask_twice() -> None:
        assert values.get() is values.get() is made[-1]

    run(ask_twice())
    run(ask_twice())
    assert len(made) == 2

    async def forget_between() -> None:
        first = values.get()
        values.forget()
        assert values.get() is not first

    run(forget_between())


async def _take_a_turn() -> ref[asyncio.AbstractEventLoop]:
    await next_turn()
    return ref(asyncio.get_running_loop())


def test_a_loop_in_which_none_waits_is_forgotten_at_once() -> None:
    seen = run(_take_a_turn())
    gc.collect()
    assert seen() is None


def test_the_values_of_closed_loops_are_dropped_when_another_loop_asks() -> None:
    values = PerLoop(lambda: asyncio.get_running_loop().create_future())

    async def ask() -> ref[asyncio.AbstractEventLoop]:
        return ref(values.get().get_loop())

    seen = [run(ask()) for _ in range(3)]
    gc.collect()
    assert [loop() is None for loop in seen] == [True, True, False]


def test_closed_loops_are_forgotten_by_the_registrations_of_a_group() -> None:
    known = KnownRegistrations()

    async def read() -> None:
        async with known.reading():
            await asyncio.sleep(0)

    async def read_together() -> ref[asyncio.AbstractEventLoop]:
        await asyncio.gather(read(), read())
        return ref(asyncio.get_running_loop())

    seen = [run(read_together()) for _ in range(3)]
    gc.collect()
    assert [loop() is None for loop in seen] == [True, True, False]
