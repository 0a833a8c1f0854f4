"""What processes of the product's own clients share: a client, their topic, and a life between `ready` and the end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.foundation.errors import OdradekError, TopicAlreadyExists


class Writer(Protocol):
    """Writes until all is over; `is_ready` is set once it has written."""

    is_ready: asyncio.Event

    async def write(self, is_over: asyncio.Event) -> None: ...


def client_of(options: Mapping[str, Any], name: str) -> Client:
    return Client(options["bootstrap"], client_id=name, request_timeout_ms=5_000, connect_timeout_ms=3_000)


async def works(call: Callable[[], Awaitable[object]]) -> bool:
    """Whether a call raises no error of ours."""
    try:
        await call()
    except OdradekError:
        return False
    return True


async def make_topic(options: Mapping[str, Any], topic: str, *, partitions: int, **more: Any) -> None:
    """Make a topic of three replicas, unless it is there."""
    async with client_of(options, "maker") as client:
        while True:
            try:
                await TopicAdmin(client).create(topic, partitions=partitions, replication_factor=3, **more)
            except TopicAlreadyExists:
                return
            except OdradekError:
                await asyncio.sleep(0.5)
            else:
                return


async def write_until_told(writers: Sequence[Writer], *others: asyncio.Task[None]) -> None:
    """Have them write until the standard input ends; `ready` is printed when each has written."""
    is_over = asyncio.Event()
    tasks = [asyncio.create_task(writer.write(is_over)) for writer in writers]
    for task in (*tasks, *others):  # one that fails ends the process, and is seen
        task.add_done_callback(
            lambda done: None if done.cancelled() or not done.exception() else is_over.set()
        )
    for writer in writers:
        await writer.is_ready.wait()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    is_over.set()
    await asyncio.gather(*tasks)
