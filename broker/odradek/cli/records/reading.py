"""The reading of `consume`: from where, until where, alone or in a group. Printing is in `templates`.

Alone, it asks for the end of each partition once at the start, so that it stops although producers continue. In a group
it commits positions after the records are printed, so that each record is printed at least once. While it follows, it
also reads new topics of a pattern and new partitions, from their first record.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import stat
import sys
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass

import click

from odradek.cli.shared.progress import ProgressBar
from odradek.cli.topics.target_topic import check_rights
from odradek.cli.topics.topic_choice import TopicChoice
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.client import Client
from odradek.client.consumer.blocks import RecordBlock
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.consumer.group import GroupConsumer
from odradek.client.share.deliveries import Acknowledgement, DeliveredBlock
from odradek.client.share.sessions import ShareBounds
from odradek.client.share.share_consumer import ShareConsumer
from odradek.foundation.client_limits import TOPICS_CHECK_SECONDS
from odradek.foundation.errors import OdradekError, OffsetOutOfRange, UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey

logger = logging.getLogger(__name__)

_POLL_MS = 500
# In a group, so that a crash makes only a few records print again.
_RECORDS_PER_COMMIT = 10_000
_QUEUE_RECORDS_MAX = 500


Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Start:
    """The start that the options ask for: the first record kept, a time in ms, or an offset. A negative offset counts
    from the end. Without an option the start is the end.
    """

    is_from_beginning: bool = False
    time_ms: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The command's options, checked. `may_wait`: --follow was given, and is not only the default."""

    topics: TopicChoice
    partitions: tuple[int, ...] | None
    start: Start
    end_ms: int | None
    records_max: int | None
    group: str | None
    share_group: str | None
    is_following: bool
    may_wait: bool
    idle_seconds_max: float | None
    is_read_committed: bool


class Watcher:
    """Callbacks for the progress of the reading. These do nothing."""

    def note(self, text: str) -> None:
        """A notice for the user."""

    def total(self, offsets: int) -> None:
        """The number of offsets to read."""

    def read(self, records: int, offsets: int) -> None:
        """The numbers of records read and of offsets passed since the last call."""

    def check_output(self) -> None:
        """Raises BrokenPipeError when the reader of the output has ended. It is asked at each poll."""


def read(client: Client, plan: ReadPlan, watcher: Watcher) -> AsyncGenerator[list[RecordBlock], None]:
    """Records in blocks as they arrive, until the end that the plan sets. Close it if you stop before (`aclosing`)."""
    if plan.share_group is not None:
        return _read_queue(client, plan, watcher)
    return (
        _read_group(client, plan, watcher) if plan.group is not None else _read_alone(client, plan, watcher)
    )


async def _find_topics(client: Client, plan: ReadPlan, watcher: Watcher) -> list[str]:
    """The topics that match now. Raises UnknownTopicOrPartition if there are none and the plan does not wait."""
    names = await plan.topics.find(client)
    if not names:
        if not plan.may_wait:
            raise plan.topics.nothing_matches()
        watcher.note("no topic matches yet: waiting for one")
    return names


# --- alone ----------------------------------------------------------------------------------------------------------


