"""A source's batches as a mirror passes them, and where each record came to be: for tests of translated offsets."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from odradek.mirror.offset_translation import OffsetRun


class Batch(NamedTuple):
    """One batch of a source, as it was passed."""

    offset_gap: int
    """Offsets before it without readable records: aborted batches, markers."""
    deltas: tuple[int, ...]
    """Which of its offsets have a record; others were removed by compaction."""
    empty_tail: int
    marker_after: bool
    """Whether its transaction at the target ends with it."""


BATCHES = st.lists(
    st.builds(
        Batch,
        offset_gap=st.integers(0, 3),
        deltas=st.sets(st.integers(0, 9), min_size=1, max_size=8).map(lambda found: tuple(sorted(found))),
        empty_tail=st.integers(0, 2),
        marker_after=st.booleans(),
    ),
    min_size=1,
    max_size=60,
)
DENSE = st.lists(
    st.builds(
        Batch,
        offset_gap=st.just(0),
        deltas=st.integers(1, 8).map(lambda count: tuple(range(count))),
        empty_tail=st.just(0),
        marker_after=st.booleans(),
    ),
    min_size=1,
    max_size=60,
)


class Passed(NamedTuple):
    """The run that was passed."""

    runs: list[OffsetRun]
    target_of: dict[int, int]
    """The target's offset of each record by the source's."""
    source_end: int
    target_end: int

    def exact(self, offset: int) -> int:
        """The target's offset of the first record from `offset` on; the end without one."""
        return min(
            (target for source, target in self.target_of.items() if source >= offset), default=self.target_end
        )


def passed(batches: list[Batch], *, source: int = 0, target: int = 0) -> Passed:
    """Pass batches from these offsets on."""
    runs: list[OffsetRun] = []
    target_of: dict[int, int] = {}
    for batch in batches:
        first = source + batch.offset_gap
        target_first = target
        for delta in batch.deltas:
            target_of[first + delta] = target
            target += 1
        source = first + batch.deltas[-1] + 1 + batch.empty_tail
        runs.append(OffsetRun(first, source, target_first, target, len(batch.deltas)))
        target += batch.marker_after
    return Passed(runs, target_of, source, target)
