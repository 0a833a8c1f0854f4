"""One active controller at a time, each term with an epoch of its own, and nothing written after its term."""

import asyncio
import random
from typing import Any

import pytest

from odradek.foundation.clock import SystemClock
from odradek.foundation.registry_errors import StoreConnectionLost, StoreSessionExpired, VersionConflict
from odradek.metadata.controller.controller_election import ControllerElection, ElectionCallbacks
from odradek.metadata.controller.terms import ControllerTerm
from odradek.metadata.image import paths
from odradek.metadata.registry.store import Create, Put, Store
from tests.support.memory_registry import MemoryStore
from tests.support.registries import (
    Callbacks,
    SharedMemoryRegistry,
    SharedRegistry,
    SharedZookeeper,
    in_its_registry,
)
from tests.support.registry_faults import RegistryFaults


@pytest.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.integration)])
def world(request: pytest.FixtureRequest) -> SharedRegistry:
    if request.param == "memory":
        return SharedMemoryRegistry()
    return SharedZookeeper(request.getfixturevalue("zookeeper"))


class Candidate:
    """A candidate for the controller's election, and the callbacks that it got."""

    def __init__(self, store: Store, number: int, *, identity: str | None = None) -> None:
        self.store = store
        self.callbacks = Callbacks()
        self.terms: list[ControllerTerm] = []
        self.active: list[int | None] = []
        self.news = asyncio.Event()
        self.election = ControllerElection(
            store,
            SystemClock(),
            controller_id=number,
            identity=f"process-{number}" if identity is None else identity,
            callbacks=ElectionCallbacks(
                on_elected=self._elected,
                on_lost=self.callbacks.note("lost"),
                on_controller=self._active_is,
            ),
        )

    @classmethod
    async def of(cls, world: SharedRegistry, number: int, **arguments: Any) -> "Candidate":
        return cls(await world.open(), number, **arguments)

    def _elected(self, term: ControllerTerm) -> None:
        self.terms.append(term)
        self.callbacks.note("elected")(None)

    def _active_is(self, controller_id: int | None) -> None:
        self.active.append(controller_id)
        self.news.set()

    def term(self) -> ControllerTerm | None:
        return self.election.term

    async def leave(self) -> None:
        await self.election.stop()
        await self.store.close()


async def until_active(candidate: Candidate, controller_id: int) -> None:
    """Until the candidate knows that this one is active."""
    while candidate.election.active_id != controller_id:
        candidate.news.clear()
        await candidate.news.wait()


@in_its_registry
async def test_the_first_is_elected_and_the_next_when_it_resigns(world: SharedRegistry) -> None:
    first, second = await Candidate.of(world, 1), await Candidate.of(world, 2)
    first.election.start()
    await first.callbacks.until("elected")
    second.election.start()
    await until_active(second, 1)
    assert second.term() is None
    assert first.term() == ControllerTerm(1, 1, 0) == first.terms[0]
    await first.election.resign()
    assert first.term() is None
    await first.callbacks.until("lost")
    await second.callbacks.until("elected")
    assert second.term() == ControllerTerm(2, 2, 1)
    assert (await first.store.get(paths.CONTROLLER_EPOCH))[:2] == (b"2", 1)
    # A candidate that resigned may start again.
    first.election.start()
    await until_active(first, 2)
    await second.leave()
    await first.callbacks.until("elected")
    assert first.terms[-1].epoch == 3
    await first.leave()
    assert [each for each in second.active if each is not None] == [1, 2]


@in_its_registry
async def test_an_expired_controller_writes_nothing_more(world: SharedRegistry) -> None:
    first, second = await Candidate.of(world, 1), await Candidate.of(world, 2)
    await first.store.create("/truth", b"0")
    first.election.start()
    await first.callbacks.until("elected")
    (term,) = first.terms
    await first.store.multi([term.fence, Put("/truth", b"1")])
    second.election.start()
    await until_active(second, 1)
    await world.expire(first.store)
    await first.callbacks.until("lost")
    # Either may be next; what was decided in the first term must not be written in any later one.
    while not (second.terms or first.terms[1:]):
        # The loser learns of the winner through the registry.
        for candidate in (first, second):
            candidate.news.clear()
        news = [asyncio.ensure_future(candidate.news.wait()) for candidate in (first, second)]
        await asyncio.wait(news, return_when=asyncio.FIRST_COMPLETED)
        for each in news:
            each.cancel()
    await first.store.reopen()
    with pytest.raises(VersionConflict) as failure:
        await first.store.multi([term.fence, Put("/truth", b"2")])
    assert failure.value.operation == 0
    assert (await first.store.get("/truth")).data == b"1"
    await first.leave()
    await second.leave()


@in_its_registry
async def test_deleting_the_node_asks_for_another_term(world: SharedRegistry) -> None:
    first, operator = await Candidate.of(world, 1), await world.open()
    first.election.start()
    await first.callbacks.until("elected")
    await operator.delete(paths.CONTROLLER)
    await first.callbacks.until("lost", "elected")
    assert [term.epoch for term in first.terms] == [1, 2]
    await first.leave()
    await operator.close()


@in_its_registry
async def test_a_process_that_died_is_succeeded_by_its_next_run_at_once(world: SharedRegistry) -> None:
    dead, stranger = await Candidate.of(world, 1), await Candidate.of(world, 2)
    dead.election.start()
    await dead.callbacks.until("elected")
    await dead.election._stop_reconciling()
    stranger.election.start()
    await until_active(stranger, 1)
    # The old session lives on, and would for its timeout.
    successor = await Candidate.of(world, 1)
    successor.election.start()
    await successor.callbacks.until("elected")
    assert successor.terms[0].epoch == 2
    assert stranger.terms == []
    for each in (stranger, successor):
        await each.leave()
    await dead.store.close()


