"""Dead letters as the project's own client reads them, and which of them were handled.

A consumer group without members says which letters of a topic were handled: `odradek-dead-letters.TOPIC`. Its lag is
how many wait. A letter before its position was sent back, was retried into a table, or was passed over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from odradek.client.admin.admin import Admin
from odradek.client.admin.logs import EARLIEST, LATEST
from odradek.client.client import Client
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.foundation.ids import TopicPartition
from odradek_pipeline.connection.clients import connect_client
from odradek_pipeline.dead_letters.headers import Letter, LetterOrigin, NoLetterError, parse_letter
from odradek_pipeline.errors import AnswerTimeoutError, PipelineError

T = TypeVar("T")
_POLL_MS: Final = 1000
_SILENT_POLLS_MAX: Final = 60
# Letters of one scan whose origins are remembered: about 200 bytes each.
ORIGINS_MAX: Final = 2_000_000


def group_of(topic: str) -> str:
    """The group that says which letters of a topic were handled."""
    return f"odradek-dead-letters.{topic}"


@dataclass(frozen=True, slots=True)
class LetterLog:
    """A dead-letter topic now: for each partition its log start, its end, and the first letter that waits."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    waiting: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Found:
    """A record of a dead-letter topic. `letter` is None for one that is no dead letter."""

    partition: TopicPartition
    record: ConsumerRecord
    letter: Letter | None
    is_waiting: bool
    is_repeated: bool


def ask_brokers(settings: Mapping[str, str], topic: str, work: Callable[[Client], Awaitable[T]]) -> T:
    """Return `work`'s answer with a client of its own. Client errors become the pipeline's, each with its exit code."""

    async def ask() -> T:
        async with connect_client(settings, f"the dead letters of {topic} cannot be handled") as client:
            return await work(client)

    return asyncio.run(ask())


async def read_letter_log(client: Client, topic: str) -> LetterLog:
    """Raises UnknownTopicOrPartition and the client's errors."""
    cluster = await client.with_retries(lambda: client.refresh([topic]))
    keys = cluster.partitions(topic)
    admin = Admin(client)
    ends = await admin.logs.offsets_at(keys, LATEST, read_committed=True)
    starts = await admin.logs.offsets_at(keys, EARLIEST)
    committed = await admin.groups.offsets(group_of(topic), keys, require_stable=True)
    waiting = {key: max(committed[key].offset if key in committed else 0, starts[key]) for key in keys}
    return LetterLog(starts, ends, waiting)


async def scan_letters(client: Client, log: LetterLog) -> AsyncIterator[Found]:
    """All letters up to the ends, in the order of each partition. A repeated one has the origin of an earlier one.

    Raises PipelineError where there are more origins than are remembered, and where a partition sends nothing."""
    seen: set[LetterOrigin] = set()
    left = {key for key, start in log.starts.items() if start < log.ends[key]}
    async with PartitionConsumer(client, is_read_committed=True) as consumer:
        consumer.assign({key: log.starts[key] for key in left})
        silent_polls = 0
        while left:
            records = await consumer.poll(timeout_ms=_POLL_MS)
            silent_polls = 0 if records else silent_polls + 1
            if silent_polls > _SILENT_POLLS_MAX:
                raise AnswerTimeoutError(f"{min(left)} sent nothing for {_SILENT_POLLS_MAX} s")
            for one in records:
                key = TopicPartition(one.topic, one.partition)
                if one.offset < log.ends[key]:
                    yield _parse_found(key, one, log, seen)
            if len(seen) > ORIGINS_MAX:
                raise PipelineError(
                    f"there are more than {ORIGINS_MAX} dead letters: delete what was handled, as with "
                    "`odradek topics trim`"
                )
            left = {key for key in left if consumer.position(key) < log.ends[key]}


def _parse_found(
    key: TopicPartition, record: ConsumerRecord, log: LetterLog, seen: set[LetterOrigin]
) -> Found:
    is_waiting = record.offset >= log.waiting[key]
    try:
        letter = parse_letter(record.headers)
    except NoLetterError:
        return Found(key, record, None, is_waiting, False)
    is_repeated = letter.origin in seen
    seen.add(letter.origin)
    return Found(key, record, letter, is_waiting, is_repeated)
