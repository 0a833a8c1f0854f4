"""A consumer's position in each partition, and the fetched records that are not returned yet. A position has the leader
epoch of the record before it, if known. It also has the epoch of the leader whose log is known to hold it (KIP-320). A
new leader is asked where that epoch ended in its own log.

Bounded: a partition holds at most `CHUNKS_PER_PARTITION_MAX` answers of one fetch each. Aborted transactions are
left out for a reader of committed records; control records are never shown, but the position steps over them.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from odradek.client.consumer.blocks import ConsumerRecord, RecordBlock
from odradek.foundation.errors import CorruptRecord
from odradek.foundation.ids import TopicPartition
from odradek.wire.records.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC_POSITION, BatchView
from odradek.wire.records.control import ControlType, control_type
from odradek.wire.records.legacy import upconvert
from odradek.wire.records.record import records

# One that is read and one that arrives at the same time: enough to keep the broker busy, with little memory.
CHUNKS_PER_PARTITION_MAX = 2
_MAGIC_OF_BATCHES: Final = 2
_size_at = Struct(">i").unpack_from
_SIZE_POSITION: Final = 8


class Chunk(NamedTuple):
    """The bytes of one fetch for one partition, and the transactions aborted in them by (first offset, producer id)."""

    data: memoryview
    aborted: tuple[tuple[int, int], ...]
    next_offset: int
    last_epoch: int


class PartitionPosition:
    """One partition of a consumer."""

    __slots__ = (
        "_block",
        "_blocks",
        "_rest",
        "_row",
        "_rows",
        "chunks",
        "epoch",
        "failures",
        "fetch_at",
        "fetch_epoch",
        "fetch_offset",
        "generation",
        "high_watermark",
        "is_fetching",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "position",
        "topic_ids",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, offset: int, *, epoch: int = -1) -> None:
        self.topic_partition = topic_partition
        # Of the topics of this name that were read. A broker with old metadata may name an earlier one again.
        self.topic_ids: set[uuid.UUID] = set()
        self.chunks: deque[Chunk] = deque()
        self.generation = 0
        self.is_fetching = False
        self.failures = 0  # since the last answer
        self.fetch_at = 0.0  # the loop's time before which no fetch is sent, after an error
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.seek(offset, epoch=epoch)

    def seek(self, offset: int, *, epoch: int = -1) -> None:
        """Continue from `offset`. Fetched records, and the answer of a fetch under way, are discarded. `epoch` is the
        leader epoch of the record before it, -1 if unknown.
        """
        self.position = offset
        self.fetch_offset = offset
        self.epoch = self.fetch_epoch = epoch
        self.leader_epoch = -1
        self.generation += 1
        self.chunks.clear()
        self._blocks: Iterator[RecordBlock] | None = None
        self._rest: RecordBlock | None = None
        # The block that is returned record by record, its records, and the number of the next one.
        self._block: RecordBlock | None = None
        self._rows: Sequence[ConsumerRecord] = ()
        self._row = 0

    def note_topic_id(self, topic_id: uuid.UUID) -> bool:
        """Note the id of the topic that is fetched. True if it is another topic than before, of the same name."""
        is_other = bool(self.topic_ids) and topic_id not in self.topic_ids
        self.topic_ids.add(topic_id)
        return is_other

    @property
    def can_fetch(self) -> bool:
        """Whether one more answer fits."""
        return not self.is_fetching and len(self.chunks) < CHUNKS_PER_PARTITION_MAX

    @property
    def has_data(self) -> bool:
        """Whether fetched records are available."""
        return bool(self.chunks)

    def must_validate(self, leader_epoch: int) -> bool:
        """Whether the leader of this epoch may lack the records before the position."""
        return self.fetch_epoch >= 0 and leader_epoch >= 0 and leader_epoch != self.leader_epoch

    def add(self, data: memoryview, aborted: tuple[tuple[int, int], ...]) -> None:
        """Add the answer of a fetch from `fetch_offset`. Raises CorruptRecord when it has no whole batch."""
        data = modern_batches(data)
        last_offset = last_epoch = -1
        for batch in whole_batches(data):
            last_offset = batch.last_offset
            last_epoch = batch.leader_epoch
        if last_offset < 0:
            raise CorruptRecord(
                f"partition {self.topic_partition} answered {len(data)} bytes at offset {self.fetch_offset} "
                "without one whole batch"
            )
        next_offset = max(last_offset + 1, self.fetch_offset)
        self.chunks.append(Chunk(data, aborted, next_offset, last_epoch))
        self.fetch_offset = next_offset
        self.fetch_epoch = last_epoch

    def take_row(self) -> ConsumerRecord | None:
        """The next record of the block that `take_one` began, or None; the position moves past it."""
        at, block = self._row, self._block
        if block is None or at == len(self._rows):
            return None
        record = self._rows[at]
        self._row = at = at + 1
        # A compacted batch may end behind its last record.
        self.position = record.offset + 1 if at < len(self._rows) else block.end_offset
        return record

    def take_one(self) -> ConsumerRecord | None:
        """The next record, or None; the position moves past it. Raises CorruptRecord."""
        record = self.take_row()
        while record is None:
            block = self._next_block()
            if block is None:
                return None
            self._rows = block.consumer_records()
            self._block, self._row = block, 0
            self.epoch = block.header.leader_epoch
            record = self.take_row()
        return record

    def take_blocks(self, count_max: int | None = None) -> list[RecordBlock]:
        """Up to `count_max` records, or all that were fetched; the position moves past them. Raises CorruptRecord. For
        damage after other records only the next call raises it.
        """
        taken: list[RecordBlock] = []
        while count_max is None or count_max > 0:
            try:
                block = self._next_block()
                if block is not None and count_max is not None:
                    if block.record_count > count_max:
                        block, self._rest = block.split(count_max)
                    count_max -= block.record_count
            except CorruptRecord:
                self._blocks = None
                if taken:
                    break
                raise
            if block is None:
                break
            taken.append(block)
            self.position, self.epoch = block.end_offset, block.header.leader_epoch
        return taken

    def take_next_block(self) -> RecordBlock | None:
        """The next batch's records, or None; the position moves past them. Raises CorruptRecord."""
        block = self._next_block()
        if block is not None:
            self.position, self.epoch = block.end_offset, block.header.leader_epoch
        return block

    def _next_block(self) -> RecordBlock | None:
        block, self._rest = self._rest, None
        if self._block is not None:
            block = self._rest_of_rows(self._block)
        while block is None and self.chunks:
            if self._blocks is None:
                self._blocks = self._read(self.chunks[0])
            block = next(self._blocks, None)
            if block is None:
                self._blocks = None
                chunk = self.chunks.popleft()
                self.position, self.epoch = chunk.next_offset, chunk.last_epoch
        return block

    def _rest_of_rows(self, block: RecordBlock) -> RecordBlock | None:
        """The records that `take_one` has left of its block."""
        count, row = len(self._rows), self._row
        self._block, self._rows, self._row = None, (), 0
        if row == count:
            return None
        return block.split(row)[1] if row else block

    def take_batches(self) -> list[BatchView]:
        """Every batch fetched so far, verified but not decoded; the position moves past them."""
        batches: list[BatchView] = []
        while self.chunks:
            chunk = self.chunks.popleft()
            for batch in whole_batches(chunk.data):
                batch.verify()
                batches.append(batch)
            self.position, self.epoch = chunk.next_offset, chunk.last_epoch
        return batches

    def _read(self, chunk: Chunk) -> Iterator[RecordBlock]:
        start = self.position
        aborted = deque(sorted(chunk.aborted))
        aborting: set[int] = set()
        for batch in whole_batches(chunk.data):
            batch.verify()
            header = batch.header
            while aborted and aborted[0][0] <= header.last_offset:
                aborting.add(aborted.popleft()[1])
            if header.is_control:
                for record in records(batch):
                    if control_type(record) == ControlType.ABORT:
                        aborting.discard(header.producer_id)
                continue
            if header.is_transactional and header.producer_id in aborting:
                continue
            end = header.last_offset + 1
            block = RecordBlock(self.topic_partition, batch, header, max(start, header.base_offset), end)
            if start < end and block.record_count:
                yield block


