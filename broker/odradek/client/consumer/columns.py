"""The records of many blocks as columns of numbers, for programs that build tables: no object for a record.

It needs numpy (the extra `compaction` has it). Keys and values stay where they are, in `data`: a table
takes them from there by their places. `RecordColumns` has the places; here are the fields that batches share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from odradek.client.consumer.blocks import RecordBlock
from odradek.wire.records.batch import LOG_APPEND_TIME_FLAG
from odradek.wire.records.columns import Ints, RecordColumns


class BlockColumns(RecordColumns):
    """The records of one partition's blocks, in their order. Raises CorruptRecord when they cannot be decoded.

    `chosen` are the numbers of the records that belong to the blocks. A batch may have more, outside of its block.
    `timestamp_ms` and `timestamp_type` are as in ConsumerRecord.
    """

    def __init__(self, blocks: Sequence[RecordBlock]) -> None:
        headers = [block.header for block in blocks]
        super().__init__([block.payload() for block in blocks], headers)
        count = len(blocks)
        by_broker = np.fromiter(
            (header.attributes & LOG_APPEND_TIME_FLAG != 0 for header in headers), np.bool_, count
        )
        bases = np.fromiter((header.base_timestamp_ms for header in headers), np.int64, count)
        newest = np.fromiter((header.max_timestamp_ms for header in headers), np.int64, count)
        self.timestamp_type = by_broker[self.batch].astype(np.int32)
        self.timestamp_ms: Ints = np.where(
            self.timestamp_type, newest[self.batch], bases[self.batch] + self.timestamp_delta
        )
        firsts = np.fromiter((block.first_offset for block in blocks), np.int64, count)
        ends = np.fromiter((block.end_offset for block in blocks), np.int64, count)
        is_inside = (self.offset >= firsts[self.batch]) & (self.offset < ends[self.batch])
        self.chosen: Ints = cast(Ints, np.nonzero(is_inside)[0])
