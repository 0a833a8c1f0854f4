"""What becomes of the values of one call with many: written or failed, batch by batch, also where a batch is split."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from odradek.client.producer.batches import PendingBatch
from odradek.foundation.errors import OdradekError

OnDone = Callable[[Sequence[int], OdradekError | None], None]


class Values:
    """The values of one call that go to batches one after another, by their positions from `start` on."""

    __slots__ = ("_on_done", "_positions", "_start")

    def __init__(self, positions: Sequence[int], start: int, on_done: OnDone | None) -> None:
        self._positions = positions
        self._start = start
        self._on_done = on_done

    def follow(self, batch: PendingBatch, count: int) -> None:
        """The next `count` values are the last ones of `batch`."""
        if self._on_done is None:
            return
        taken, self._positions = self._positions[:count], self._positions[count:]
        if self._start:
            taken = [self._start + position for position in taken]
        _follow(batch, len(batch.builder) - count, taken, self._on_done)


def _follow(batch: PendingBatch, first: int, positions: Sequence[int], on_done: OnDone) -> None:
    """Call `on_done` when the batch's records from number `first` on, one for each position, are written or lost."""

    def look(done: asyncio.Future[tuple[int, int]]) -> None:
        if batch.halves is None:
            on_done(positions, cast("OdradekError | None", done.exception()))
            return
        one, other = batch.halves
        middle = len(one.builder)
        count = max(middle - first, 0)
        if positions[:count]:
            _follow(one, first, positions[:count], on_done)
        if positions[count:]:
            _follow(other, max(first - middle, 0), positions[count:], on_done)

    batch.done.add_done_callback(look)
