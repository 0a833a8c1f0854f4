"""The watches of several namespaces, with virtual time: each namespace lives, ends and comes back by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count

import pytest

from odradek_operator.gateways.kubernetes import CLUSTERS, TOPICS, Api, EventType
from odradek_operator.main.watches import (
    PAUSE_SECONDS_MAX,
    REMINDER_SECONDS,
    SILENT_SECONDS_MAX,
    NamespaceWatches,
    NoteAnswer,
    WatchesEnded,
)

KINDS = (TOPICS, CLUSTERS)
MINUTE = 60.0


class Server:
    """An API server: `answers` gives the status of each namespace's watches, None for no answer at all."""

    def __init__(self, **answers: int | None) -> None:
        self.answers = answers
        self.silent: set[tuple[str, Api]] = set()
        self.begun: list[str] = []
        self.events: list[tuple[EventType, str, str]] = []
        self.fails: Exception | None = None

    async def watch(self, namespace: str | None, note: NoteAnswer) -> None:
        """As kopf does: a request a minute for each kind."""
        assert namespace is not None
        self.begun.append(namespace)
        for _ in count():
            if self.fails is not None:
                raise self.fails
            for api in KINDS:
                status = self.answers[namespace]
                if status is not None and (namespace, api) not in self.silent:
                    note(api, status)
            await one_minute()

    async def report(self, type: EventType, reason: str, message: str) -> None:
        self.events.append((type, reason, message))


async def one_minute() -> None:
    await asyncio.sleep(MINUTE)


@asynccontextmanager
async def watching(server: Server) -> AsyncIterator[NamespaceWatches]:
    watches = NamespaceWatches(tuple(server.answers), KINDS, watch=server.watch, report=server.report)
    running = asyncio.ensure_future(watches.run())
    try:
        yield watches
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.wait({running})


def left_out(watches: NamespaceWatches) -> set[str]:
    samples = [sample for sample in watches.samples() if "left_out" in sample.metric.name]
    return {sample.labels[0] for sample in samples if sample.value}


async def test_watches_that_are_answered_are_ready_for_ever() -> None:
    server = Server(a=200, b=200)
    async with watching(server) as watches:
        assert "not up yet" in (watches.find_problem() or "")
        for _ in range(60):
            await one_minute()
            assert watches.find_problem() is None and not left_out(watches)
    assert server.begun == ["a", "b"] and not server.events


@pytest.mark.parametrize("status", [403, 404])
async def test_a_namespace_that_refuses_is_left_out_and_taken_back(status: int) -> None:
    server = Server(a=200, gone=status)
    async with watching(server) as watches:
        await asyncio.sleep(5)
        assert watches.find_problem() is None and left_out(watches) == {"gone"}
        ((type, _, message),) = server.events
        assert type == EventType.WARNING and "the namespace gone" in message and str(status) in message
        await asyncio.sleep(10 * MINUTE)
        assert watches.find_problem() is None and server.begun.count("a") == 1
        server.answers["gone"] = 200
        await asyncio.sleep(PAUSE_SECONDS_MAX + 1)
        assert watches.find_problem() is None and not left_out(watches)
        assert server.events[-1][:2] == (EventType.NORMAL, "Watched")
        # Its Role is taken away while it is watched.
        server.answers["gone"] = 403
        await asyncio.sleep(MINUTE + 1)
        assert left_out(watches) == {"gone"} and server.events[-1][1] == "NotWatched"


async def test_a_refusal_for_hours_is_told_at_a_bounded_rate() -> None:
    server = Server(a=200, gone=403)
    seconds = 3 * 60 * MINUTE
    async with watching(server):
        await asyncio.sleep(seconds)
    assert len(server.events) <= seconds / REMINDER_SECONDS + 2
    assert server.begun.count("gone") <= seconds / PAUSE_SECONDS_MAX + 10


async def test_one_kind_without_an_answer_is_not_ready_and_is_begun_again() -> None:
    server = Server(a=200, b=200)
    async with watching(server) as watches:
        await asyncio.sleep(1)
        server.silent.add(("b", TOPICS))
        await asyncio.sleep(SILENT_SECONDS_MAX + 2)
        problem = watches.find_problem() or ""
        assert "topics" in problem and "the namespace b" in problem
        assert server.begun.count("b") == 2 and server.begun.count("a") == 1
        server.silent.clear()
        await asyncio.sleep(MINUTE)
        assert watches.find_problem() is None and not left_out(watches)


def end(server: Server) -> None:
    server.fails = RuntimeError("out of order")


def hang(server: Server) -> None:
    server.answers = dict.fromkeys(server.answers)


def refuse(server: Server) -> None:
    server.answers = dict.fromkeys(server.answers, 403)


@pytest.mark.parametrize("fault", [end, hang, refuse])
async def test_a_process_that_hears_nothing_ends(fault: Callable[[Server], None]) -> None:
    server = Server(a=200, b=200)
    watches = NamespaceWatches(("a", "b"), KINDS, watch=server.watch, report=server.report)
    running = asyncio.ensure_future(watches.run())
    await asyncio.sleep(10 * MINUTE)
    assert watches.find_problem() is None
    fault(server)
    fails_at = asyncio.get_running_loop().time()
    with pytest.raises(WatchesEnded):
        await running
    assert watches.find_problem() is not None
    assert asyncio.get_running_loop().time() - fails_at <= SILENT_SECONDS_MAX


async def test_watches_that_end_by_themselves_are_begun_again() -> None:
    server = Server(a=200)
    async with watching(server) as watches:
        await asyncio.sleep(1)
        end(server)
        await asyncio.sleep(MINUTE)
        assert "out of order" in server.events[-1][2]
        server.fails = None
        await asyncio.sleep(MINUTE)
        assert watches.find_problem() is None and not left_out(watches)
