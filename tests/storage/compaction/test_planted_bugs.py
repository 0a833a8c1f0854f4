"""Bugs of compaction that are planted on purpose: the model finds each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from odradek.storage.compaction import cleaning
from odradek.storage.compaction.cleaning import TransactionPass
from odradek.storage.compaction.offset_map import PlainOffsetMap
from odradek.storage.compaction.segment_writer import SegmentWriter
from odradek.storage.compaction.vector_map import VectorOffsetMap, _KeyFile
from tests.support.compaction_model import rounds

pytestmark = pytest.mark.thorough

Round: Any = cleaning._CleaningRound
SEEDS = range(40)


def forget_aborts(patch: pytest.MonkeyPatch) -> None:
    """Aborted records enter the map."""
    patch.setattr(Round, "_read_aborted_transactions", lambda _: [])


def forget_aborts_between_groups(patch: pytest.MonkeyPatch) -> None:
    """Each group of segments begins without knowing the transactions before (KAFKA-8351)."""
    write = Round._write

    def forgetful(self: Any, group: Any) -> Any:
        self._transactions = TransactionPass([])
        return write(self, group)

    patch.setattr(Round, "_write", forgetful)


def trust_hashes(patch: pytest.MonkeyPatch) -> None:
    """Two keys with one hash count as the same."""
    patch.setattr(_KeyFile, "equal", lambda _, __, numbers, ___: np.ones(len(numbers), np.bool_))
    patch.setattr(VectorOffsetMap, "_are_same_keys", lambda _, __, left, ___: np.ones(len(left), np.bool_))


def drop_last_batches(patch: pytest.MonkeyPatch) -> None:
    """A producer's last batch goes, and its sequence number with it."""
    patch.setattr(Round, "_is_last_of_producer", lambda *_: False)


def clean_past_the_map(patch: pytest.MonkeyPatch) -> None:
    """A map that was full counts as if it knew all."""
    map_keys = Round._map_keys

    def overstate(self: Any, aborted: Any) -> None:
        map_keys(self, aborted)
        self._map.latest_offset = self._task.first_uncleanable_offset - 1

    patch.setattr(Round, "_map_keys", overstate)


def drop_markers(patch: pytest.MonkeyPatch) -> None:
    """Markers go while data of their transaction is there."""
    patch.setattr(TransactionPass, "end", lambda *_: (True, None))


def lose_the_index_of_aborts(patch: pytest.MonkeyPatch) -> None:
    """The new segments have no index of aborted transactions."""
    append = SegmentWriter.append
    patch.setattr(SegmentWriter, "append", lambda self, batch, _: append(self, batch, None))
    # Data that is to be dropped later is then kept as committed.
    patch.setattr(TransactionPass, "is_aborted", lambda *_: False)


def shift_times(patch: pytest.MonkeyPatch) -> None:
    """A delete horizon moves the times of the batch's records."""
    patch.setattr(cleaning, "_with_base_timestamp", lambda payload, *_: payload)


def keep_the_first(patch: pytest.MonkeyPatch) -> None:
    """The oldest record of a key wins."""
    put = PlainOffsetMap._put

    def put_once(self: PlainOffsetMap, key: bytes, offset: int) -> bool:
        return self._newest(key) >= 0 or put(self, key, offset)

    patch.setattr(PlainOffsetMap, "_put", put_once)


def forget_the_last_window(patch: pytest.MonkeyPatch) -> None:
    """The dirty point moves past records that no map has seen."""
    patch.setattr(
        PlainOffsetMap,
        "add",
        lambda self, batches, _: (
            setattr(self, "latest_offset", batches[-1].header.last_offset) if batches else False
        ),
    )


PLANTED: list[Callable[[pytest.MonkeyPatch], None]] = [
    forget_aborts,
    forget_aborts_between_groups,
    trust_hashes,
    drop_last_batches,
    clean_past_the_map,
    drop_markers,
    lose_the_index_of_aborts,
    shift_times,
    keep_the_first,
    forget_the_last_window,
]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_the_model_finds_it(plant: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        found = None
        for seed in SEEDS:
            try:
                rounds(seed)
            except Exception as failure:
                found = failure
                break
    assert found is not None, f"{plant.__doc__} was not found by {len(SEEDS)} runs"
