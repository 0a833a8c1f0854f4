"""What every registry does, whatever keeps it."""

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.foundation import registry_errors
from odradek.metadata.image import paths
from odradek.metadata.registry.node_tree import NodeTree
from odradek.metadata.registry.registries import open_registry
from odradek.metadata.registry.sqlite_store import SqliteStore
from odradek.metadata.registry.store import Check, Create, Delete, Operation, Put, SessionState, Store
from tests.support import loop
from tests.support.memory_registry import MemoryRegistry, MemoryStore
from tests.support.registry_faults import RegistryFaults
from tests.support.stories import told_by
from tests.support.zookeeper import ZooKeeper

Scenario = Callable[[Store], Awaitable[None]]
Run = Callable[[Scenario], None]


async def open_store(kind: str, request: pytest.FixtureRequest) -> Store:
    if kind == "memory":
        return MemoryStore()
    if kind == "slow memory":
        faults = RegistryFaults(random.Random(1), latency_seconds=(0.0, 1.0))
        return MemoryStore(MemoryRegistry(faults=faults))
    if kind == "sqlite":
        folder: Path = request.getfixturevalue("tmp_path")
        return SqliteStore.open(str(folder / "registry.db"))
    server: ZooKeeper = request.getfixturevalue("zookeeper")
    return await open_registry(f"{server.connect}/contract/{uuid.uuid4()}")


@pytest.fixture(
    params=["memory", "slow memory", "sqlite", pytest.param("zookeeper", marks=pytest.mark.integration)]
)
def run(request: pytest.FixtureRequest) -> Run:
    if request.param == "zookeeper":
        request.getfixturevalue("zookeeper")

    def run_scenario(scenario: Scenario) -> None:
        async def with_store() -> None:
            store = await open_store(request.param, request)
            try:
                await scenario(store)
            finally:
                await store.close()

        # A second of a slow registry takes no time.
        run_coroutine = loop.run if request.param == "slow memory" else asyncio.run
        run_coroutine(with_store())

    return run_scenario


in_each_store = told_by(lambda run, story: run(story), asks=("run",))


async def settle(store: Store) -> None:
    """Wait until the callbacks of all earlier changes have been called.

    A notification comes between the answers to two requests, and takes one request more.
    """
    for _ in range(3):
        await store.exists("/")
        # Callbacks are called in the step after the news has come.
        await asyncio.sleep(0)


@in_each_store
async def test_a_node_is_made_read_changed_and_removed(store: Store) -> None:
    await store.create("/a", b"one")
    assert (await store.get("/a"))[:2] == (b"one", 0)
    assert await store.put("/a", b"two") == 1
    assert (await store.get("/a"))[:2] == (b"two", 1)
    assert await store.exists("/a")
    await store.delete("/a", version=1)
    assert not await store.exists("/a")
    await store.create("/a")
    assert (await store.get("/a"))[:2] == (b"", 0)


@in_each_store
async def test_what_cannot_be_says_why(store: Store) -> None:
    await store.create("/a")
    await store.create("/a/b")
    for error, attempt in (
        (registry_errors.NodeExists, store.create("/a")),
        (registry_errors.NoNode, store.create("/x/y")),
        (registry_errors.NoNode, store.get("/x")),
        (registry_errors.NoNode, store.children("/x")),
        (registry_errors.NoNode, store.put("/x", b"")),
        (registry_errors.NoNode, store.delete("/x")),
        (registry_errors.VersionConflict, store.put("/a", b"", version=4)),
        (registry_errors.VersionConflict, store.delete("/a/b", version=4)),
        (registry_errors.NodeNotEmpty, store.delete("/a")),
    ):
        with pytest.raises(error, match="/"):
            await attempt
    for path in ("a", "", "/a/", "/a//b", "/a/..", "/./a", "/\0", "/\ue000", "/\U0001f600"):
        with pytest.raises(ValueError, match="not a path"):
            await store.create(path)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "...", "a/b", "100%", "%2F", "\0\x7f", "naïve 名", "\U0001f600\ufffe"]
)
@in_each_store
async def test_any_name_becomes_a_step_of_a_path_and_comes_back(store: Store, name: str) -> None:
    step = paths.escape(name)
    await store.create(f"/{step or 'empty'}")
    if name:
        assert [paths.unescape(child) for child in await store.children("/")] == [name]


