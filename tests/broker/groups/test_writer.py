"""The writer of one partition of the offsets topic: its append ends with it, and nothing begins after that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import cast

import pytest

from odradek.broker.coordination.topic_log import InternalTopicLog, TopicParts
from odradek.broker.coordination.writer import RecordWriter
from odradek.broker.groups.coordinator import TOPIC
from odradek.foundation import errors
from odradek.foundation.clock import SystemClock

RECORD = (b"key", b"value")


class SlowReplicas:
    """An offsets log whose replicas never take anything."""

    def __init__(self) -> None:
        self.appends = 0

    def append(self, partition: int, batch: bytearray, *, token: object = None) -> Awaitable[int]:
        self.appends += 1
        return self._never()

    async def _never(self) -> int:
        await asyncio.Event().wait()
        return 0


def writer_of(log: SlowReplicas) -> RecordWriter:
    return RecordWriter(TopicParts(TOPIC, cast(InternalTopicLog, log), SystemClock()), 0)


async def test_the_append_under_way_ends_with_its_writer() -> None:
    log = SlowReplicas()
    writer = writer_of(log)
    outcomes: list[errors.OdradekError | None] = []
    writer.submit([RECORD], outcomes.append)
    await asyncio.sleep(0.1)
    writer.submit([RECORD], outcomes.append)
    writer.close(errors.NotCoordinator("another leads"))
    assert [type(one) for one in outcomes] == [errors.NotCoordinator]
    await writer.end()
    assert [type(one) for one in outcomes] == [errors.NotCoordinator, errors.CoordinatorNotAvailable]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await writer.end()


async def test_a_callback_of_a_cancelled_append_begins_no_other() -> None:
    log = SlowReplicas()
    writer = writer_of(log)
    outcomes: list[errors.OdradekError | None] = []

    def go_on(error: errors.OdradekError | None) -> None:
        outcomes.append(error)
        writer.submit([RECORD], outcomes.append)

    writer.submit([RECORD], go_on)
    writer.submit([RECORD], outcomes.append)
    await asyncio.sleep(0.1)
    # As a loop does with all tasks when it ends.
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.sleep(0.1)
    assert log.appends == 1
    assert outcomes
    assert all(isinstance(one, errors.CoordinatorNotAvailable) for one in outcomes)
    assert asyncio.all_tasks() == {asyncio.current_task()}


class FullDisk:
    """An offsets log that refuses everything while it `is_full`."""

    def __init__(self) -> None:
        self.is_full = True

    def append(self, partition: int, batch: bytearray, *, token: object = None) -> int:
        if self.is_full:
            raise errors.KafkaStorageError("no room")
        return 0


class LateRefusal(SlowReplicas):
    """An offsets log whose replicas are found to be too few after a second."""

    async def _never(self) -> int:
        await asyncio.sleep(1)
        raise errors.NotEnoughReplicasAfterAppend("one of two is left")


async def test_what_waits_behind_a_failed_append_fails_with_it() -> None:
    log = LateRefusal()
    writer = writer_of(log)
    outcomes: list[errors.OdradekError | None] = []
    writer.submit([RECORD], outcomes.append)
    await asyncio.sleep(0.1)
    for _ in range(2):
        writer.submit([RECORD], outcomes.append)
    await asyncio.sleep(10)
    assert [type(one) for one in outcomes] == [errors.CoordinatorNotAvailable] * 3
    assert log.appends == 1


async def test_a_disk_that_is_full_for_long_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = FullDisk()
    writer = RecordWriter(TopicParts(TOPIC, cast(InternalTopicLog, log), SystemClock()), 0)
    outcomes: list[errors.OdradekError | None] = []
    for _ in range(5):
        writer.submit([RECORD], outcomes.append)
        await asyncio.sleep(0.1)
    log.is_full = False
    for _ in range(2):
        writer.submit([RECORD], outcomes.append)
        await asyncio.sleep(0.1)
    assert [type(one) for one in outcomes] == [errors.NotCoordinator] * 5 + [type(None)] * 2
    assert [record.getMessage() for record in caplog.records] == [
        "a write to the offsets topic, partition 0, failed: no room",
        "the offsets topic, partition 0, is written again",
    ]
