"""The state batches of one share-partition: sorted, without overlaps, and as few as say the same.

A change costs what it changes, and a search: a leader writes some records of thousands at a time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from odradek.broker.share_states.states import StateRange


class StateBatches:
    """Batches in the order of their offsets."""

    def __init__(self, batches: Iterable[StateRange] = ()) -> None:
        self._batches: list[StateRange] = []
        for batch in batches:
            self.put(batch)

    def __iter__(self) -> Iterator[StateRange]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    def put(self, batch: StateRange) -> None:
        """Add a batch. Of what is known of an offset, more deliveries win, and then the later state.

        So a change that arrives a second time, behind a newer one, undoes nothing.
        """
        batches = self._batches
        first = bisect_left(batches, batch.first_offset, key=_last_offset)
        end = first
        pieces: list[StateRange] = []
        next_offset = batch.first_offset
        while end < len(batches) and batches[end].first_offset <= batch.last_offset:
            known = batches[end]
            if known.first_offset < batch.first_offset:
                pieces.append(known._replace(last_offset=batch.first_offset - 1))
            if _rank(known) > _rank(batch):
                shared = max(known.first_offset, batch.first_offset)
                if next_offset < shared:
                    pieces.append(batch._replace(first_offset=next_offset, last_offset=shared - 1))
                next_offset = min(known.last_offset, batch.last_offset) + 1
                pieces.append(known._replace(first_offset=shared, last_offset=next_offset - 1))
            end += 1
        if next_offset <= batch.last_offset:
            pieces.append(batch._replace(first_offset=next_offset))
        if end > first and batches[end - 1].last_offset > batch.last_offset:
            pieces.append(batches[end - 1]._replace(first_offset=batch.last_offset + 1))
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


def _last_offset(batch: StateRange) -> int:
    return batch.last_offset


def _rank(batch: StateRange) -> tuple[int, int]:
    return batch.delivery_count, batch.delivery_state


def _join(pieces: list[StateRange]) -> list[StateRange]:
    """The pieces, with those together that touch and say the same."""
    joined = [pieces[0]]
    for piece in pieces[1:]:
        before = joined[-1]
        if before.last_offset + 1 == piece.first_offset and before[2:] == piece[2:]:
            joined[-1] = before._replace(last_offset=piece.last_offset)
        else:
            joined.append(piece)
    return joined