def whole_batches(data: memoryview) -> Iterator[BatchView]:
    """The batches in a fetch's answer. A last one that the size limit has truncated is left out."""
    position = 0
    size = len(data)
    while size - position >= HEADER_BYTES:
        batch = BatchView(data, position)
        end = position + batch.size_bytes
        if end - position <= LOG_OVERHEAD_BYTES:
            raise CorruptRecord(
                f"a batch at byte {position} of a fetch gives its size as {end - position} bytes"
            )
        if end > size:
            return
        yield batch
        position = end


def modern_batches(data: memoryview) -> memoryview:
    """`data` itself if it has batches of magic 2 alone, as usual; else its messages of magic 0 and 1 become batches. A
    topic that was written before Kafka 0.11, or with its message.format.version, has them, also beside newer batches.

    Raises CorruptRecord for a damaged message. A last message that the size limit has truncated is left out, as
    `whole_batches` leaves out a batch.
    """
    entries = _entries(data)
    if all(magic >= _MAGIC_OF_BATCHES for _, _, magic in entries):
        return data
    parts = [
        data[start:end] if magic >= _MAGIC_OF_BATCHES else upconvert(data[start:end])
        for start, end, magic in entries
    ]
    return memoryview(b"".join(parts))


def _entries(data: memoryview) -> list[tuple[int, int, int]]:
    """Where each whole batch or message begins and ends, and its magic."""
    found: list[tuple[int, int, int]] = []
    position, size = 0, len(data)
    while size - position > MAGIC_POSITION:
        end = position + LOG_OVERHEAD_BYTES + _size_at(data, position + _SIZE_POSITION)[0]
        # What is damaged or truncated is left to the reader of batches.
        if not position + LOG_OVERHEAD_BYTES < end <= size:
            break
        found.append((position, end, data[position + MAGIC_POSITION]))
        position = end
    return found
