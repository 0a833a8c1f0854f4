"""A broker's membership: one live broker for each id, fenced when the registry gives it up, back by itself."""

import asyncio
import random
from typing import Any

import pytest

from odradek.cluster import nodes, paths
from odradek.cluster.image import BrokerImage
from odradek.cluster.memory_faults import RegistryFaults
from odradek.cluster.memory_store import MemoryStore
from odradek.cluster.registration import BrokerRegistration, Registrant, RegistrationCallbacks
from odradek.cluster.sqlite_store import SqliteStore
from odradek.cluster.store import Delete, SessionState, Store
from odradek.foundation.clock import SystemClock
from odradek.foundation.errors import DuplicateBrokerRegistration, StoreConnectionLost
from tests.support.loop import VirtualTimeLoop
from tests.support.registries import MemoryWorld, Told, World, ZookeeperWorld


@pytest.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.integration)])
def world(request: pytest.FixtureRequest) -> World:
    if request.param == "memory":
        return MemoryWorld()
    return ZookeeperWorld(request.getfixturevalue("zookeeper"))


class Member:
    """A broker that registers, and what it was told."""

    def __init__(
        self,
        store: Store,
        *,
        broker_id: int = 1,
        identity: str = "directory-1",
        port: int = 9092,
        wait_seconds: float | None = None,
    ) -> None:
        self.store = store
        self.told = Told()
        self.registration = BrokerRegistration(
            store,
            SystemClock(),
            Registrant(
                broker_id=broker_id,
                endpoints={"PLAINTEXT": ("::1", port)},
                protocols={"PLAINTEXT": "PLAINTEXT"},
                identity=identity,
                rack="r1",
            ),
            RegistrationCallbacks(
                on_fenced=self.told.note("fenced"),
                on_registered=self.told.note("registered"),
                on_refused=self.told.note("refused"),
            ),
            wait_seconds=wait_seconds,
        )

    @classmethod
    async def of(cls, world: World, **arguments: Any) -> "Member":
        return cls(await world.open(), **arguments)

    async def start(self) -> BrokerImage:
        """As after an unclean stop."""
        return await self.registration.start(has_all=False)

    def serving_as(self) -> BrokerImage | None:
        return self.registration.broker

    async def leave(self) -> None:
        await self.registration.stop()
        await self.store.close()


async def registered(store: Store, broker_id: int = 1) -> BrokerImage:
    path = paths.broker(broker_id)
    return nodes.read_broker(path, (await store.get(path)).data)


def test_a_broker_is_a_member_from_its_start_to_its_stop(world: World) -> None:
    async def scenario() -> None:
        member, watcher = await Member.of(world), await world.open()
        broker = await member.start()
        assert broker == BrokerImage(
            1, {"PLAINTEXT": ("::1", 9092)}, "r1", broker.epoch, stopped_cleanly=False
        )
        assert member.serving_as() == broker == await registered(watcher)
        await member.registration.stop()
        assert member.serving_as() is None
        await watcher.sync()
        assert await watcher.children(paths.BROKER_IDS) == []
        again = await member.start()
        assert again.epoch > broker.epoch
        await member.leave()
        await watcher.close()
        assert member.told.words == []

    world.run(scenario())


def test_a_live_id_is_refused_and_named(world: World) -> None:
    async def scenario() -> None:
        member = await Member.of(world)
        broker = await member.start()
        other = await Member.of(world, identity="directory-2", port=9999, wait_seconds=0.05)
        with pytest.raises(
            DuplicateBrokerRegistration, match=r"a live broker at ::1:9092 has the id 1 already"
        ):
            await other.start()
        assert await registered(other.store) == broker
        third = await Member.of(world, broker_id=2, identity="directory-3")
        assert (await third.start()).epoch > broker.epoch
        for each in (other, third, member):
            await each.leave()
        assert member.told.words == []

    world.run(scenario())


def test_the_node_of_a_dead_process_is_waited_out(world: World) -> None:
    async def scenario() -> None:
        dead, member = await Member.of(world, identity="directory-old"), await Member.of(world)
        first = await dead.start()
        start = asyncio.ensure_future(member.start())
        await asyncio.sleep(0)
        await world.expire(dead.store)
        # It does not come back before the other is there: its task is ended, as its process would be.
        await dead.registration._stop_looking()
        assert (await start).epoch > first.epoch
        await member.leave()
        await dead.store.close()

    world.run(scenario())


def test_a_process_knows_the_node_that_its_predecessor_left_and_does_not_wait(world: World) -> None:
    async def scenario() -> None:
        dead, member = await Member.of(world), await Member.of(world)
        first = await dead.start()
        await dead.registration._stop_looking()
        # The old session lives on: its process was killed a moment ago.
        second = await member.start()
        assert second.epoch > first.epoch
        assert await registered(member.store) == second
        await member.leave()
        await dead.store.close()

    world.run(scenario())


