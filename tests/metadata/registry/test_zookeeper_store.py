"""The registry in a real ZooKeeper: lost connections and answers, expiry, restarts, and watches that miss nothing."""

import asyncio
import logging
import threading
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from kazoo.exceptions import ConnectionLoss

from odradek.foundation import registry_errors
from odradek.metadata.registry.registries import open_registry
from odradek.metadata.registry.store import Create, Put, SessionState, Store
from odradek.metadata.registry.zookeeper import session
from odradek.metadata.registry.zookeeper_store import ZookeeperStore
from tests.support.broker_process import free_port
from tests.support.polling import SECONDS_MAX
from tests.support.proxy import proxy_to
from tests.support.stories import in_real_time
from tests.support.zookeeper import ZooKeeper, end_session

pytestmark = pytest.mark.integration

CONNECTED, SUSPENDED, EXPIRED = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.EXPIRED


class States:
    """What became of a store's session, and when."""

    def __init__(self, store: Store) -> None:
        self.told: list[SessionState] = []
        self._news = asyncio.Event()
        store.on_session_change(self._note)

    def _note(self, state: SessionState) -> None:
        self.told.append(state)
        self._news.set()

    async def until(self, state: SessionState) -> None:
        while not self.told or self.told[-1] is not state:
            self._news.clear()
            await self._news.wait()


