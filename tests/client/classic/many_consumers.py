"""Many consumers of one group settle: `python -m tests.client.classic.many_consumers CONSUMERS PROCESSES PARTITIONS`.

A real ZooKeeper, one broker of ours, and consumers in processes of their own. Each process makes its consumers on one
event loop, all at once. The time runs from the word to begin to the moment when each partition has an owner and the
owners are those of Algorithm 1. It is read from ZooKeeper, and not from what consumers say.

Left out: messages. Consumers do not fetch, since 500 of them would measure the broker. Offsets are in ZooKeeper from
the start, as for a group that has run before. `test_connector` and `test_stalls` have messages.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from odradek.client.classic import consumer_paths as paths
from odradek.client.classic.connector import Connector, shares, threads_of
from odradek.client.classic.properties import CONSUMER, Properties
from odradek.client.classic.registrations import STATIC, Registration, parse_registration
from odradek.foundation.ids import TopicPartition
from odradek.foundation.registry_errors import NodeExists, NoNode
from odradek.metadata.registry.registries import open_registry
from odradek.metadata.registry.store import Create, Store
from tests.support.cluster_processes import Cluster
from tests.support.peers import topic_creator
from tests.support.zookeeper import ZooKeeper

GROUP = "many"
SECONDS_MAX = 120
_PARTITIONS_PER_TOPIC = 100
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Settled:
    """How long a group took, and what it cost its consumers' processes."""

    start_seconds: float
    leave_seconds: float
    cpu_seconds: float


# --- one process of consumers -----------------------------------------------------------------------------------


class Idle:
    """Reads nothing."""

    def __init__(self, *given: object) -> None:
        return

    async def close(self) -> None:
        return


class IdleConnector(Connector):
    """A consumer that owns partitions and does not read them."""

    def _reader(self, *given: object) -> Idle:  # type: ignore[override]
        return Idle()


async def consume(connect: str, topics: Sequence[str], count: int) -> None:
    """Make consumers once a line arrives, and shut half of them down at the second line; end at the third."""
    properties = {
        "zk.connect": connect,
        "groupid": GROUP,
        "zk.sessiontimeout.ms": 30_000,
        "zk.connectiontimeout.ms": 60_000,
        "socket.timeout.ms": 60_000,
    }
    connectors = [IdleConnector(Properties(CONSUMER, properties)) for _ in range(count)]
    for connector in connectors:
        await connector.start()
        connector.create_streams(Registration(STATIC, dict.fromkeys(topics, 1)))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.gather(*(connector.join() for connector in connectors))
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.gather(*(connector.close() for connector in connectors[::2]))
    await asyncio.to_thread(sys.stdin.readline)
    print(time.process_time(), flush=True)
    os._exit(0)


# --- the one that measures --------------------------------------------------------------------------------------


class Group:
    """What ZooKeeper shows of the group."""

    def __init__(self, store: Store, topics: Sequence[str], partitions: int) -> None:
        self._store = store
        self._keys = {topic: range(partitions) for topic in topics}

    async def write_offsets(self) -> None:
        """As if the group had run before."""
        for topic, numbers in self._keys.items():
            folder = paths.offsets(GROUP, topic)
            steps = folder.split("/")[1:]
            for count in range(1, len(steps) + 1):
                with contextlib.suppress(NodeExists):
                    await self._store.create("/" + "/".join(steps[:count]))
            await self._store.multi([Create(f"{folder}/{number}", b"0") for number in numbers])

    async def is_settled(self, consumers: int) -> bool:
        """Whether so many consumers are registered, and own what Algorithm 1 gives them."""
        try:
            names = await self._store.children(paths.ids(GROUP))
            if len(names) != consumers:
                return False
            nodes = await self._store.get_many([paths.consumer_id(GROUP, name) for name in names])
            members = {
                name: parse_registration(node.data)
                for name, node in zip(names, nodes, strict=True)
                if node is not None
            }
            for topic, numbers in self._keys.items():
                if len(await self._store.children(paths.owners(GROUP, topic))) != len(numbers):
                    return False
                owners = await self._store.get_many(
                    [paths.owner(GROUP, TopicPartition(topic, number)) for number in numbers]
                )
                expected = shares(numbers, threads_of(topic, members))
                found = {
                    number: None if node is None else node.data.decode()
                    for number, node in zip(numbers, owners, strict=True)
                }
                if found != expected:
                    return False
        except NoNode:
            return False
        return True

    async def seconds_to_settle(self, consumers: int) -> float:
        """Wait until the group is settled."""
        start = time.monotonic()
        while not await self.is_settled(consumers):
            if time.monotonic() - start > SECONDS_MAX:
                raise AssertionError(f"{consumers} consumers did not settle within {SECONDS_MAX} s")
            await asyncio.sleep(_LOOK_SECONDS)
        return time.monotonic() - start


def settle(folder: Path, *, consumers: int, processes: int, partitions: int) -> Settled:
    """Start everything, and measure. Half of the consumers then leave, which is measured too."""
    zookeeper = ZooKeeper(folder / "zookeeper")
    zookeeper.start()
    cluster = Cluster(folder / "cluster", zookeeper.connect, brokers=1, controllers=1)
    children: list[subprocess.Popen[str]] = []
    try:
        cluster.start()
        each = min(partitions, _PARTITIONS_PER_TOPIC)
        topics = [topic_creator(cluster.bootstrap)(each) for _ in range(partitions // each)]
        for _ in range(processes):
            arguments = ["--join", cluster.connect, ",".join(topics), str(consumers // processes)]
            children.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.client.classic.many_consumers", *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                )
            )
        for child in children:
            _line(child.stdout)
        return asyncio.run(_measured(cluster.connect, topics, each, children, consumers, processes))
    finally:
        for child in children:
            child.kill()
            child.communicate()
        cluster.close()
        zookeeper.close()


async def _measured(
    connect: str,
    topics: Sequence[str],
    each: int,
    children: Sequence[subprocess.Popen[str]],
    consumers: int,
    processes: int,
) -> Settled:
    store = await open_registry(f"zookeeper:{connect}", entries={"zookeeper.session.timeout.ms": "60000"})
    try:
        group = Group(store, topics, each)
        await group.write_offsets()
        _tell(children)
        start_seconds = await group.seconds_to_settle(consumers)
        _tell(children)
        leaving = processes * ((consumers // processes + 1) // 2)
        leave_seconds = await group.seconds_to_settle(consumers - leaving)
        _tell(children)
        cpu_seconds = sum([float(await asyncio.to_thread(_line, child.stdout)) for child in children])
    finally:
        await store.close()
    return Settled(start_seconds, leave_seconds, cpu_seconds)


def _tell(children: Sequence[subprocess.Popen[str]]) -> None:
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()


def _line(stream: IO[str] | None) -> str:
    assert stream is not None
    line = stream.readline()
    assert line, "a process of consumers ended early; its error is above"
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("consumers", type=int)
    parser.add_argument("processes", type=int)
    parser.add_argument("partitions", type=int, help="in topics of 100")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = settle(
            Path(folder), consumers=given.consumers, processes=given.processes, partitions=given.partitions
        )
    print(
        f"{given.consumers} consumers in {given.processes} processes own {given.partitions} partitions after"
        f" {found.start_seconds:.1f} s; after half of them left, {found.leave_seconds:.1f} s;"
        f" CPU of the consumers {found.cpu_seconds:.1f} s; load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--join"]:
        asyncio.run(consume(sys.argv[2], sys.argv[3].split(","), int(sys.argv[4])))
    else:
        main()
