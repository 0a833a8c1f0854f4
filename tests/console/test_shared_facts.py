"""Facts that viewers share: asked once for all, rarely where they cost much, never without a viewer."""

from __future__ import annotations

import asyncio

import pytest

from odradek.client.errors import ClientClosed, ConnectionFailed
from odradek.console.shared_facts import SharedDetails, SharedFact
from odradek.foundation.console_limits import CONSOLE_REST_FACTOR
from odradek.foundation.tasks import TaskOwner


class Asked:
    """Counts questions; each takes a second of waiting, and `cost` of the processor."""

    def __init__(self, *, cost: float = 0.0) -> None:
        self.count = 0
        self.spent = 0.0
        self.cost = cost
        self.failure: Exception | None = None
        self.tasks = TaskOwner("test")
        self.fact = SharedFact("fact", self.ask, tasks=self.tasks, seconds_min=5.0, spent=lambda: self.spent)

    async def ask(self) -> int:
        self.count += 1
        await asyncio.sleep(1)
        self.spent += self.cost
        if self.failure is not None:
            raise self.failure
        return self.count


async def test_a_hundred_viewers_ask_once() -> None:
    asked = Asked()
    known = await asyncio.gather(*(asked.fact.get() for _ in range(100)))
    assert {one.value for one in known} == {1}
    await asyncio.sleep(4)
    assert (await asked.fact.get()).value == 1
    await asyncio.sleep(2)
    assert (await asked.fact.get()).value == 2
    await asyncio.sleep(3600)
    assert asked.count == 2, "no viewer, no question"


async def test_what_costs_much_is_asked_rarely() -> None:
    asked = Asked(cost=2.0)
    await asked.fact.get()
    await asyncio.sleep(2.0 * CONSOLE_REST_FACTOR - 1)
    assert (await asked.fact.get()).value == 1
    await asyncio.sleep(2)
    assert (await asked.fact.get()).value == 2


async def test_a_failure_is_shared_and_ends() -> None:
    asked = Asked()
    asked.failure = ConnectionFailed("no broker")
    outcomes = await asyncio.gather(*(asked.fact.get() for _ in range(3)), return_exceptions=True)
    assert outcomes == [asked.failure] * 3 and asked.count == 1
    with pytest.raises(ConnectionFailed):
        await asked.fact.get()
    assert asked.count == 1
    asked.failure = None
    await asyncio.sleep(6)
    assert (await asked.fact.get()).value == 2


async def test_a_viewer_that_leaves_does_not_end_the_question_of_others() -> None:
    asked = Asked()
    leaving, staying = asyncio.create_task(asked.fact.get()), asyncio.create_task(asked.fact.get())
    await asyncio.sleep(0.5)
    leaving.cancel()
    assert (await staying).value == 1


async def test_a_change_is_seen_at_once() -> None:
    asked = Asked()
    await asked.fact.get()
    asked.fact.forget()
    assert (await asked.fact.get()).value == 2


async def test_an_answer_from_before_a_change_is_not_kept() -> None:
    asked = Asked()
    early = asyncio.create_task(asked.fact.get())
    await asyncio.sleep(0.5)
    asked.fact.forget()
    late = asyncio.create_task(asked.fact.get())
    await asyncio.gather(early, late)
    assert (await asked.fact.get()).asked_ms == (await late).asked_ms
    assert asked.count == 2
    assert await asked.fact.get() is await late is not await early


async def test_details_are_kept_for_those_looked_at_last() -> None:
    asked: list[str] = []

    async def ask(name: str) -> str:
        asked.append(name)
        return name

    details = SharedDetails("detail", ask, tasks=TaskOwner("test"), seconds_min=60.0, kept_max=2)
    for name in ("a", "b", "a", "c", "a", "b"):
        assert (await details.get(name)).value == name
    assert asked == ["a", "b", "c", "b"]
    details.forget()
    await details.get("a")
    assert asked[-1] == "a"


async def test_a_viewer_whose_login_ends_is_told() -> None:
    asked = Asked()
    waiting = asyncio.ensure_future(asked.fact.get())
    await asyncio.sleep(0.5)
    await asked.tasks.close()
    for question in (waiting, asked.fact.get()):
        with pytest.raises(ClientClosed, match="this login has ended"):
            await question
    assert asked.count == 1
