"""The state batches of one share-partition: sorted, without overlaps, and as few as say the same.

A change costs what it changes, and a search: a leader writes some records of thousands at a time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from odradek.broker.share_states.states import StateBatch


class StateBatches:
    """Batches in the order of their offsets."""

    def __init__(self, batches: Iterable[StateBatch] = ()) -> None:
        self._batches: list[StateBatch] = []
        for batch in batches:
            self.put(batch)

    def __iter__(self) -> Iterator[StateBatch]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    def put(self, batch: StateBatch) -> None:
        """Replace what is known of the batch's offsets."""
        batches = self._batches
        first = bisect_left(batches, batch.first_offset, key=_last_offset)
        end = first
        pieces = [batch]
        while end < len(batches) and batches[end].first_offset <= batch.last_offset:
            known = batches[end]
            if known.first_offset < batch.first_offset:
                pieces.insert(0, known._replace(last_offset=batch.first_offset - 1))
            if known.last_offset > batch.last_offset:
                pieces.append(known._replace(first_offset=batch.last_offset + 1))
            end += 1
        if first > 0:
            first -= 1
            pieces.insert(0, batches[first])
        if end < len(batches):
            pieces.append(batches[end])
            end += 1
        batches[first:end] = _join(pieces)

    def cut_below(self, start_offset: int) -> None:
        """Forget what is below `start_offset`."""
        batches = self._batches
        gone = bisect_left(batches, start_offset, key=_last_offset)
        del batches[:gone]
        if batches and batches[0].first_offset < start_offset:
            batches[0] = batches[0]._replace(first_offset=start_offset)


def _last_offset(batch: StateBatch) -> int:
    return batch.last_offset


def _join(pieces: list[StateBatch]) -> list[StateBatch]:
    """The pieces, with those together that touch and say the same."""
    joined = [pieces[0]]
    for piece in pieces[1:]:
        before = joined[-1]
        if before.last_offset + 1 == piece.first_offset and before[2:] == piece[2:]:
            joined[-1] = before._replace(last_offset=piece.last_offset)
        else:
            joined.append(piece)
    return joined