@in_each_store
async def test_a_node_tells_who_made_it_and_when(store: Store) -> None:
    first = await store.create("/a", b"x")
    second = await store.create("/a/b", ephemeral=True)
    await store.put("/a", b"y")
    assert await store.get("/a") == (b"y", 1, first, 0)
    assert await store.get("/a/b") == (b"", 0, second, store.session_id)
    assert 0 < first < second
    assert store.session_id != 0
    await store.delete("/a/b")
    await store.multi([Create("/a/b", ephemeral=True), Put("/a/b", b"z")])
    again = await store.get("/a/b")
    assert again[:2] == (b"z", 1)
    assert again.created > second
    assert again.owner == store.session_id


@in_each_store
async def test_many_nodes_are_read_as_one_by_one(store: Store) -> None:
    assert await store.get_many([]) == []
    await store.multi(
        [Create("/a")] + [Create(f"/a/{number}", b"x" * (number % 300)) for number in range(1200)]
    )
    await store.create("/e", ephemeral=True)
    await store.put("/a/7", b"")
    names = ["/", "/e", "/none", "/a/none", *(f"/a/{number}" for number in range(1200)), "/a/7"]
    nodes = await store.get_many(names)
    assert nodes[2:4] == [None, None]
    assert [None if node is None else len(node.data) for node in nodes[-3:]] == [298, 299, 0]
    assert nodes[:2] + nodes[4:9] == [await store.get(path) for path in names[:2] + names[4:9]]
    with pytest.raises(registry_errors.StoreSessionExpired, match="closed"):
        await store.close()
        await store.get_many([])


@in_each_store
async def test_a_live_session_is_not_replaced_and_a_closed_store_does_nothing(store: Store) -> None:
    states: list[SessionState] = []
    forget = store.on_session_change(states.append)
    store.on_session_change(states.append)
    assert store.session_state is SessionState.CONNECTED
    session = store.session_id
    await store.reopen()
    await store.sync()
    assert store.session_id == session
    assert states == []
    forget()
    forget()
    await store.close()
    await store.close()
    assert states == [SessionState.CLOSED]
    for attempt in (store.get("/"), store.create("/a"), store.multi([]), store.sync(), store.reopen()):
        with pytest.raises(registry_errors.StoreSessionExpired, match="closed"):
            await attempt


@in_each_store
async def test_children_are_names_in_order(store: Store) -> None:
    await store.create("/a")
    for name in ("c", "b", "d-e", "b.b"):
        await store.create(f"/a/{name}")
    await store.create("/a/b/deep")
    assert await store.children("/a") == ["b", "b.b", "c", "d-e"]
    assert await store.children("/") == ["a"]
    await store.delete("/a/c")
    assert await store.children("/a") == ["b", "b.b", "d-e"]


@in_each_store
async def test_a_batch_is_done_wholly_or_not_at_all(store: Store) -> None:
    await store.multi([Create("/a"), Create("/a/b", b"x"), Put("/a", b"y"), Check("/a", 1)])
    assert (await store.get("/a"))[:2] == (b"y", 1)
    with pytest.raises(registry_errors.NodeExists, match="/a") as failure:
        await store.multi([Put("/a", b"z"), Delete("/a/b"), Create("/c"), Create("/a")])
    assert failure.value.operation == 3
    await store.multi([])
    assert (await store.get("/a"))[:2] == (b"y", 1)
    assert await store.exists("/a/b")
    assert not await store.exists("/c")
    with pytest.raises(registry_errors.VersionConflict):
        await store.multi([Put("/a", b"z"), Check("/a", 1)])
    await store.multi([Delete("/a/b"), Delete("/a"), Create("/a", b"new")])
    assert (await store.get("/a"))[:2] == (b"new", 0)
    assert await store.children("/a") == []


