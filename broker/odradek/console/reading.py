"""Records of a topic for a viewer: a page of one partition, a tail that follows, a search through all.

Each reads with a consumer of its own, without a group, and within bounds of bytes, records and time. A page that is
closed ends its reading at once. Positions are offsets: where compaction or transactions left holes, a page has fewer
records than offsets.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.client import Client
from odradek.client.consumer.blocks import ConsumerRecord, RecordBlock
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.consumer.fetches import FetchBounds
from odradek.console.decoders import AUTO
from odradek.console.showing import RecordShowing
from odradek.foundation.console_limits import (
    CONSOLE_FETCH_BYTES_MAX,
    CONSOLE_FETCH_PARTITION_BYTES_MAX,
    CONSOLE_PAGE_BYTES_MAX,
    CONSOLE_PAGE_SECONDS_MAX,
    CONSOLE_PARTITIONS_READ_MAX,
    CONSOLE_PROGRESS_SECONDS,
    CONSOLE_SEARCH_SECONDS_MAX,
    CONSOLE_TAIL_BEHIND_MAX,
    CONSOLE_TAIL_PAUSE_SECONDS,
    CONSOLE_TAIL_RECORDS_MAX,
    CONSOLE_TAIL_SECONDS_MAX,
)
from odradek.foundation.errors import InvalidRequest, OdradekError, RequestTimedOut
from odradek.foundation.ids import TopicPartition

_POLL_MS = 500
_BOUNDS = FetchBounds(
    bytes_max=CONSOLE_FETCH_BYTES_MAX, partition_bytes_max=CONSOLE_FETCH_PARTITION_BYTES_MAX
)

Document = dict[str, object]
Event = tuple[str, Document]


class TooManyViewersError(OdradekError):
    """As many viewers do this as the console lets at a time."""


class ViewerSlots:
    """Bounds how many viewers do one kind of work at a time; one more is refused at once."""

    def __init__(self, slots_max: int, what: str) -> None:
        self._free = slots_max
        self._slots_max = slots_max
        self._what = what

    @property
    def taken(self) -> int:
        """How many are at work."""
        return self._slots_max - self._free

    @contextmanager
    def take(self) -> Iterator[None]:
        """Hold one slot. Raises TooManyViewersError where all are taken."""
        if not self._free:
            raise TooManyViewersError(
                f"{self._slots_max} {self._what} are under way, and no more run at a time; try again in a moment"
            )
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


class LogSpan(NamedTuple):
    """The first offset of a partition, and its end."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PageWanted:
    """A page of one partition. One of the four says where it begins; without any it has the newest records."""

    key: TopicPartition
    count: int
    form: str = AUTO
    offset: int | None = None
    before: int | None = None
    time_ms: int | None = None
    is_from_start: bool = False


async def read_page(client: Client, showing: RecordShowing, wanted: PageWanted) -> Document:
    """Up to `count` records in the order of their offsets. Raises UnknownTopicOrPartition, …"""
    span = await find_span(client, wanted.key)
    start, stop = await _place(client, wanted, span)
    records: list[ConsumerRecord] = []
    next_offset, taken_bytes = start, 0
    clock = asyncio.get_running_loop().time
    deadline = clock() + CONSOLE_PAGE_SECONDS_MAX
    async with PartitionConsumer(client, bounds=_BOUNDS, on_out_of_range="earliest") as consumer:
        consumer.assign({wanted.key: start})
        while next_offset < stop and len(records) < wanted.count and clock() < deadline:
            if taken_bytes >= CONSOLE_PAGE_BYTES_MAX:
                break
            polled = await consumer.poll(records_max=wanted.count - len(records), timeout_ms=_POLL_MS)
            found = [one for one in polled if one.offset < stop]
            taken_bytes += sum(len(one.key or b"") + len(one.value or b"") for one in found)
            records += found
            next_offset = min(consumer.position(wanted.key), stop)
    return {
        "topic": wanted.key.topic,
        "partition": wanted.key.partition,
        "start": span.start,
        "end": span.end,
        "first": start,
        "next": next_offset,
        "is_masked": showing.is_masked(wanted.key.topic),
        "is_complete": next_offset >= stop or len(records) >= wanted.count,
        "records": await showing.show(records, wanted.form),
    }


