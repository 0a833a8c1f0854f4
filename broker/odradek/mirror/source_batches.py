"""The answer of one fetch of committed records, as batches for the target: pure.

A transaction has one producer, and a batch has one producer. So an aborted transaction is left out batch by batch, and
no record is unpacked for it. Control batches are left out too: the target writes its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from odradek.foundation.errors import CorruptRecord
from odradek.mirror.batch_passing import ReadyBatch, TargetRules, ready_batches
from odradek.wire.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
    BatchView,
    read_header,
)
from odradek.wire.records.control import ControlType, control_type
from odradek.wire.records.legacy import messages
from odradek.wire.records.record import records

_size_at = Struct(">i").unpack_from
_SIZE_POSITION: Final = 8


class Position(NamedTuple):
    """The next offset to read, and the leader epoch of the batch before it, -1 if unknown."""

    offset: int
    leader_epoch: int = -1


class SourceRun(NamedTuple):
    """The content of one answer for one partition, and the position after it."""

    batches: list[ReadyBatch]
    after: Position
    size_bytes: int


def read_committed_run(
    data: memoryview, aborted: Sequence[tuple[int, int]], *, position: Position, rules: TargetRules
) -> SourceRun:
    """The batches of `data` that readers of committed records see, from `position` on.

    `aborted` are the aborted transactions by first offset and producer id. Raises CorruptRecord when there is no whole
    batch, and for damage in a batch that has to be opened.
    """
    waiting = deque(sorted(aborted))
    aborting: set[int] = set()
    batches: list[ReadyBatch] = []
    after, size = position, 0
    for entry in entries(data):
        size += len(entry)
        if entry[MAGIC_POSITION] < MAGIC:
            found = ready_batches(entry, position=position.offset, rules=rules)
            batches += found
            last = found[-1].source_end_offset if found else _end_of_old(entry)
            after = Position(max(after.offset, last), -1)
            continue
        header = read_header(entry)
        after = Position(max(after.offset, header.last_offset + 1), header.leader_epoch)
        while waiting and waiting[0][0] <= header.last_offset:
            aborting.add(waiting.popleft()[1])
        if header.is_control:
            if _is_abort(entry):
                aborting.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in aborting:
            continue
        batches += ready_batches(entry, position=position.offset, rules=rules)
    if len(data) and not size:
        raise CorruptRecord(f"{len(data)} bytes at offset {position.offset} hold no whole batch")
    return SourceRun(batches, after, size)


def entries(data: memoryview) -> Iterator[memoryview]:
    """The whole batches, and messages of older formats. A last one that the size limit has truncated is left out."""
    start, size = 0, len(data)
    while size - start > MAGIC_POSITION:
        end = start + LOG_OVERHEAD_BYTES + int(_size_at(data, start + _SIZE_POSITION)[0])
        least = HEADER_BYTES if data[start + MAGIC_POSITION] >= MAGIC else MAGIC_POSITION
        if end - start < least:
            raise CorruptRecord(f"a batch at byte {start} of a fetch gives its size as {end - start} bytes")
        if end > size:
            return
        yield data[start:end]
        start = end


def _end_of_old(entry: memoryview) -> int:
    return max(message.offset for message in messages(entry)) + 1


def _is_abort(entry: memoryview) -> bool:
    view = BatchView(entry)
    view.verify()
    return any(control_type(record) == ControlType.ABORT for record in records(view))