async def _read_alone(
    client: Client, plan: ReadPlan, watcher: Watcher
) -> AsyncGenerator[list[RecordBlock], None]:
    keys = await _partitions(client, plan, watcher)
    logs = LogAdmin(client)
    ends = await logs.offsets_at(keys, LATEST, read_committed=plan.is_read_committed)
    starts, notes = await starting_offsets(logs, plan.start, ends, may_wait=plan.may_wait)
    for note in notes:
        watcher.note(note)
    if plan.end_ms is not None:
        until = await logs.offsets_at(keys, plan.end_ms)
        ends.update((key, offset) for key, offset in until.items() if offset >= 0)
    if not plan.is_following:
        watcher.total(sum(max(ends[key] - start, 0) for key, start in starts.items()))
    # Only an offset to wait for lies beyond a start.
    first_offset = max(plan.start.offset or 0, 0)
    left = plan.records_max
    async with PartitionConsumer(
        client,
        is_read_committed=plan.is_read_committed,
        on_out_of_range="error",
        # Each topic of a pattern may be deleted at any time; the others are still read.
        is_waiting_for_topics=plan.is_following and bool(plan.topics.patterns),
    ) as consumer:
        consumer.assign(starts)
        looks = _ClusterLooks(client, plan)
        idle_since = time.monotonic()
        while plan.is_following or any(consumer.position(key) < ends[key] for key in keys):
            if await looks.has_looked():
                await _take_up_new(client, plan, consumer)
            before = _position_sum(consumer)
            watcher.check_output()
            blocks = await consumer.poll_blocks(records_max=left, timeout_ms=_POLL_MS)
            if not plan.is_following:
                blocks = [part for block in blocks for part in _part(block, 0, ends[block.topic_partition])]
            elif first_offset:
                blocks = [part for block in blocks for part in _part(block, first_offset, block.end_offset)]
            count = sum(block.record_count for block in blocks)
            left = None if left is None else left - count
            if blocks:
                idle_since = time.monotonic()
                yield blocks
            watcher.read(count, _position_sum(consumer) - before)
            if left == 0 or (not blocks and _is_idle(plan, idle_since)):
                return


async def _partitions(client: Client, plan: ReadPlan, watcher: Watcher) -> list[TopicPartition]:
    names = await _find_topics(client, plan, watcher)
    cluster = await client.with_retries(lambda: client.refresh(names))
    check_rights(cluster, names, ApiKey.FETCH)
    return [key for name in names for key in cluster.partitions(name, plan.partitions)]


def _part(block: RecordBlock, first_offset: int, end_offset: int) -> Iterable[RecordBlock]:
    """The part of a block before the end, if any."""
    if block.first_offset < end_offset and block.end_offset > first_offset:
        part = block.between(first_offset, end_offset)
        if part.record_count:
            yield part


def _position_sum(consumer: PartitionConsumer) -> int:
    return sum(consumer.position(key) for key in consumer.assignment)


class _ClusterLooks:
    """When to look for new topics and partitions again: while following, unless partitions were named."""

    def __init__(self, client: Client, plan: ReadPlan) -> None:
        self._client = client
        self._plan = plan
        self._looked_at = time.monotonic()

    async def has_looked(self) -> bool:
        """Refresh the metadata if it is due, every `TOPICS_CHECK_SECONDS`. Returns whether it was refreshed."""
        now = time.monotonic()
        is_wanted = self._plan.is_following and self._plan.partitions is None
        if not is_wanted or now - self._looked_at < TOPICS_CHECK_SECONDS:
            return False
        self._looked_at = now
        try:
            await self._client.refresh(None if self._plan.topics.patterns else self._plan.topics.names)
        except OdradekError as failure:
            logger.debug(
                "new topics cannot be looked for: %s", failure
            )  # the consumer reports that the broker does not answer
            return False
        return True


def _topics_now(client: Client, plan: ReadPlan) -> list[str]:
    known = client.cluster.topics
    return plan.topics.among(
        (topic.name, topic.is_internal) for topic in known.values() if not topic.error_code
    )


async def _take_up_new(client: Client, plan: ReadPlan, consumer: PartitionConsumer) -> None:
    known = client.cluster.topics
    keys = [
        TopicPartition(name, partition.partition)
        for name in _topics_now(client, plan)
        if name in known
        for partition in known[name].partitions
    ]
    kept = set(consumer.assignment)
    if plan.topics.patterns:
        # A deleted topic of a pattern is no longer read; a topic given by name stays.
        kept = {key for key in kept if key in keys or key.topic in plan.topics.names}
    new = [key for key in keys if key not in kept]
    if not new and len(kept) == len(consumer.assignment):
        return
    try:
        starts = await LogAdmin(client).offsets_at(new, EARLIEST)
    except OdradekError as failure:
        logger.debug("new partitions are looked for again later: %s", failure)
        return
    consumer.assign({key: consumer.position(key) for key in kept} | starts)