async def read_one(client: Client, key: TopicPartition, offset: int) -> ConsumerRecord | None:
    """The record at an offset; None where there is none, as after compaction. Raises RequestTimedOut, …"""
    span = await find_span(client, key)
    if not span.start <= offset < span.end:
        return None
    clock = asyncio.get_running_loop().time
    deadline = clock() + CONSOLE_PAGE_SECONDS_MAX
    async with PartitionConsumer(client, bounds=_BOUNDS, on_out_of_range="earliest") as consumer:
        consumer.assign({key: offset})
        while consumer.position(key) <= offset:
            if clock() >= deadline:
                raise RequestTimedOut(
                    f"offset {offset} of {key} was not read within {CONSOLE_PAGE_SECONDS_MAX:g} s; try again"
                )
            for record in await consumer.poll(records_max=1, timeout_ms=_POLL_MS):
                return record if record.offset == offset else None
    return None


async def find_span(client: Client, key: TopicPartition) -> LogSpan:
    """What a partition holds. Raises UnknownTopicOrPartition, LeaderNotAvailable, …"""
    cluster = await client.topics([key.topic])
    cluster.partition(key)
    logs = LogAdmin(client)
    return LogSpan((await logs.offsets_at([key], EARLIEST))[key], (await logs.offsets_at([key], LATEST))[key])


async def _place(client: Client, wanted: PageWanted, span: LogSpan) -> tuple[int, int]:
    """The offsets of a page: from the first to before the second."""
    if wanted.is_from_start:
        return span.start, span.end
    if wanted.time_ms is not None:
        found = (await LogAdmin(client).offsets_at([wanted.key], wanted.time_ms))[wanted.key]
        return (span.end if found < 0 else max(found, span.start)), span.end
    if wanted.offset is not None:
        return min(max(wanted.offset, span.start), span.end), span.end
    stop = span.end if wanted.before is None else min(max(wanted.before, span.start), span.end)
    return max(stop - wanted.count, span.start), stop


# --- tail ------------------------------------------------------------------------------------------------------------


async def follow(
    client: Client, showing: RecordShowing, topic: str, numbers: Sequence[int], form: str = AUTO
) -> AsyncGenerator[Event, None]:
    """New records of these partitions, or of all: `records`, and `beat` while there are none. Of many records at once
    the newest are shown and the others counted. Far behind, it goes to the end. Ends with `done` after an hour.
    """
    keys = await _choose_partitions(client, topic, numbers)
    if len(keys) > CONSOLE_PARTITIONS_READ_MAX:
        raise InvalidRequest(
            f"a tail follows up to {CONSOLE_PARTITIONS_READ_MAX} partitions, and {topic!r} has {len(keys)}; choose some"
        )
    ends = await LogAdmin(client).offsets_at(keys, LATEST)
    clock = asyncio.get_running_loop().time
    deadline = clock() + CONSOLE_TAIL_SECONDS_MAX
    async with PartitionConsumer(client, bounds=_BOUNDS, on_out_of_range="latest") as consumer:
        consumer.assign(ends)
        yield "beat", {"skipped": 0}
        while clock() < deadline:
            skipped = _skip_to_end(consumer, keys)
            polled = await consumer.poll(records_max=CONSOLE_TAIL_BEHIND_MAX, timeout_ms=_POLL_MS)
            shown = polled[-CONSOLE_TAIL_RECORDS_MAX:]
            skipped += len(polled) - len(shown)
            if not shown:
                yield "beat", {"skipped": skipped}
                continue
            yield "records", {"records": await showing.show(shown, form), "skipped": skipped}
            await asyncio.sleep(CONSOLE_TAIL_PAUSE_SECONDS)
    yield "done", {"reason": "time"}


def _skip_to_end(consumer: PartitionConsumer, keys: Sequence[TopicPartition]) -> int:
    """Pass over what no viewer can read in time; how many offsets that are."""
    skipped = 0
    for key in keys:
        end, position = consumer.high_watermark(key), consumer.position(key)
        if end - position > CONSOLE_TAIL_BEHIND_MAX:
            consumer.seek(key, end - CONSOLE_TAIL_RECORDS_MAX)
            skipped += end - CONSOLE_TAIL_RECORDS_MAX - position
    return skipped


async def _choose_partitions(client: Client, topic: str, numbers: Sequence[int]) -> list[TopicPartition]:
    cluster = await client.with_retries(lambda: client.refresh((topic,)))
    return cluster.partitions(topic, numbers or None)


# --- search ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchWanted:
    """What is looked for, and where. Without `numbers` it is each partition, and without a time all records."""

    topic: str
    needle: bytes
    numbers: Sequence[int] = ()
    is_in_keys: bool = True
    is_in_values: bool = True
    is_in_headers: bool = False
    is_exact: bool = False
    """Whether capitals count; without it those of ASCII do not."""
    since_ms: int | None = None
    matches_max: int
    form: str = AUTO


