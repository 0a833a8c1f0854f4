"""The columns of stored batches, with their keys as bytes and as words that can be hashed and compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from odradek.log.compaction.reading import StoredBatch
from odradek.records.columns import Bools, Ints, RecordColumns

__all__ = ["Bools", "Columns", "Ints", "Words"]

Words = np.ndarray[Any, np.dtype[np.uint64]]


class Columns(RecordColumns):
    """One element for each record, in the order of offsets. Raises CorruptRecord when the records cannot be read."""

    def __init__(self, batches: Sequence[StoredBatch]) -> None:
        super().__init__([batch.payload for batch in batches], [batch.header for batch in batches])
        # Any eight bytes as one word, whatever their alignment.
        self._words: Words = np.ndarray(
            (len(self.data) - 7,), np.dtype("<u8"), buffer=self.data, strides=(1,)
        )

    def key(self, number: int) -> bytes:
        """The bytes of one record's key."""
        start = int(self.key_start[number])
        return self.data[start : start + int(self.key_size[number])]

    def key_word(self, numbers: Ints, word: int) -> Words:
        """Eight bytes of each of these keys, from byte `8 * word` on; zeros behind a key's end."""
        found = self._words[self.key_start[numbers] + 8 * word]
        left = self.key_size[numbers] - 8 * word
        short = left < 8
        if short.any():
            bits = (8 * left[short]).astype(np.uint64)
            found[short] &= (np.uint64(1) << bits) - np.uint64(1)
        return found