# --- the start ------------------------------------------------------------------------------------------------------


async def starting_offsets(
    logs: LogAdmin, start: Start, ends: Offsets, *, may_wait: bool
) -> tuple[Offsets, list[str]]:
    """The offset to start at in each partition, never beyond its end, and notices for the user. Raises OffsetOutOfRange
    for an offset that a partition no longer has. It does the same for one beyond all ends, unless the command may wait
    for it.
    """
    if start.is_from_beginning:
        return await logs.offsets_at(ends, EARLIEST), []
    if start.time_ms is not None:
        found = await logs.offsets_at(ends, start.time_ms)
        return {key: ends[key] if offset < 0 else offset for key, offset in found.items()}, []
    if start.offset is None:
        return ends, []
    firsts = await logs.offsets_at(ends, EARLIEST)
    if start.offset < 0:
        return {key: max(firsts[key], end + start.offset) for key, end in ends.items()}, []
    notes = _check_range(start.offset, firsts, ends, may_wait=may_wait)
    return {key: min(start.offset, end) for key, end in ends.items()}, notes


def _check_range(
    offset: int, firsts: Mapping[TopicPartition, int], ends: Offsets, *, may_wait: bool
) -> list[str]:
    ranges = {key: _range(key, firsts[key], end) for key, end in ends.items()}
    before = [ranges[key] for key, first in firsts.items() if offset < first]
    if before:
        raise OffsetOutOfRange(
            f"offset {offset} no longer exists: {'; '.join(before)}. "
            "Start with --from-beginning, or at an offset that exists"
        )
    beyond = [key for key, end in ends.items() if offset > end]
    if may_wait:
        return [f"{ranges[key]}: waiting for offset {offset}" for key in beyond]
    if beyond and len(beyond) == len(ends):
        raise OffsetOutOfRange(
            f"offset {offset} is beyond the end: {'; '.join(ranges.values())}. "
            f"Start before the end, with --offset -10 for the last ten, or add --follow to wait for {offset}"
        )
    return [f"{ranges[key]}: nothing to read from offset {offset} on" for key in beyond]


def _range(key: TopicPartition, first: int, end: int) -> str:
    if first == end:
        return f"partition {key} is empty and its next offset is {end}"
    return f"partition {key} has offsets {first} to {end - 1}"


# --- in a group -----------------------------------------------------------------------------------------------------


async def _read_group(
    client: Client, plan: ReadPlan, watcher: Watcher
) -> AsyncGenerator[list[RecordBlock], None]:
    assert plan.group is not None
    names = await _find_topics(client, plan, watcher)
    await _require_named(client, plan, watcher)
    consumer = GroupConsumer(
        client,
        plan.group,
        names,
        on_no_offset="earliest" if plan.start.is_from_beginning else "latest",
        is_read_committed=plan.is_read_committed,
    )
    async with consumer:
        ends: Offsets = {}
        looks = _ClusterLooks(client, plan)
        idle_since = time.monotonic()
        left = plan.records_max
        while left != 0:
            if plan.topics.patterns and await looks.has_looked():
                consumer.subscribe(_topics_now(client, plan))
            watcher.check_output()
            wanted = _RECORDS_PER_COMMIT if left is None else min(left, _RECORDS_PER_COMMIT)
            blocks = await consumer.poll_blocks(records_max=wanted, timeout_ms=_POLL_MS)
            if blocks:
                idle_since = time.monotonic()
                count = sum(block.record_count for block in blocks)
                left = None if left is None else left - count
                yield blocks
                await consumer.commit()
                watcher.read(count, 0)
            elif _is_idle(plan, idle_since):
                return
            if plan.is_following:
                continue
            new = [key for key in consumer.assignment if key not in ends]
            ends |= await LogAdmin(client).offsets_at(new, LATEST, read_committed=plan.is_read_committed)
            if consumer.assignment and all(
                consumer.position(key) >= ends[key] for key in consumer.assignment
            ):
                return


