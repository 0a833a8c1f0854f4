"""A mirror between two real brokers, for tests: written sources, quick sessions, and the comparison at the end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from odradek import Consumer, Producer
from odradek.client.admin.logs import LATEST, LogAdmin
from odradek.client.client import Client
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.mirror import worker
from odradek.mirror.mirror import Mirror
from odradek.mirror.settings_file import read_mirror_settings
from tests.support.polling import SECONDS_MAX, eventually

# What keeps a test's waiting short where a process dies. Mirrors in the test's own process share its loop with readers,
# so they have the session of every mirror.
SESSION_MS, HEARTBEAT_MS = 3_000, 300
WAIT_SECONDS_MAX = SECONDS_MAX

Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def quicken(patch: Any) -> None:
    """A change of the group is seen soon; `patch` is pytest's monkeypatch."""
    patch.setattr(worker, "MIRROR_HEARTBEAT_MS", HEARTBEAT_MS)


def entries(source: str, target: str, **more: str) -> dict[str, str]:
    """A mirror's properties from cluster a to cluster b. Dots of `more` are written as double underscores."""
    return {
        "clusters": "a, b",
        "a.bootstrap.servers": source,
        "b.bootstrap.servers": target,
        "a->b.enabled": "true",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "emit.offset-syncs.enabled": "false",
        "refresh.topics.interval.seconds": "1",
        **{key.replace("__", "."): value for key, value in more.items()},
    }


@contextlib.asynccontextmanager
async def running(properties: Mapping[str, str]) -> AsyncIterator[Mirror]:
    """A mirror in this process; ended cleanly."""
    mirror = Mirror(read_mirror_settings(properties, source="test.properties"))
    task = asyncio.create_task(mirror.run())
    try:
        yield mirror
    finally:
        mirror.stop()
        await asyncio.wait_for(task, WAIT_SECONDS_MAX)


async def until(condition: Any, *, seconds_max: float = WAIT_SECONDS_MAX, what: str = "") -> None:
    """Wait until an awaitable condition holds."""
    await eventually(
        what or str(condition), condition, seconds_max=seconds_max, pause_seconds=0.1, not_yet=OdradekError
    )


def state_of(mirror: Mirror) -> str:
    """A mirror's first flow, for the message of a failure."""
    flow = mirror.flows[0]
    membership = flow._worker._membership
    return (
        f"{flow.label} is {flow.state} in generation {membership.generation} as {membership.member_id!r}, "
        f"with {len(flow.counters.partitions)} partitions; last error: {flow.counters.last_error}"
    )


async def committed(client: Client, topic: str) -> dict[int, list[Row]]:
    """What readers of committed records see, by partition, in order; empty partitions are left out."""
    rows: dict[int, list[Row]] = {}
    numbers = [one.partition for one in (await client.refresh([topic])).topic(topic).partitions]
    keys = [TopicPartition(topic, number) for number in numbers]
    ends = await LogAdmin(client).offsets_at(keys, LATEST, read_committed=True)
    consumer = Consumer(client, topic, auto_offset_reset="earliest", is_read_committed=True)
    async with consumer:
        while any(consumer.positions.get(key, 0) < end for key, end in ends.items()):
            for record in await consumer.poll(records_max=50_000, timeout_ms=300):
                rows.setdefault(record.partition, []).append(
                    (record.timestamp_ms, record.key, record.value, tuple(record.headers))
                )
    return rows


async def mirrored(
    source: Client, target: Client, topic: str, copy: str, *, is_compacted: bool = False
) -> bool:
    """Whether the copy has exactly what the source shows, in order. Raises AssertionError for what can never be.

    Either side of a compacted topic may have removed other records since. What both have counts then, and the last
    value of each key.
    """
    wanted, found = await committed(source, topic), await committed(target, copy)
    if is_compacted:
        return wanted.keys() == found.keys() and all(
            _compacted_alike(rows, found[partition]) for partition, rows in wanted.items()
        )
    for partition, rows in found.items():
        length = len(rows)
        assert rows == wanted.get(partition, [])[:length], difference(
            topic, partition, wanted.get(partition, []), rows
        )
    return found == wanted


def _compacted_alike(wanted: Sequence[Row], found: Sequence[Row]) -> bool:
    """Whether the last values of all keys are the same. Raises AssertionError for another order, and for doubles."""
    both = set(wanted) & set(found)
    assert len(set(found)) == len(found), "a record is there twice"
    assert [row for row in found if row in both] == [row for row in wanted if row in both]
    return {key: value for _, key, value, _ in wanted} == {key: value for _, key, value, _ in found}


def difference(topic: str, partition: int, wanted: Sequence[Row], found: Sequence[Row]) -> str:
    """Where two partitions differ first."""
    for place, (one, other) in enumerate(zip(wanted, found, strict=False)):
        if one != other:
            where = wanted.index(other) if other in wanted else None
            return f"{topic}-{partition} record {place}: {one} became {other}, which is record {where} of the source"
    return f"{topic}-{partition}: {len(wanted)} records became {len(found)}"


async def write(
    client: Client,
    topic: str,
    count: int,
    *,
    first: int = 0,
    partitions: int = 1,
    compression: str = "none",
    transactional_id: str | None = None,
    is_aborted: bool = False,
    keys: int | None = None,
) -> None:
    """Numbered records, dealt to the partitions; with an id in one transaction."""
    await until(lambda: _exists(client, topic))
    producer = Producer(client, compression=compression, transactional_id=transactional_id, linger_ms=5)
    await producer.start()
    try:
        if transactional_id is not None:
            await producer.begin_transaction()
        for number in range(first, first + count):
            key = b"k%d" % (number if keys is None else number % keys)
            await producer.send(
                topic,
                b"value %d" % number,
                key=key,
                partition=number % partitions,
                headers=(("n", b"%d" % number),),
            )
        await producer.flush()
        if transactional_id is not None:
            await (producer.abort_transaction() if is_aborted else producer.commit_transaction())
    finally:
        await producer.close()


async def _exists(client: Client, topic: str) -> bool:
    return not (await client.refresh([topic])).topic(topic).error_code