async def open_store(connect: str, **settings: str) -> ZookeeperStore:
    # Without a bound of its own, the first connection has only a session's time.
    settings = {"connection_timeout_ms": str(round(SECONDS_MAX * 1000)), **settings}
    entries = {f"zookeeper.{key.replace('_', '.')}": value for key, value in settings.items()}
    store = await open_registry(f"zookeeper:{connect}", entries=entries)
    assert isinstance(store, ZookeeperStore)
    return store


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Ask until it is so; every asking is a round trip."""
    while not await condition():
        pass


@in_real_time
async def test_a_cut_suspends_the_session_and_keeps_what_it_has(zookeeper: ZooKeeper) -> None:
    root = f"/{uuid.uuid4()}"
    other = await open_store(zookeeper.connect + root)
    async with proxy_to(zookeeper.port) as proxy:
        store = await open_store(f"127.0.0.1:{proxy.port}{root}")
        states = States(store)
        session = store.session_id
        for path in ("/a", "/b", "/c", "/d"):
            await store.create(path)
        await store.create("/mine", ephemeral=True)
        heard: list[str] = []
        for path in ("/a", "/b", "/c", "/d", "/new"):
            store.watch(path, heard.append)
        await store.sync()
        await proxy.cut()
        await states.until(SUSPENDED)
        with pytest.raises(registry_errors.StoreConnectionLost, match="no request was sent"):
            await store.get("/a")
        await other.put("/a", b"1")
        await other.create("/b/child")
        await other.delete("/c")
        await other.create("/c")
        await other.create("/new")
        await proxy.mend()
        await states.until(CONNECTED)
        assert store.session_id == session
        assert (await store.get("/mine")).owner == session

        async def all_heard() -> bool:
            await store.sync()
            return len(heard) >= 4

        await until(all_heard)
        # One change each, and none of what stayed as it was.
        assert sorted(heard) == ["/a", "/b", "/c", "/new"]
        heard.clear()
        await other.put("/a", b"2")
        await store.sync()
        await until(lambda: asyncio.sleep(0, heard == ["/a"]))
        await store.close()
        assert not await other.exists("/mine")
    await other.close()


@in_real_time
async def test_a_write_with_a_lost_answer_is_recognised_by_version_and_owner(zookeeper: ZooKeeper) -> None:
    async with proxy_to(zookeeper.port) as proxy:
        store = await open_store(f"127.0.0.1:{proxy.port}/{uuid.uuid4()}")
        states = States(store)
        await store.create("/n", b"0")
        proxy.lose_answers()
        unsure = asyncio.ensure_future(store.multi([Put("/n", b"1", 0), Create("/mine", ephemeral=True)]))
        await proxy.lost_an_answer.wait()
        await proxy.cut()
        with pytest.raises(registry_errors.StoreConnectionLost, match="may have been done"):
            await unsure
        await proxy.mend()
        await states.until(CONNECTED)
        await store.sync()
        assert (await store.get("/n"))[:2] == (b"1", 1)
        with pytest.raises(registry_errors.VersionConflict):
            await store.put("/n", b"1", version=0)
        with pytest.raises(registry_errors.NodeExists):
            await store.create("/mine", ephemeral=True)
        assert (await store.get("/mine")).owner == store.session_id
        await store.close()


@in_real_time
async def test_an_expired_session_lasts_until_reopened_and_watches_outlive_it(zookeeper: ZooKeeper) -> None:
    root = f"/{uuid.uuid4()}"
    store, other = await open_store(zookeeper.connect + root), await open_store(zookeeper.connect + root)
    states = States(store)
    first = store.session_id
    await store.create("/a")
    await store.create("/b")
    await store.create("/mine", ephemeral=True)
    heard: list[str] = []
    for path in ("/a", "/b", "/mine"):
        store.watch(path, heard.append)
    await store.sync()
    session = store._session
    assert session is not None
    makes_no_other: list[tuple[SessionState, bool]] = []
    store.on_session_change(lambda state: makes_no_other.append((state, session._handler._is_over.is_set())))
    await end_session(store, zookeeper.connect)
    # kazoo would begin a new session by itself; it would be unknown whose writes go into it.
    assert makes_no_other[-1] == (EXPIRED, True)
    assert not any(is_over for _, is_over in makes_no_other[:-1])
    with pytest.raises(registry_errors.StoreSessionExpired):
        await store.create("/mine", ephemeral=True)
    assert not await other.exists("/mine")
    await other.put("/a", b"1")
    assert heard == []
    await asyncio.gather(*(store.reopen() for _ in range(3)))
    assert states.told[-2:] == [EXPIRED, CONNECTED]
    assert store.session_id != first
    await until(lambda: asyncio.sleep(0, sorted(heard) == ["/a", "/mine"]))
    await store.create("/mine", ephemeral=True)
    assert (await other.get("/mine")).owner == store.session_id
    await store.close()
    await other.close()


def test_a_restarted_registry_has_the_session_and_all_writes(
    tmp_path: Path,
) -> None:
    server = ZooKeeper(tmp_path)
    server.start()

    async def scenario() -> None:
        store = await open_store(f"{server.connect}/a/b")
        states = States(store)
        session = store.session_id
        heard = asyncio.Event()
        await store.create("/n", b"kept")
        await store.create("/mine", ephemeral=True)
        store.watch("/n", lambda path: heard.set())
        server.kill()
        await states.until(SUSPENDED)
        await asyncio.to_thread(server.start)
        await states.until(CONNECTED)
        assert states.told == [SUSPENDED, CONNECTED]
        assert (await store.get("/n")).data == b"kept"
        assert (await store.get("/mine")).owner == session == store.session_id
        await store.put("/n", b"more")
        await heard.wait()
        await store.close()

    try:
        asyncio.run(scenario())
    finally:
        server.close()


@in_real_time
async def test_a_registry_that_stops_answering_suspends_the_session(zookeeper: ZooKeeper) -> None:
    async with proxy_to(zookeeper.port) as proxy:
        store = await open_store(f"127.0.0.1:{proxy.port}", session_timeout_ms="1000")
        states = States(store)
        proxy.lose_answers()
        with pytest.raises(registry_errors.StoreConnectionLost):
            await store.exists("/")
        assert states.told[-1] is SUSPENDED
        await store.close()


@in_real_time
async def test_whoever_is_told_of_a_lost_connection_finds_the_session_suspended(zookeeper: ZooKeeper) -> None:
    store = await open_store(zookeeper.connect)
    session = store._session
    assert session is not None
    # As kazoo does it: first the requests fail, then the state changes.
    result = session.client.handler.async_result()
    request = session.send("/n", lambda: result)
    result.set_exception(ConnectionLoss())
    with pytest.raises(registry_errors.StoreConnectionLost):
        await request
    assert store.session_state is SUSPENDED
    await store.close()


@in_real_time
async def test_one_thread_serves_a_store_and_ends_with_it(zookeeper: ZooKeeper) -> None:
    before = set(threading.enumerate())

    def threads() -> list[str]:
        return [each.name for each in threading.enumerate() if each not in before and "zoo" in each.name]

    store = await open_store(zookeeper.connect)
    await end_session(store, zookeeper.connect)
    await store.reopen()
    await asyncio.gather(*(store.exists("/") for _ in range(50)))
    assert threads() == ["zookeeper"]
    await store.close()
    await until(lambda: asyncio.sleep(0, not threads()))


@in_real_time
async def test_a_watch_then_a_read_see_the_last_value_despite_cuts_and_expiry(zookeeper: ZooKeeper) -> None:
    root = f"/{uuid.uuid4()}"
    writer = await open_store(zookeeper.connect + root)
    names = [f"/n{number}" for number in range(60)]
    for name in names:
        await writer.create(name, b"0")
    async with proxy_to(zookeeper.port) as proxy:
        store = await open_store(f"127.0.0.1:{proxy.port}{root}")
        states = States(store)
        seen: dict[str, bytes] = {}
        changed: asyncio.Queue[str] = asyncio.Queue()
        for name in names:
            store.watch(name, changed.put_nowait)
            changed.put_nowait(name)

        async def follow() -> None:
            while True:
                name = await changed.get()
                try:
                    seen[name] = (await store.get(name)).data
                except (registry_errors.StoreConnectionLost, registry_errors.StoreSessionExpired):
                    # As a user has to: after a loss, read again once the session is there.
                    changed.put_nowait(name)
                    await states.until(CONNECTED)

        states.told.append(CONNECTED)
        follower = asyncio.create_task(follow())
        for value in range(1, 7):
            for name in names:
                await writer.put(name, str(value).encode())
            if value == 2:
                await proxy.cut()
                await states.until(SUSPENDED)
            elif value == 3:
                await proxy.mend()
                await states.until(CONNECTED)
            elif value == 4:
                await end_session(store, zookeeper.connect)
            elif value == 5:
                await store.reopen()

        async def caught_up() -> bool:
            await writer.exists("/")
            return all(seen.get(name) == b"6" for name in names)

        await until(caught_up)
        follower.cancel()
        await store.close()
    await writer.close()


@in_real_time
async def test_watching_now_and_then_leaves_nothing_behind(zookeeper: ZooKeeper) -> None:
    store = await open_store(f"{zookeeper.connect}/{uuid.uuid4()}")
    await store.create("/n")
    for number in range(50):
        heard = asyncio.Event()
        unwatch = store.watch("/n", lambda path, heard=heard: heard.set())  # type: ignore[misc]
        await (store.create(f"/n/{number}") if number % 2 else store.put("/n", b""))
        await heard.wait()
        unwatch()
    assert store._session is not None
    client = store._session.client
    for watchers in (client._data_watchers, client._child_watchers):
        assert sum(len(callbacks) for callbacks in watchers.values()) <= 1
    await store.close()


def test_more_requests_than_may_be_under_way_wait_their_turn(zookeeper: ZooKeeper) -> None:
    async def scenario() -> None:
        store = await open_store(f"{zookeeper.connect}/{uuid.uuid4()}", max_in_flight_requests="3")
        assert store._session is not None
        waiting = store._session._waiting
        most = 0

        async def create(number: int) -> None:
            nonlocal most
            await store.create(f"/{number}")
            most = max(most, len(waiting))

        await asyncio.gather(*(create(number) for number in range(200)))
        assert len(await store.children("/")) == 200
        assert 1 <= most <= 3
        assert not waiting
        await store.close()

    asyncio.run(scenario())


@in_real_time
async def test_a_too_large_write_is_refused_without_losing_the_connection(zookeeper: ZooKeeper) -> None:
    store = await open_store(f"{zookeeper.connect}/{uuid.uuid4()}")
    states = States(store)
    await store.create("/n", b"x" * 990_000)
    for attempt in (
        store.create("/m", b"x" * 1_000_000),
        store.put("/n", b"x" * 1_000_000),
        store.multi([Create(f"/{number}", b"x" * 300) for number in range(2500)]),
    ):
        with pytest.raises(registry_errors.StoreError, match="write less"):
            await attempt
    assert len((await store.get("/n")).data) == 990_000
    assert states.told == []
    await store.close()


@in_real_time
async def test_a_session_goes_on_with_another_server(zookeeper: ZooKeeper) -> None:
    async with proxy_to(zookeeper.port) as one, proxy_to(zookeeper.port) as another:
        servers = f"127.0.0.1:{one.port},127.0.0.1:{another.port}"
        store = await open_store(f"{servers}/{uuid.uuid4()}")
        states = States(store)
        session = store.session_id
        await store.create("/mine", ephemeral=True)
        for _ in range(3):
            used, unused = (one, another) if one.is_used else (another, one)
            assert not unused.is_used
            await used.cut()
            await states.until(SUSPENDED)
            await states.until(CONNECTED)
            assert (await store.get("/mine")).owner == session
            await used.mend()
        await store.close()


@in_real_time
async def test_an_ensemble_is_tried_server_by_server_and_silence_is_told(
    zookeeper: ZooKeeper, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(session, "_SILENCE_LOGGED_SECONDS", 0.1)
    caplog.set_level(logging.INFO, session.__name__)
    nobody = f"127.0.0.1:{free_port()}"
    store = await open_store(f"{nobody},{zookeeper.connect}/{uuid.uuid4()}")
    assert await store.children("/") == []
    await store.close()
    with pytest.raises(
        registry_errors.StoreConnectionLost,
        match=rf"no ZooKeeper of {nobody}/x answered within 1 s .*refused",
    ):
        await open_store(f"{nobody}/x", connection_timeout_ms="1000")
    assert f"no ZooKeeper of {nobody}/x answers yet" in caplog.text


@in_real_time
async def test_a_start_begins_again_whichever_of_its_messages_is_lost(zookeeper: ZooKeeper) -> None:
    """The connection ends in place of each request and each answer of the start, one after the other."""

    async def messages_of_a_start(lost_message: int) -> int:
        root = f"/{uuid.uuid4()}/cluster"
        async with proxy_to(zookeeper.port, lost_message=lost_message) as proxy:
            store = await open_store(f"127.0.0.1:{proxy.port}{root}", connection_timeout_ms="20000")
            proxy.lost_message = 0
            await store.create("/made")
            assert await store.children("/") == ["made"]
            await store.close()
        return proxy.messages

    lost = 1
    while lost <= await messages_of_a_start(lost):
        lost += 1
    # Requests and answers: the session, a sync, and for each of the two steps of the root a look and a creation.
    assert lost == 13


@in_real_time
async def test_a_start_ends_with_a_reason_when_the_time_is_over(
    zookeeper: ZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with proxy_to(zookeeper.port) as proxy:
        address = f"127.0.0.1:{proxy.port}/{uuid.uuid4()}"
        prepare = ZookeeperStore._prepare

        async def ends_once(store: ZookeeperStore, new: session.ZooKeeperSession) -> None:
            await proxy.cut()
            await prepare(store, new)

        monkeypatch.setattr(ZookeeperStore, "_prepare", ends_once)
        with pytest.raises(
            registry_errors.StoreConnectionLost,
            match=rf"no ZooKeeper of {address} answered within 3 s .*refused.* Before that it ended every new session",
        ):
            await open_store(address, connection_timeout_ms="3000")

        async def ends(store: ZookeeperStore, new: session.ZooKeeperSession) -> None:
            raise registry_errors.StoreConnectionLost("it was lost")

        await proxy.mend()
        monkeypatch.setattr(ZookeeperStore, "_prepare", ends)
        # Long enough for one session on a busy machine; the last may have had too little time.
        with pytest.raises(
            registry_errors.StoreConnectionLost,
            match=rf"{address} (.* it )?ended every new session .*\(it was lost\)",
        ):
            await open_store(address, connection_timeout_ms="10000")