# --- of a queue ------------------------------------------------------------------------------------------------------


async def _read_queue(
    client: Client, plan: ReadPlan, watcher: Watcher
) -> AsyncGenerator[list[RecordBlock], None]:
    """Records in blocks as the queue gives them. Those that were not printed are given to others at the end."""
    assert plan.share_group is not None
    names = await _find_topics(client, plan, watcher)
    await _require_named(client, plan, watcher)
    left = plan.records_max
    bounds = ShareBounds(
        records_max=min(left or _QUEUE_RECORDS_MAX, _QUEUE_RECORDS_MAX), is_strict=left is not None
    )
    async with ShareConsumer(client, plan.share_group, names, bounds=bounds, is_explicit=True) as consumer:
        idle_since = time.monotonic()
        while left != 0:
            watcher.check_output()
            blocks = await consumer.poll_blocks(timeout_ms=_POLL_MS)
            if not blocks:
                if _is_idle(plan, idle_since):
                    return
                continue
            idle_since = time.monotonic()
            printed = _first(blocks, left)
            yield [one.block for one in printed]
            count = 0
            for one in printed:
                for record in one.share_records():
                    consumer.acknowledge(record, Acknowledgement.ACCEPT)
                    count += 1
            left = None if left is None else left - count
            await consumer.commit()
            watcher.read(count, 0)


def _first(blocks: Sequence[DeliveredBlock], records_max: int | None) -> list[DeliveredBlock]:
    """The first records of these blocks."""
    if records_max is None:
        return list(blocks)
    found: list[DeliveredBlock] = []
    for one in blocks:
        count = one.block.record_count
        if count > records_max:
            if records_max:
                found.append(one._replace(block=one.block.split(records_max)[0]))
            break
        found.append(one)
        records_max -= count
    return found


async def _require_named(client: Client, plan: ReadPlan, watcher: Watcher) -> None:
    """Raises UnknownTopicOrPartition for a topic that was given by name, unless the plan waits for it. A group would
    wait for it in silence.
    """
    names = plan.topics.names
    cluster = await client.with_retries(lambda: client.refresh(names))
    check_rights(cluster, names, ApiKey.FETCH)
    for name in names:
        try:
            cluster.topic(name)
        except UnknownTopicOrPartition:
            if not plan.may_wait:
                raise
            watcher.note(f"there is no topic {name!r} yet: waiting for it")


def _is_idle(plan: ReadPlan, idle_since: float) -> bool:
    return plan.idle_seconds_max is not None and time.monotonic() - idle_since >= plan.idle_seconds_max


class ReadProgress(ProgressBar, Watcher):
    """The progress of `consume`, on stderr.

    A bar with the records printed and the share of the offsets passed, and the notes as lines of their own.

    By default it is shown if stdout is a file. A program behind a pipe, as `jq` or `less`, mostly prints on the same
    terminal, and the bar would be in its output. `is_wanted` overrides the default.
    """

    def __init__(self, *, is_wanted: bool | None) -> None:
        is_shown = _is_file(sys.stdout.fileno()) if is_wanted is None else is_wanted
        super().__init__("Reading", total=None, is_shown=is_shown)

    def note(self, text: str) -> None:
        click.echo(text, err=True)

    def total(self, offsets: int) -> None:
        self.set_total(offsets)

    def read(self, records: int, offsets: int) -> None:
        self.advance(records, part=offsets)

    def check_output(self) -> None:
        # A write would say so, but with the next record, which may never come: a group would keep the member.
        try:
            descriptor = sys.stdout.fileno()
        except OSError:
            return  # in memory
        if not _has_reader(descriptor):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def _has_reader(descriptor: int) -> bool:
    """Whether the reader of a pipe is still there; True for anything but a pipe."""
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return True
    poll = select.poll()
    poll.register(descriptor, 0)
    return not poll.poll(0)


def _is_file(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISREG(mode)