def test_a_broker_that_is_given_up_is_fenced_and_comes_back_with_a_new_epoch(world: World) -> None:
    async def scenario() -> None:
        member, watcher = await Member.of(world), await world.open()
        first = await member.start()
        fenced_at: list[tuple[SessionState, BrokerImage | None]] = []
        member.store.on_session_change(lambda state: fenced_at.append((state, member.serving_as())))
        await world.expire(member.store)
        await member.told.until("fenced", "registered")
        assert (SessionState.EXPIRED, None) in fenced_at
        second = member.serving_as()
        assert second is not None
        assert second.epoch > first.epoch
        await watcher.sync()
        assert await registered(watcher) == second
        await member.leave()
        await watcher.close()

    world.run(scenario())


def test_what_a_broker_may_have_lost_is_said_until_the_controller_has_seen_it(world: World) -> None:
    async def scenario() -> None:
        member = await Member.of(world)
        assert not (await member.start()).stopped_cleanly
        await world.expire(member.store)
        await member.told.until("fenced", "registered")
        assert not (await registered(member.store)).stopped_cleanly
        member.registration.was_seen()
        await world.expire(member.store)
        await member.told.until("fenced", "registered")
        assert (await registered(member.store)).stopped_cleanly
        await member.leave()

    world.run(scenario())


def test_a_registration_that_somebody_deletes_is_made_anew(world: World) -> None:
    async def scenario() -> None:
        member, operator = await Member.of(world), await world.open()
        first = await member.start()
        await operator.delete(paths.broker(1))
        await member.told.until("fenced", "registered")
        assert (await registered(member.store)).epoch > first.epoch
        await member.leave()
        await operator.close()

    world.run(scenario())


def test_a_broker_whose_id_was_taken_meanwhile_stays_fenced_and_says_so(world: World) -> None:
    async def scenario() -> None:
        member = await Member.of(world, wait_seconds=0.05)
        other = await Member.of(world, identity="directory-2", wait_seconds=60)
        await member.start()
        waiting = asyncio.ensure_future(other.start())
        # Both want the id from the moment it is free: keep the one that was given up from a new session until the other
        # has it.
        is_free = asyncio.Event()
        reopen = member.store.reopen

        async def reopen_late() -> None:
            await is_free.wait()
            await reopen()

        member.store.reopen = reopen_late  # type: ignore[method-assign]
        await world.expire(member.store)
        taken = await waiting
        is_free.set()
        await member.told.until("fenced", "refused")
        assert member.serving_as() is None
        assert await registered(other.store) == taken
        await member.leave()
        await other.leave()

    world.run(scenario())


# --- what only a registry in memory can be made to do -----------------------------------------------------------


def test_a_silent_registry_fences_after_the_sessions_timeout_and_not_before() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        store = await world.open()
        member = Member(store)
        broker = await member.start()
        store.sever()
        await asyncio.sleep(9.9)
        assert member.serving_as() == broker
        await asyncio.sleep(0.2)
        assert member.serving_as() is None
        await member.told.until("fenced")
        store.mend()
        await member.told.until("registered")
        # The registry had given it up at the same time.
        again = member.serving_as()
        assert again is not None
        assert again.epoch > broker.epoch
        await member.leave()

    MemoryWorld().run(scenario())


def test_a_session_that_outlived_the_silence_keeps_its_epoch() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        # The registry itself was away, and its sessions' time with it.
        store = MemoryStore(world.registry, session_timeout_seconds=10)
        member = Member(store)
        broker = await member.start()
        store.sever()
        store._stop_timer()
        await asyncio.sleep(30)
        await member.told.until("fenced")
        store.mend()
        await member.told.until("registered")
        assert member.serving_as() == broker
        await member.leave()

    MemoryWorld().run(scenario())


def test_who_stood_still_for_longer_than_a_session_is_fenced_at_once_and_looks() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        store = await world.open()
        member = Member(store)
        broker = await member.start()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        await asyncio.sleep(100)
        loop.stand_still(7)
        await asyncio.sleep(3)
        assert member.told.words == []
        loop.stand_still(11)
        # Meanwhile the registry went away: nobody says that the session is over.
        store.sever()
        store._stop_timer()
        await asyncio.sleep(0.001)
        assert member.serving_as() is None
        assert member.told.words == ["fenced"]
        store.mend()
        await member.told.until("fenced", "registered")
        assert member.serving_as() == broker
        await member.leave()

    MemoryWorld().run(scenario())


