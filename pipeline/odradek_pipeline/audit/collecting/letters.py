"""Dead letters by their origin: a record that could not be decoded was read all the same, and counts as such."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.client.audit.counts import Counts, digest, window_start
from odradek.client.client import Client
from odradek.client.consumer.blocks import RecordBlock
from odradek_pipeline.audit.collecting.blocks import list_edges, read_blocks
from odradek_pipeline.audit.facts import WindowOfPartition
from odradek_pipeline.audit.spans import Span, join_spans, subtract_spans
from odradek_pipeline.dead_letters import headers as names


class OriginPartition(NamedTuple):
    topic_id: str
    partition: int


class AuditedLetter(NamedTuple):
    """The parts of a dead record that the audit needs: its time, the bytes of key and value, and the digest."""

    timestamp_ms: int
    size_bytes: int
    digest: int


Letters = dict[OriginPartition, dict[int, AuditedLetter]]


async def read_letters(client: Client, wanted: Sequence[str], topics: Iterable[str]) -> Letters:
    """The letters in the topics `wanted`; without these in the usual topic of each of `topics`, where there is one."""
    if not wanted:
        cluster = await client.with_retries(lambda: client.refresh(None))
        usual = sorted({one + names.DEAD_LETTER_SUFFIX for one in topics})
        wanted = [name for name in usual if name in cluster.topics]
    found: Letters = {}
    for name in wanted:
        await add_letters(client, name, found)
    return found


async def add_letters(client: Client, topic: str, into: Letters) -> int:
    """Read all dead letters of a topic into `into`, by origin and offset. Returns how many there are.

    Some hundred bytes of memory for each. A letter that was written twice counts once.
    """
    count = 0

    def take(block: RecordBlock) -> None:
        nonlocal count
        for _, _, key, value, headers in block.records():
            said = {name: (content or b"").decode("utf-8", "replace") for name, content in headers}
            if not {names.TOPIC_ID, names.PARTITION, names.OFFSET, names.TIMESTAMP} <= said.keys():
                continue  # no letter of ours
            count += 1
            timestamp_ms = int(said[names.TIMESTAMP])
            own = [(name, content) for name, content in headers if name not in names.NAMES]
            origin = OriginPartition(said[names.TOPIC_ID], int(said[names.PARTITION]))
            size_bytes = len(key or b"") + len(value or b"")
            letter = AuditedLetter(timestamp_ms, size_bytes, digest(timestamp_ms, key, value, own))
            into.setdefault(origin, {})[int(said[names.OFFSET])] = letter

    starts, ends = await list_edges(client, (await client.topics((topic,))).partitions(topic))
    await read_blocks(client, starts, ends, take)
    return count


def spans_of(letters: Mapping[int, AuditedLetter]) -> list[Span]:
    return join_spans((offset, offset + 1) for offset in letters)


def count_letters(
    counts: dict[WindowOfPartition, Counts],
    letters: Letters,
    topic_id: str,
    rows: Mapping[int, Iterable[Span]],
    window_ms: int,
) -> int:
    """Add the letters of a topic that are no rows by now to what a table holds. Returns how many those are.

    `rows` are the offsets of the table's rows by partition: what was driven back is a row, and counts there.
    """
    count = 0
    for origin, found in letters.items():
        if origin.topic_id != topic_id:
            continue
        for start, end in subtract_spans(spans_of(found), rows.get(origin.partition, ())):
            for offset in range(start, end):
                letter = found[offset]
                at = WindowOfPartition(origin.partition, window_start(letter.timestamp_ms, window_ms))
                counts.setdefault(at, Counts()).add(letter.size_bytes, letter.digest, offset)
                count += 1
    return count
