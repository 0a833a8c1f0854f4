"""The thread that runs a loop for programs without one: its calls, their errors, and its end."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest

from odradek import sync
from odradek.client.own_loops import EngineThread
from odradek.errors import ClientClosed
from tests.support.polling import wait_until


@pytest.fixture
def engine() -> Iterator[EngineThread]:
    made = EngineThread("engine of a test", closed_error=ClientClosed)
    yield made
    made.close()


async def for_ever() -> None:
    await asyncio.Event().wait()


def test_calls_of_several_threads_are_tasks_of_one_loop(engine: EngineThread) -> None:
    both = asyncio.Barrier(2)
    found: list[asyncio.AbstractEventLoop] = []

    async def meet() -> None:
        await both.wait()
        found.append(asyncio.get_running_loop())

    threads = [threading.Thread(target=engine.call, args=(meet,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2 and found[0] is found[1]


def test_an_error_before_the_first_wait_is_the_callers(engine: EngineThread) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrong'"):
        engine.call(lambda: for_ever(wrong=1))  # type: ignore[call-arg]


def test_the_end_stops_a_call_that_waits() -> None:
    engine = EngineThread("engine of a test", closed_error=ClientClosed)
    failures: list[BaseException] = []
    has_begun = threading.Event()

    async def work() -> None:
        has_begun.set()
        await for_ever()

    def wait() -> None:
        try:
            engine.call(work)
        except ClientClosed as failure:
            failures.append(failure)

    thread = threading.Thread(target=wait)
    thread.start()
    has_begun.wait()
    engine.close()
    thread.join()
    assert [str(one) for one in failures] == ["the client was closed while this call waited"]
    with pytest.raises(ClientClosed, match="this client is closed; make another"):
        engine.call(for_ever)
    assert engine.read(lambda: 7) == 7
    engine.close()


def test_an_interrupt_cancels_the_work_and_waits_for_its_end(
    engine: EngineThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = threading.Event.wait
    calls: list[int] = []

    def wait_or_interrupt(event: threading.Event, timeout: float | None = None) -> bool:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return waiting(event, timeout)

    monkeypatch.setattr(threading.Event, "wait", wait_or_interrupt)
    with pytest.raises(KeyboardInterrupt):
        engine.call(for_ever)
    assert engine.read(lambda: len(asyncio.all_tasks())) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_a_program_ended_leaves_no_call_waiting() -> None:
    engine = EngineThread("engine of a test", closed_error=ClientClosed)

    async def end() -> None:
        def leave() -> None:
            raise SystemExit

        asyncio.get_running_loop().call_soon(leave)
        await for_ever()

    with pytest.raises(ClientClosed, match="was closed while this call waited"):
        engine.call(end)
    assert engine.is_closed


def test_a_client_that_is_not_closed_ends_with_its_last_user() -> None:
    client = sync.Client("127.0.0.1:1")
    thread = client._engine._thread
    admin = sync.Admin(client)
    assert thread.is_alive()
    del client
    gc.collect()
    assert thread.is_alive(), "the other one still needs it"
    del admin
    gc.collect()
    wait_until("its thread ends", lambda: not thread.is_alive())
