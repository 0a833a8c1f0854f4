"""Offsets of a group are set back while its consumers run: they go, come back by themselves, and read again."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from odradek.client.results import (
    AlterOperation,
    CommittedOffset,
    ConfigChange,
    ResourceType,
)
from odradek.foundation.errors import NonEmptyGroup, OdradekError
from odradek.foundation.ids import TopicPartition
from tests.integration.conftest import MakeBroker
from tests.support.broker_process import CHECKOUT, Broker
from tests.support.polling import SECONDS_MAX, eventually
from tests.support.stories import in_real_time
from tests.support.verifiable import Receiver

pytestmark = [pytest.mark.integration, pytest.mark.clients]

WHERE = TopicPartition("orders", 0)
UNFENCE = ConfigChange("odradek.fenced.until", None, AlterOperation.DELETE)
KINDS = [
    ("confluent", "classic"),
    ("confluent", "consumer"),
    ("kafka-python", "classic"),
    ("aiokafka", "classic"),
]


def fence() -> ConfigChange:
    return ConfigChange("odradek.fenced.until", str(round((time.time() + 2 * SECONDS_MAX) * 1000)))


class Member:
    """A consumer in a process of its own, and what it reported so far."""

    def __init__(self, broker: Broker, client: str, protocol: str) -> None:
        options = {
            "number": 0,
            "client": client,
            "protocol": protocol,
            "strategy": "range",
            "bootstrap": broker.bootstrap,
            "group": "g",
            "topic": WHERE.topic,
            "session_ms": 20_000,
            "log": None,
        }
        self.told: list[list[Any]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.group_member", json.dumps(options)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONPATH": f"{CHECKOUT / 'broker'}:{CHECKOUT}"},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            self.told.extend(json.loads(line) for line in lines)

    def taken(self, *, since: int = 0) -> set[int]:
        """The offsets that it reported after its first `since` lines."""
        ranges = [part for what, _, parts in self.told[since:] if what == "got" for part in parts]
        return {offset for _, first, last in ranges for offset in range(first, last + 1)}

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(SECONDS_MAX)


@pytest.fixture(params=KINDS, ids=["-".join(kind) for kind in KINDS])
def member_and_broker(
    request: pytest.FixtureRequest, make_broker: MakeBroker, tmp_path: Path
) -> Iterator[tuple[Member, Broker]]:
    broker = make_broker(
        group_consumer_min_heartbeat_interval_ms=100, group_consumer_heartbeat_interval_ms=300
    )
    asyncio.run(_with(broker, lambda admin: admin.topics.create(WHERE.topic, partitions=1)))
    member = Member(broker, *request.param)
    yield member, broker
    member.close()


async def _with(broker: Broker, act: Callable[[Admin], Any]) -> Any:
    async with Client(broker.bootstrap) as client:
        return await act(Admin(client))


async def produce(client: Client, count: int) -> None:
    async with Producer(client) as producer:
        for number in range(count):
            await producer.send(WHERE.topic, b"%d" % number, partition=0)
        await producer.flush()


@in_real_time
async def test_a_running_group_is_set_back(member_and_broker: tuple[Member, Broker]) -> None:
    member, broker = member_and_broker
    async with Client(broker.bootstrap) as client:
        admin = Admin(client)

        async def state() -> str:
            try:
                return (await admin.groups.describe("g")).state
            except OdradekError as failure:
                return type(failure).__name__

        async def committed() -> int:
            found = (await admin.groups.offsets("g")).get(WHERE)
            return -1 if found is None else found.offset

        async def has_committed_all() -> bool:
            return await committed() == 100

        async def is_empty() -> bool:
            return await state() == "Empty"

        await produce(client, 100)
        await eventually("100 records read and committed", has_committed_all)
        with pytest.raises(NonEmptyGroup):
            await admin.groups.alter_offsets("g", {WHERE: CommittedOffset(40)})
        await admin.configs.alter(ResourceType.GROUP, "g", [fence()])
        await eventually("nobody in the fenced group", is_empty)
        await produce(client, 5)
        await admin.groups.alter_offsets("g", {WHERE: CommittedOffset(40)})
        told = len(member.told)
        assert await committed() == 40
        assert await is_empty()
        await admin.configs.alter(ResourceType.GROUP, "g", [UNFENCE])
        await eventually(
            "all from the new offset on read again",
            lambda: member.taken(since=told) >= set(range(40, 105)),
        )
        assert min(member.taken(since=told)) == 40
        await eventually("committed to the end", committed, lambda offset: offset == 105)
    assert member.process.poll() is None, "the consumer died"


@pytest.mark.thorough
@pytest.mark.java
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_running_group_of_javas_is_set_back(make_broker: MakeBroker, tmp_path: Path, protocol: str) -> None:
    broker = make_broker(
        group_consumer_min_heartbeat_interval_ms=100, group_consumer_heartbeat_interval_ms=300
    )
    asyncio.run(_with(broker, lambda admin: admin.topics.create(WHERE.topic, partitions=1)))
    receiver = Receiver(tmp_path / "java", broker.bootstrap, WHERE.topic, group="g", protocol=protocol)

    async def story() -> None:
        async with Client(broker.bootstrap) as client:
            admin = Admin(client)

            async def committed() -> int:
                found = (await admin.groups.offsets("g")).get(WHERE)
                return -1 if found is None else found.offset

            async def is_read() -> bool:
                return await committed() == 100

            async def is_empty() -> bool:
                return (await admin.groups.describe("g")).state == "Empty"

            async def is_read_again() -> bool:
                return await committed() == 105

            async def is_reported() -> bool:
                return receiver.again.total() >= 60 and sum(map(len, receiver.received.values())) == 105

            await produce(client, 100)
            await eventually("100 records read and committed", is_read)
            await admin.configs.alter(ResourceType.GROUP, "g", [fence()])
            await eventually("nobody in the fenced group", is_empty)
            await produce(client, 5)
            await admin.groups.alter_offsets("g", {WHERE: CommittedOffset(40)})
            assert await committed() == 40
            await admin.configs.alter(ResourceType.GROUP, "g", [UNFENCE])
            await eventually("all from the new offset on read again", is_read_again)
            # The member says what it received in lines of its own, which may come after its commit.
            await eventually("the member says so", is_reported)

    try:
        asyncio.run(story())
        assert receiver.is_running, receiver.said()
    finally:
        receiver.stop()
    # A member that does not know yet that it is out may have been given the five of that time.
    assert 60 <= receiver.again.total() <= 65
    assert sum(map(len, receiver.received.values())) == 105