class Search:
    """One search. `events` reads the topic up to the ends that it has at the beginning."""

    def __init__(self, client: Client, showing: RecordShowing, wanted: SearchWanted) -> None:
        self._client = client
        self._showing = showing
        self._wanted = wanted
        self._needle = wanted.needle if wanted.is_exact else wanted.needle.lower()
        self._matched = self._read = self._read_bytes = self._passed = self._total = 0

    async def events(self) -> AsyncGenerator[Event, None]:
        """`match` for each record, `progress` in between, and `done` with the reason of the end."""
        wanted, clock = self._wanted, asyncio.get_running_loop().time
        deadline = clock() + CONSOLE_SEARCH_SECONDS_MAX
        spans = await self._find_spans()
        self._total = sum(span.end - span.start for span in spans.values())
        yield "progress", self._progress()
        keys = [key for key, span in spans.items() if span.start < span.end]
        report_at = clock() + CONSOLE_PROGRESS_SECONDS
        for first in range(0, len(keys), CONSOLE_PARTITIONS_READ_MAX):
            some = {key: spans[key] for key in keys[first : first + CONSOLE_PARTITIONS_READ_MAX]}
            async with aclosing(self._blocks(some)) as found:
                async for block in found:
                    for record in await self._find_matches(block, some):
                        self._matched += 1
                        (document,) = await self._showing.show((record,), wanted.form)
                        yield "match", document
                        if self._matched >= wanted.matches_max:
                            yield "done", {**self._progress(), "reason": "matches"}
                            return
                    if clock() >= deadline:
                        yield "done", {**self._progress(), "reason": "time"}
                        return
                    if clock() >= report_at:
                        yield "progress", self._progress()
                        report_at = clock() + CONSOLE_PROGRESS_SECONDS
        yield "done", {**self._progress(), "reason": "end"}

    def _progress(self) -> Document:
        return {
            "matched": self._matched,
            "read": self._read,
            "read_bytes": self._read_bytes,
            "passed": self._passed,
            "total": self._total,
        }

    async def _find_spans(self) -> dict[TopicPartition, LogSpan]:
        keys = await _choose_partitions(self._client, self._wanted.topic, self._wanted.numbers)
        logs = LogAdmin(self._client)
        starts, ends = await logs.offsets_at(keys, EARLIEST), await logs.offsets_at(keys, LATEST)
        if self._wanted.since_ms is not None:
            found = await logs.offsets_at(keys, self._wanted.since_ms)
            starts = {key: ends[key] if found[key] < 0 else found[key] for key in keys}
        return {key: LogSpan(starts[key], ends[key]) for key in keys}

    async def _blocks(
        self, spans: Mapping[TopicPartition, LogSpan]
    ) -> AsyncGenerator[RecordBlock | None, None]:
        """Blocks of these partitions up to their ends; None after each wait."""
        positions = {key: span.start for key, span in spans.items()}
        async with PartitionConsumer(self._client, bounds=_BOUNDS, on_out_of_range="earliest") as consumer:
            consumer.assign(positions)
            while positions:
                for block in await consumer.poll_blocks(timeout_ms=_POLL_MS):
                    yield block
                for key in list(positions):
                    position = min(consumer.position(key), spans[key].end)
                    self._passed += position - positions[key]
                    positions[key] = position
                    if position >= spans[key].end:
                        del positions[key]
                if len(positions) < len(consumer.assignment):
                    consumer.assign({key: consumer.position(key) for key in positions})
                yield None
                await asyncio.sleep(0)  # other viewers have their turn

    async def _find_matches(
        self, block: RecordBlock | None, spans: Mapping[TopicPartition, LogSpan]
    ) -> list[ConsumerRecord]:
        """The records of a block that fit, without what masks hide: a viewer finds nothing that is hidden."""
        if block is None:
            return []
        self._read += block.record_count
        payload = bytes(block.payload())
        self._read_bytes += len(payload)
        # Most blocks have no match, and need not be decoded.
        if self._needle not in (payload if self._wanted.is_exact else payload.lower()):
            return []
        end = spans[block.topic_partition].end
        records = [one for one in block.consumer_records() if one.offset < end]
        if self._showing.is_masked(self._wanted.topic):
            records = await self._showing.hide(records)
        return [one for one in records if self._fits(one)]

    def _fits(self, record: ConsumerRecord) -> bool:
        wanted = self._wanted
        parts = [
            *((record.key,) if wanted.is_in_keys else ()),
            *((record.value,) if wanted.is_in_values else ()),
            *((value for _, value in record.headers) if wanted.is_in_headers else ()),
            *((name.encode() for name, _ in record.headers) if wanted.is_in_headers else ()),
        ]
        return any(
            self._needle in (part if wanted.is_exact else part.lower()) for part in parts if part is not None
        )
