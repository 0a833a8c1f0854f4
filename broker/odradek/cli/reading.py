"""What `consume` reads: from where, until where, alone or in a group; the printing is not here.

Alone, the end of each partition is asked once at the start, so that reading what there is stops although producers
go on. In a group the positions are committed after the records were handed over, so that each record is printed at
least once.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.client import Client
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.consumer.group import GroupConsumer
from odradek.client.consumer.positions import ConsumerRecord
from odradek.foundation.errors import UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition

_POLL_MS = 500
_RECORDS_PER_POLL = 1_000


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The command's options, checked."""

    topics: tuple[str, ...]
    partitions: tuple[int, ...] | None
    is_from_beginning: bool
    start_ms: int | None
    offset: int | None
    end_ms: int | None
    records_max: int | None
    group: str | None
    is_following: bool
    idle_seconds_max: float | None
    is_read_committed: bool


def read(client: Client, plan: ReadPlan) -> AsyncGenerator[list[ConsumerRecord], None]:
    """Records in lists as they come; ends where the plan says. Close it when you stop before (`aclosing`)."""
    return _read_group(client, plan) if plan.group is not None else _read_alone(client, plan)


async def _read_alone(client: Client, plan: ReadPlan) -> AsyncGenerator[list[ConsumerRecord], None]:
    cluster = await client.with_retries(lambda: client.refresh(plan.topics))
    keys: list[TopicPartition] = []
    for name in plan.topics:
        numbers = [partition.partition for partition in cluster.topic(name).partitions]
        for wanted in plan.partitions or ():
            if wanted not in numbers:
                raise UnknownTopicOrPartition(
                    f"topic {name!r} has no partition {wanted}; it has {len(numbers)}, numbered from 0"
                )
        keys.extend(TopicPartition(name, number) for number in plan.partitions or numbers)
    logs = LogAdmin(client)
    found = await logs.list_offsets(dict.fromkeys(keys, LATEST), read_committed=plan.is_read_committed)
    ends = {key: listed.offset for key, listed in found.items()}
    starts = await _starts(logs, plan, ends)
    if plan.end_ms is not None:
        until = await logs.list_offsets(dict.fromkeys(keys, plan.end_ms))
        ends.update((key, listed.offset) for key, listed in until.items() if listed.offset >= 0)
    left = plan.records_max
    async with PartitionConsumer(
        client, is_read_committed=plan.is_read_committed, on_out_of_range="error"
    ) as consumer:
        consumer.assign(starts)
        idle_since = time.monotonic()
        while plan.is_following or any(consumer.position(key) < ends[key] for key in keys):
            records = await consumer.poll(records_max=_RECORDS_PER_POLL, timeout_ms=_POLL_MS)
            if not plan.is_following:
                records = [r for r in records if r.offset < ends[TopicPartition(r.topic, r.partition)]]
            if left is not None:
                records = records[:left]
                left -= len(records)
            if records:
                idle_since = time.monotonic()
                yield records
            elif _is_idle(plan, idle_since):
                return
            if left == 0:
                return


async def _starts(
    logs: LogAdmin, plan: ReadPlan, ends: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    if plan.is_from_beginning:
        found = await logs.list_offsets(dict.fromkeys(ends, EARLIEST))
        return {key: listed.offset for key, listed in found.items()}
    if plan.start_ms is not None:
        found = await logs.list_offsets(dict.fromkeys(ends, plan.start_ms))
        return {key: ends[key] if listed.offset < 0 else listed.offset for key, listed in found.items()}
    if plan.offset is None:
        return ends
    if plan.offset >= 0:
        return dict.fromkeys(ends, plan.offset)
    first = await logs.list_offsets(dict.fromkeys(ends, EARLIEST))
    return {key: max(first[key].offset, end + plan.offset) for key, end in ends.items()}


async def _read_group(client: Client, plan: ReadPlan) -> AsyncGenerator[list[ConsumerRecord], None]:
    assert plan.group is not None
    consumer = GroupConsumer(
        client,
        plan.group,
        plan.topics,
        on_no_offset="earliest" if plan.is_from_beginning else "latest",
        is_read_committed=plan.is_read_committed,
    )
    async with consumer:
        ends: dict[TopicPartition, int] = {}
        idle_since = time.monotonic()
        left = plan.records_max
        while left != 0:
            wanted = _RECORDS_PER_POLL if left is None else min(left, _RECORDS_PER_POLL)
            records = await consumer.poll(records_max=wanted, timeout_ms=_POLL_MS)
            if records:
                idle_since = time.monotonic()
                left = None if left is None else left - len(records)
                yield records
                await consumer.commit()
            elif _is_idle(plan, idle_since):
                return
            if plan.is_following:
                continue
            new = {key: LATEST for key in consumer.assignment if key not in ends}
            listed = await LogAdmin(client).list_offsets(new, read_committed=plan.is_read_committed)
            ends.update((key, found.offset) for key, found in listed.items())
            if consumer.assignment and all(
                consumer.position(key) >= ends[key] for key in consumer.assignment
            ):
                return


def _is_idle(plan: ReadPlan, idle_since: float) -> bool:
    return plan.idle_seconds_max is not None and time.monotonic() - idle_since >= plan.idle_seconds_max
