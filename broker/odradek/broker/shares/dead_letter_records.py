"""Dead letters as records: headers say where a record comes from and why it is here; names and texts are Kafka 4.4's.

Key and value are null, or those of the original where the group asks for copies. The original's own headers are left
out, as in Kafka. A copy that is too large for the topic is left out, and its origin is written all the same.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from typing import Final

from odradek.broker.share_states.states import ShareKey
from odradek.broker.shares.dead_letters import UndeliverableRange
from odradek.foundation.errors import CorruptRecord
from odradek.foundation.limits import DEAD_LETTER_BATCH_BYTES_MAX, DEAD_LETTER_ORIGINAL_BYTES_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.records.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC, MAGIC_POSITION, BatchView
from odradek.wire.records.builder import RECORD_OVERHEAD_BYTES_MAX, BatchBuilder
from odradek.wire.records.legacy import messages
from odradek.wire.records.record import Record, records

REJECTED: Final = b"Offset rejected by client."
DELIVERED_TOO_OFTEN: Final = b"Offset delivery count exceeded the threshold."

TOPIC_HEADER: Final = "__dlq.errors.topic"
PARTITION_HEADER: Final = "__dlq.errors.partition"
OFFSET_HEADER: Final = "__dlq.errors.offset"
GROUP_HEADER: Final = "__dlq.errors.group"
DELIVERY_COUNT_HEADER: Final = "__dlq.errors.delivery.count"
MESSAGE_HEADER: Final = "__dlq.errors.message"

# The lengths of a header's name and value.
_HEADER_OVERHEAD_BYTES_MAX: Final = 5 + 5

Headers = tuple[tuple[str, bytes], ...]


class Original(NamedTuple):
    """Key and value of an undeliverable record."""

    key: bytes | None
    value: bytes | None


NO_ORIGINAL: Final = Original(None, None)


class LetterBatch(NamedTuple):
    """A batch to write, and how many of the dead letters it has."""

    data: bytes
    letters: int


def headers_of(key: ShareKey, topic: str, offset: int, letter: UndeliverableRange) -> Headers:
    """The headers of the dead letter of one offset, in Kafka's order."""
    return (
        (TOPIC_HEADER, topic.encode()),
        (PARTITION_HEADER, b"%d" % key.partition),
        (OFFSET_HEADER, b"%d" % offset),
        (GROUP_HEADER, key.group_id.encode()),
        (DELIVERY_COUNT_HEADER, b"%d" % letter.delivery_count),
        (MESSAGE_HEADER, REJECTED if letter.is_rejected else DELIVERED_TOO_OFTEN),
    )


def build_letters(
    letters: Iterable[tuple[Headers, Original]], *, timestamp_ms: int, batch_bytes_max: int
) -> LetterBatch:
    """A batch of the first of `letters`: one at least, and as many as its bounds of bytes allow."""
    builder = BatchBuilder()
    bytes_wanted = min(batch_bytes_max, DEAD_LETTER_BATCH_BYTES_MAX)
    for headers, original in letters:
        named = sum(_HEADER_OVERHEAD_BYTES_MAX + len(name) + len(value) for name, value in headers)
        copied = len(original.key or b"") + len(original.value or b"")
        size = HEADER_BYTES + RECORD_OVERHEAD_BYTES_MAX + named + copied
        if len(builder) and builder.payload_bytes + size > bytes_wanted:
            break
        if size > batch_bytes_max:
            original = NO_ORIGINAL
        builder.append(timestamp_ms, original.key, original.value, headers)
    return LetterBatch(bytes(builder.build()), len(builder))


def find_originals(data: memoryview, wanted: Container[int]) -> tuple[dict[int, Original], int]:
    """The records of the offsets `wanted` in batches of any format, and the offset behind what was looked at.

    Batches that are damaged, or too large to be opened, give none. Raises CorruptRecord where no batch has an end.
    """
    found: dict[int, Original] = {}
    position, end_offset = 0, -1
    while (entry := _entry_at(data, position)) is not None:
        position += len(entry)
        if entry[MAGIC_POSITION] < MAGIC:
            each = list(messages(entry, size_max=DEAD_LETTER_ORIGINAL_BYTES_MAX))
            end_offset = max(end_offset, each[-1].offset + 1)
            found.update(_choose(each, wanted))
            continue
        batch = BatchView(entry)
        end_offset = max(end_offset, batch.header.last_offset + 1)
        if not batch.header.is_control:
            with suppress(CorruptRecord):
                found.update(_choose(records(batch, size_max=DEAD_LETTER_ORIGINAL_BYTES_MAX), wanted))
    if end_offset < 0:
        raise CorruptRecord(f"{len(data)} bytes of a log hold no whole batch")
    return found, end_offset


def _choose(each: Iterable[Record], wanted: Container[int]) -> Iterator[tuple[int, Original]]:
    for record in each:
        if record.offset in wanted:
            yield record.offset, Original(record.key, record.value)


def _entry_at(data: memoryview, position: int) -> memoryview | None:
    """The whole batch or old message there; None where the bound of the read has truncated it."""
    if len(data) - position <= MAGIC_POSITION:
        return None
    size = LOG_OVERHEAD_BYTES + int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
    least = HEADER_BYTES if data[position + MAGIC_POSITION] >= MAGIC else MAGIC_POSITION
    if size < least:
        raise CorruptRecord(f"a batch at byte {position} of a read gives its size as {size} bytes")
    return data[position : position + size] if position + size <= len(data) else None
