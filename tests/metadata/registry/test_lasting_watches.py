"""Lasting watches against a ZooKeeper that answers when the test says so."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kazoo.protocol.states import EventType

from odradek.foundation.limits import REGISTRY_WATCHES_ARMED_AT_ONCE_MAX
from odradek.foundation.registry_errors import StoreConnectionLost
from odradek.metadata.registry.store import SessionState
from odradek.metadata.registry.zookeeper.handler import LoopHandler
from odradek.metadata.registry.zookeeper.lasting_watches import LastingWatches
from odradek.metadata.registry.zookeeper.session import ZooKeeperSession


class Server:
    """A session's side of ZooKeeper: requests wait until they are answered."""

    def __init__(self) -> None:
        self.state = SessionState.CONNECTED
        self.asked: list[tuple[str, asyncio.Future[Any], Callable[[Any], None]]] = []
        self.change = 1

    def ask(self, path: str, method: str, full: str, *, watch: Any, include_data: bool = False) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.asked.append((method, future, watch))
        return future

    @property
    def session(self) -> ZooKeeperSession:
        return cast(ZooKeeperSession, self)

    async def answer(self, *, failure: Exception | None = None) -> Callable[[Any], None]:
        """Answer the two reads that were asked first, with the node as it is now; their watch."""
        (_, exists, watch), (_, children, _) = self.asked[:2]
        del self.asked[:2]
        stat = SimpleNamespace(czxid=1, mzxid=self.change, pzxid=1)
        for future, result in ((exists, stat), (children, ([], stat))):
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)
        for _ in range(5):
            await asyncio.sleep(0)
        return watch


CHANGED = SimpleNamespace(path="/n", type=EventType.CHANGED)
CONNECTION_ENDED = SimpleNamespace(path=None, type=EventType.NONE)


async def test_a_watch_that_fires_during_arming_is_armed_and_reported_again() -> None:
    server, watches, heard = Server(), LastingWatches(root=""), list[str]()
    watches.handle_connect(server.session)
    watches.add("/n", heard.append)
    watch = await server.answer()
    assert heard == []
    watch(CHANGED)
    assert len(server.asked) == 2
    # The server sent this before it saw the reads, so the answers are older than the change.
    watch(CHANGED)
    assert len(server.asked) == 2
    await server.answer()
    assert heard == ["/n"]
    server.change += 1
    assert await server.answer() is watch
    assert heard == ["/n", "/n"]
    assert server.asked == []


async def test_what_was_armed_on_a_connection_that_ended_is_not_taken_for_armed() -> None:
    server, watches, heard = Server(), LastingWatches(root=""), list[str]()
    watches.handle_connect(server.session)
    watches.add("/n", heard.append)
    # The answers arrived, and before they are looked at the connection is another.
    stat = SimpleNamespace(czxid=1, mzxid=1, pzxid=1)
    (_, exists, _), (_, children, _) = server.asked
    exists.set_result(stat)
    children.set_result(([], stat))
    server.asked.clear()
    watches.handle_connect(server.session)
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(server.asked) == 2
    await server.answer()
    # It was never seen on the first one, so it may have changed.
    assert heard == ["/n"]


async def test_a_watch_asked_for_without_a_connection_is_told_when_there_is_one() -> None:
    server, watches, heard = Server(), LastingWatches(root=""), list[str]()
    watches.add("/n", heard.append)
    watches.handle_connect(server.session)
    watch = await server.answer()
    assert heard == ["/n"]
    server.state = SessionState.SUSPENDED
    watch(CONNECTION_ENDED)
    assert server.asked == []
    server.state = SessionState.CONNECTED
    watches.handle_connect(server.session)
    await server.answer(failure=StoreConnectionLost("cut again"))
    # Tried again as long as the session seems to be there.
    server.change += 1
    await server.answer()
    assert heard == ["/n", "/n"]


async def test_so_many_are_armed_at_once_and_the_others_are_told_when_they_are() -> None:
    server, watches, heard = Server(), LastingWatches(root=""), list[str]()
    watches.handle_connect(server.session)
    for number in range(REGISTRY_WATCHES_ARMED_AT_ONCE_MAX + 2):
        watches.add(f"/{number}", heard.append)
    assert len(server.asked) == 2 * REGISTRY_WATCHES_ARMED_AT_ONCE_MAX
    await server.answer()
    assert len(server.asked) == 2 * REGISTRY_WATCHES_ARMED_AT_ONCE_MAX
    while server.asked:
        await server.answer()
    assert heard == [f"/{REGISTRY_WATCHES_ARMED_AT_ONCE_MAX + number}" for number in range(2)]


async def test_a_session_that_is_over_makes_no_connection() -> None:
    handler = LoopHandler(asyncio.get_running_loop(), tls=None, connect_seconds_max=1, on_pause=lambda: None)
    handler.end()
    with pytest.raises(ConnectionAbortedError):
        handler.create_connection(("127.0.0.1", 1), "localhost")