# --- what only a registry in memory can be made to do -----------------------------------------------------------


def test_a_silent_registry_ends_the_term_after_the_sessions_timeout() -> None:
    async def scenario() -> None:
        world = SharedMemoryRegistry()
        store = await world.open()
        first, second = Candidate(store, 1), await Candidate.of(world, 2)
        first.election.start()
        await first.callbacks.until("elected")
        second.election.start()
        store.sever()
        await asyncio.sleep(9.9)
        assert first.term() is not None
        assert second.term() is None
        await asyncio.sleep(0.2)
        assert first.term() is None
        assert second.term() is not None
        store.mend()
        await until_active(first, 2)
        await first.callbacks.until("lost")
        await first.leave()
        await second.leave()

    SharedMemoryRegistry().run(scenario())


def test_a_candidacy_whose_answer_was_lost_becomes_a_term_of_its_own() -> None:
    async def scenario() -> None:
        world = SharedMemoryRegistry()
        store = await world.open()
        first = Candidate(store, 1, identity="")

        async def lose_the_answer(operations: Any) -> Any:
            world.registry.run(operations, session=store.session_id)
            store.sever()
            raise StoreConnectionLost("lost")

        store._write = lose_the_answer  # type: ignore[method-assign]
        first.election.start()
        await asyncio.sleep(1)
        assert world.registry.tree.exists(paths.CONTROLLER)
        assert first.term() is None
        del store._write
        store.mend()
        await first.callbacks.until("elected")
        assert first.terms[0].epoch == 2
        await first.leave()

    SharedMemoryRegistry().run(scenario())


def test_a_session_that_ends_with_the_answer_begins_no_term() -> None:
    async def scenario() -> None:
        world = SharedMemoryRegistry()
        store = await world.open()
        first = Candidate(store, 1)
        write = store._write

        async def end_with_the_answer(operations: Any) -> Any:
            changes = await write(operations)
            row = changes.get(paths.CONTROLLER_EPOCH)
            if row is not None and row.data == b"1":
                store.expire()
            return changes

        store._write = end_with_the_answer  # type: ignore[method-assign]
        first.election.start()
        await first.callbacks.until("elected")
        assert [term.epoch for term in first.terms] == [2]
        assert first.term() is not None
        await first.leave()

    SharedMemoryRegistry().run(scenario())


def test_an_epoch_that_another_controller_took_is_not_reused() -> None:
    async def scenario() -> None:
        world = SharedMemoryRegistry()
        store = await world.open()
        first = Candidate(store, 1)
        write = store._write
        is_first = True

        async def be_late(operations: Any) -> Any:
            nonlocal is_first
            if is_first:
                is_first = False
                # Another's whole term, begun and ended between our reading and our writing.
                world.registry.run([Create(paths.CONTROLLER_EPOCH, b"1")], session=0)
                world.registry.run([Put(paths.CONTROLLER_EPOCH, b"7")], session=0)
            return await write(operations)

        store._write = be_late  # type: ignore[method-assign]
        first.election.start()
        await first.callbacks.until("elected")
        assert first.terms == [ControllerTerm(1, 8, 2)]
        await first.election.resign()
        is_first = True

        async def be_late_again(operations: Any) -> Any:
            nonlocal is_first
            if is_first:
                is_first = False
                world.registry.run([Put(paths.CONTROLLER_EPOCH, b"20")], session=0)
            return await write(operations)

        store._write = be_late_again  # type: ignore[method-assign]
        first.election.start()
        await first.callbacks.until("lost", "elected")
        assert first.terms[1] == ControllerTerm(1, 21, 4)
        await first.leave()

    SharedMemoryRegistry().run(scenario())


@pytest.mark.thorough
def test_terms_never_share_an_epoch_and_only_the_newest_writes() -> None:
    async def play(seed: int) -> None:
        world = SharedMemoryRegistry()
        chance = random.Random(seed)
        writer = await world.open()
        await writer.create("/truth", b"0")
        world.registry.faults = RegistryFaults(
            chance,
            latency_seconds=(0, 0.5),
            lost_requests=0.03,
            lost_answers=0.03,
            reconnect_seconds=(0, 15),
        )
        candidates = [Candidate(await world.open(), number) for number in range(3)]
        written: list[int] = []

        async def campaign(candidate: Candidate) -> None:
            """Write the epoch of one's term repeatedly, with its fence, even after the term was reported over."""
            while True:
                await asyncio.sleep(chance.uniform(0.1, 1))
                if not candidate.terms:
                    continue
                term = candidate.terms[-1]
                try:
                    await candidate.store.multi([term.fence, Put("/truth", str(term.epoch).encode())])
                except (VersionConflict, StoreConnectionLost, StoreSessionExpired):
                    continue

        writer.watch("/truth", lambda path: written.append(int(world.registry.tree.get("/truth").data)))
        tasks = [asyncio.ensure_future(campaign(candidate)) for candidate in candidates]
        for candidate in candidates:
            candidate.election.start()
        for _ in range(600):
            await asyncio.sleep(1)
            assert sum(candidate.term() is not None for candidate in candidates) <= 1, f"seed {seed}"
        assert written == sorted(written), f"seed {seed}: an older term wrote after a newer one"
        epochs = [term.epoch for candidate in candidates for term in candidate.terms]
        assert len(set(epochs)) == len(epochs) > 5, f"seed {seed}"
        world.registry.faults = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Healed, it has an active controller again.
        await asyncio.sleep(20)
        assert sum(candidate.term() is not None for candidate in candidates) == 1
        for candidate in candidates:
            assert isinstance(candidate.store, MemoryStore)
            await candidate.leave()

    for seed in range(10):
        SharedMemoryRegistry().run(play(seed))
