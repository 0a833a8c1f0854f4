"""A browser's part in the tests of the console: requests over HTTP to a console of the test's process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import aiohttp

from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from odradek.client.results import CommittedOffset
from odradek.console.clusters import ONLY, ClusterSource, ConsoleCluster
from odradek.console.http.protection import CHANGE_HEADER
from odradek.console.http.server import ConsoleServer, ConsoleSettings
from odradek.console.showing import RecordShowing
from odradek.foundation.ids import TopicPartition
from tests.support.stories import told_by


class Viewer:
    """Asks a console as its own pages do. `client` is for what a test prepares."""

    def __init__(self, server: ConsoleServer, session: aiohttp.ClientSession, client: Client) -> None:
        self.server = server
        self.session = session
        self.client = client

    @property
    def cluster(self) -> ConsoleCluster:
        """The first cluster of the console."""
        return self.server.clusters[0]

    async def get(self, path: str, *, status: int | tuple[int, ...] = 200, **fields: object) -> Any:
        """The document at /api/PATH."""
        async with self.session.get(f"{self.server.url}/api/{path}", params=_texts(fields)) as answer:
            assert answer.content_type == "application/json"
            wanted = (status,) if isinstance(status, int) else status
            assert answer.status in wanted, await answer.text()
            return await answer.json()

    async def act(self, name: str, *, status: int = 200, cluster: str = "", **body: object) -> Any:
        """The answer to a change."""
        headers = {CHANGE_HEADER: "1", "Sec-Fetch-Site": "same-origin"}
        address = f"{self.server.url}/api/actions/{name}{f'?cluster={cluster}' if cluster else ''}"
        async with self.session.post(address, json=body, headers=headers) as answer:
            assert answer.status == status, await answer.text()
            return await answer.json()

    @asynccontextmanager
    async def listen(self, path: str, **fields: object) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        """The events at /api/PATH; the page closes with the block."""
        address = f"{self.server.url}/api/{path}"
        async with self.session.get(address, params=_texts(fields)) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.content_type == "text/event-stream"
            async with aclosing(_events(answer)) as events:
                yield events

    async def events(self, path: str, **fields: object) -> list[tuple[str, Any]]:
        """All events up to the last one."""
        async with self.listen(path, **fields) as events:
            return [event async for event in events]

    async def make_topic(self, name: str, values: Sequence[bytes] = (), *, partitions: int = 1) -> None:
        await TopicAdmin(self.client).create(name, partitions=partitions)
        await self.produce(name, *values)

    async def produce(self, topic: str, *values: bytes, **more: Any) -> None:
        async with Producer(self.client, request_bytes_max=16 << 20) as producer:
            for value in values:
                await producer.send(topic, value, partition=0, **more)
            await producer.flush()

    async def commit(self, group: str, topic: str, offset: int) -> None:
        await GroupAdmin(self.client).alter_offsets(
            group, {TopicPartition(topic, 0): CommittedOffset(offset)}
        )


async def _events(answer: aiohttp.ClientResponse) -> AsyncGenerator[tuple[str, Any], None]:
    name = ""
    async for line in answer.content:
        kind, _, text = line.decode().rstrip("\n").partition(": ")
        if kind == "event":
            name = text
        elif kind == "data":
            yield name, json.loads(text)


def _texts(fields: dict[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in fields.items()}


def make_source(
    bootstrap: str, name: str = ONLY, *, wait_ms_max: int = 30_000, showing: RecordShowing | None = None
) -> ClusterSource:
    """A cluster without security."""
    return ClusterSource(
        new_client=lambda: Client(bootstrap, request_timeout_ms=wait_ms_max),
        bootstrap=bootstrap,
        name=name,
        connection=("--bootstrap", bootstrap),
        showing=showing or RecordShowing(),
    )


def run(
    bootstrap: str,
    story: Callable[[Viewer], Awaitable[None]],
    *,
    may_change: bool = False,
    allowed_hosts: Sequence[str] = (),
    wait_ms_max: int = 30_000,
    others: Sequence[ClusterSource] = (),
    showing: RecordShowing | None = None,
) -> None:
    """Run a story with a console of its own. The cluster need not be there. `others` are clusters beside it."""

    async def main() -> None:
        settings = ConsoleSettings(
            host="127.0.0.1",
            port=0,
            clusters=[make_source(bootstrap, wait_ms_max=wait_ms_max, showing=showing), *others],
            allowed_hosts=allowed_hosts,
            may_change=may_change,
        )
        async with aiohttp.ClientSession(read_bufsize=1 << 22) as session:
            own = Client(bootstrap)
            server = ConsoleServer(settings)
            await server.start()
            try:
                await story(Viewer(server, session, own))
            finally:
                await server.stop()
                await own.close()

    asyncio.run(main())


with_console = told_by(run, asks=("bootstrap",))
with_changes = told_by(run, asks=("bootstrap",), may_change=True)