@in_each_store
async def test_a_child_replaced_by_one_batch_is_told_to_watchers_of_its_parent(store: Store) -> None:
    heard: list[str] = []
    await store.create("/parent")
    await store.create("/parent/child", ephemeral=True)
    store.watch("/parent", heard.append)
    await settle(store)
    heard.clear()
    await store.multi([Delete("/parent/child"), Create("/parent/child", b"again", ephemeral=True)])
    await settle(store)
    assert set(heard) == {"/parent"}


@in_each_store
async def test_watchers_hear_of_the_node_and_of_its_children(store: Store) -> None:
    heard: list[str] = []
    await store.create("/a")
    unwatch = store.watch("/a", heard.append)
    store.watch("/later", heard.append)

    async def turn() -> list[str]:
        await settle(store)
        # Which nodes, not how often: one change may be reported twice, and two at once.
        told = sorted(set(heard))
        heard.clear()
        return told

    await store.put("/a", b"1")
    assert await turn() == ["/a"]
    await store.create("/a/b")
    assert await turn() == ["/a"]
    await store.put("/a/b", b"1")
    assert await turn() == []
    await store.delete("/a/b")
    assert await turn() == ["/a"]
    await store.create("/later")
    assert await turn() == ["/later"]
    with pytest.raises(registry_errors.NodeExists):
        await store.multi([Put("/a", b"2"), Create("/a")])
    assert await turn() == []
    store.watch("/a", heard.append)()
    store.watch("/later", heard.append)()
    unwatch()
    unwatch()
    await store.put("/later", b"3")
    assert await turn() == ["/later"]
    await store.put("/a", b"3")
    await store.delete("/a")
    assert await turn() == []


@in_each_store
async def test_writers_at_once_lose_nothing(store: Store) -> None:
    await store.create("/n", b"0")

    async def add_one() -> None:
        while True:
            data, version, _, _ = await store.get("/n")
            try:
                await store.put("/n", str(int(data) + 1).encode(), version=version)
                return
            except registry_errors.VersionConflict:
                continue

    await asyncio.gather(*(add_one() for _ in range(20)))
    assert (await store.get("/n"))[:2] == (b"20", 20)


_PATHS = st.sampled_from(["/a", "/b", "/a/a", "/a/b", "/b/a", "/a/a/a"])
_OPERATIONS = st.one_of(
    st.builds(Create, _PATHS, st.binary(max_size=2), st.booleans()),
    st.builds(Put, _PATHS, st.binary(max_size=2), st.integers(-1, 2)),
    st.builds(Delete, _PATHS, st.integers(-1, 2)),
    st.builds(Check, _PATHS, st.integers(-1, 2)),
)


@given(st.lists(st.lists(_OPERATIONS, max_size=5), max_size=12))
def test_a_batch_is_its_operations_one_by_one(batches: list[list[Operation]]) -> None:
    tree, stepwise = NodeTree(), NodeTree()
    for batch in batches:
        try:
            tree.apply(tree.plan(batch, session=1))
        except registry_errors.StoreError as error:
            trial = _copy(stepwise)
            with pytest.raises(type(error)):
                for operation in batch:
                    trial.apply(trial.plan([operation], session=1))
        else:
            for operation in batch:
                stepwise.apply(stepwise.plan([operation], session=1))
        # Numbered otherwise: a batch is one change.
        assert _without_numbers(tree) == _without_numbers(stepwise)
        assert tree._children == stepwise._children


def _copy(tree: NodeTree) -> NodeTree:
    return NodeTree((path, row) for path, row in tree._rows.items() if path != "/")


def _without_numbers(tree: NodeTree) -> dict[str, tuple[object, ...]]:
    return {path: (row.data, row.version, row.owner) for path, row in tree._rows.items()}