def test_short_cuts_do_not_fence() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        store = await world.open()
        member = Member(store)
        broker = await member.start()
        for _ in range(5):
            store.sever()
            await asyncio.sleep(8)
            store.mend()
            await asyncio.sleep(8)
        assert member.serving_as() == broker
        assert member.told.words == []
        await member.leave()

    MemoryWorld().run(scenario())


def test_a_registration_whose_answer_was_lost_is_recognised() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        store = await world.open()
        member = Member(store, identity="")
        for path in ("/brokers", paths.BROKER_IDS, paths.BROKER_EPOCHS):
            await store.create(path)

        async def lose_the_answer(operations: Any) -> Any:
            world.registry.run(operations, session=store.session_id)
            store.sever()
            raise StoreConnectionLost("lost")

        store._write = lose_the_answer  # type: ignore[method-assign]
        with pytest.raises(StoreConnectionLost):
            await member.start()
        del store._write
        assert world.registry.tree.exists(paths.broker(1))
        store.mend()
        broker = await member.start()
        assert await registered(store) == broker
        await member.leave()

    MemoryWorld().run(scenario())


def test_a_session_that_ends_with_the_answer_leaves_nobody_registered() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        store = await world.open()
        member = Member(store)
        write = store._write

        async def end_with_the_answer(operations: Any) -> Any:
            changes = await write(operations)
            if paths.broker(1) in changes:
                store.expire()
            return changes

        store._write = end_with_the_answer  # type: ignore[method-assign]
        with pytest.raises(StoreConnectionLost):
            await member.start()
        assert member.serving_as() is None
        await member.leave()

    MemoryWorld().run(scenario())


def test_an_epoch_that_somebody_else_took_meanwhile_is_not_taken_again() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        store, other = await world.open(), await Member.of(world, broker_id=2)
        member = Member(store)
        write = store._write
        taken: list[int] = []

        async def be_late(operations: Any) -> Any:
            if not taken and any(operation.path == paths.broker(1) for operation in operations):
                taken.append((await other.start()).epoch)
            return await write(operations)

        store._write = be_late  # type: ignore[method-assign]
        broker = await member.start()
        assert broker.epoch > taken[0]
        assert broker.epoch == world.registry.tree.get(paths.BROKER_EPOCHS).version
        await member.leave()
        await other.leave()

    MemoryWorld().run(scenario())


def test_a_broker_gives_way_to_a_later_run_of_itself() -> None:
    async def scenario() -> None:
        world = MemoryWorld()
        # Both claim one log directory: the later one was let in by its lock, so it is the one that has it.
        first, second = await Member.of(world, wait_seconds=1), await Member.of(world)
        await first.start()
        broker = await second.start()
        await first.told.until("fenced", "refused")
        assert await registered(first.store) == broker == second.serving_as()
        assert second.told.words == []
        await first.leave()
        await second.leave()

    MemoryWorld().run(scenario())


def test_members_of_one_id_never_serve_at_once_however_bad_the_registry() -> None:
    async def play(seed: int) -> None:
        world = MemoryWorld()
        chance = random.Random(seed)
        world.registry.faults = RegistryFaults(
            chance,
            latency_seconds=(0, 0.5),
            lost_requests=0.03,
            lost_answers=0.03,
            reconnect_seconds=(0, 15),
        )
        members = [Member(await world.open(), identity=f"directory-{number}") for number in range(2)]
        epochs: list[int] = []

        async def live(member: Member) -> None:
            while True:
                try:
                    epochs.append((await member.start()).epoch)
                    await asyncio.sleep(chance.uniform(5, 60))
                    await member.registration.stop()
                except (StoreConnectionLost, DuplicateBrokerRegistration):
                    await asyncio.sleep(chance.uniform(0, 3))
                except Exception:
                    await member.store.reopen()

        lives = [asyncio.ensure_future(live(member)) for member in members]
        for _ in range(2_000):
            await asyncio.sleep(0.25)
            serving = [member for member in members if member.serving_as() is not None]
            assert len(serving) <= 1, f"seed {seed}"
        assert len(epochs) > 3
        assert sorted(set(epochs)) == epochs, f"seed {seed}"
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)
        world.registry.faults = None
        for member in members:
            member.store.mend()  # type: ignore[attr-defined]
            await member.registration.stop()

    for seed in range(10):
        MemoryWorld().run(play(seed))


def test_a_single_node_registers_in_its_file(tmp_path: Any) -> None:
    async def scenario() -> None:
        store = SqliteStore.open(str(tmp_path / "registry"))
        member = Member(store)
        broker = await member.start()
        await store.multi([Delete(paths.broker(1))])
        await member.told.until("fenced", "registered")
        assert (await registered(store)).epoch > broker.epoch
        await member.leave()

    MemoryWorld().run(scenario())
