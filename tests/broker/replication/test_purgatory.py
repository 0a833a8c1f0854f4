"""Waiting fetches: woken once, by bytes, time or trouble, and never left behind."""

import asyncio

from odradek.broker.replication.purgatory import PartitionListener, Purgatory, WaitingFetch


class Place:
    def __init__(self) -> None:
        self.waiting: dict[PartitionListener, None] = {}

    def advance(self, size_bytes: int) -> None:
        for fetch in tuple(self.waiting):
            fetch.became_readable(size_bytes)


async def test_bytes_of_all_places_add_up_and_wake_once() -> None:
    purgatory = Purgatory(waiting_max=10)
    here, there = Place(), Place()
    woken: list[float] = []
    loop = asyncio.get_running_loop()
    purgatory.wait(
        [here, there], bytes_missing=10, wait_seconds=60, on_ready=lambda: woken.append(loop.time())
    )
    here.advance(4)
    await asyncio.sleep(1)
    assert not woken
    there.advance(6)
    here.advance(100)
    assert not woken, "the answer waits for the rest of the burst"
    began = loop.time()
    await asyncio.sleep(61)
    assert woken == [began]
    assert not here.waiting
    assert not there.waiting
    assert len(purgatory) == 0


async def test_time_wakes_exactly_when_it_is_up() -> None:
    purgatory = Purgatory(waiting_max=10)
    place = Place()
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[float] = loop.create_future()
    began = loop.time()
    purgatory.wait([place], bytes_missing=1, wait_seconds=0.5, on_ready=lambda: woken.set_result(loop.time()))
    assert await woken - began == 0.5
    assert not place.waiting


async def test_a_cancelled_fetch_is_forgotten_even_when_it_was_about_to_wake() -> None:
    purgatory = Purgatory(waiting_max=10)
    place = Place()
    woken: list[bool] = []
    fetch = purgatory.wait([place], bytes_missing=1, wait_seconds=1, on_ready=lambda: woken.append(True))
    assert fetch is not None
    place.advance(1)
    fetch.cancel()
    fetch.cancel()
    await asyncio.sleep(5)
    assert not woken
    assert len(purgatory) == 0


async def test_a_full_purgatory_refuses_more() -> None:
    purgatory = Purgatory(waiting_max=2)
    place = Place()

    def wait() -> WaitingFetch | None:
        return purgatory.wait([place], bytes_missing=1, wait_seconds=1, on_ready=lambda: None)

    first = wait()
    assert first is not None
    assert wait() is not None
    assert wait() is None
    first.cancel()
    assert wait() is not None
    purgatory.release_all()
    await asyncio.sleep(0)
    assert len(purgatory) == 0
