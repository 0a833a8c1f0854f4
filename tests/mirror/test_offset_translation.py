"""Translated offsets: never ahead of a group, exact where nothing is missing, and behind by gaps alone."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odradek.foundation.ids import TopicPartition
from odradek.mirror.offset_translation import OffsetRun, PartitionIndex, SourceOffsetIndex, beginning, point
from tests.mirror.passing import BATCHES, DENSE, Batch, passed


def filled(runs: list[OffsetRun], *, runs_max: int = 4_096, first: OffsetRun | None = None) -> PartitionIndex:
    index = PartitionIndex(runs_max)
    for run in [first] * (first is not None) + runs:
        assert run is not None
        index.add(run)
    return index


@pytest.mark.thorough
@given(BATCHES, st.integers(2, 64), st.integers(0, 20))
@example([Batch(0, (0, 5), 2, True), Batch(3, (9,), 0, True)], 2, 0)
def test_no_translation_is_ahead_of_the_group_and_none_goes_back(
    batches: list[Batch], runs_max: int, start: int
) -> None:
    what = passed(batches, source=start, target=7)
    index = filled(what.runs, runs_max=runs_max, first=beginning(start, 7))
    before = 0
    for offset in range(what.source_end + 5):
        translated = index.translate_offset(offset)
        assert translated is not None
        assert translated <= what.exact(offset)
        assert translated >= before
        before = translated
    assert len(index) <= runs_max


@pytest.mark.thorough
@given(BATCHES)
def test_a_full_index_is_behind_by_one_batch_at_most(batches: list[Batch]) -> None:
    what = passed(batches)
    index = filled(what.runs)
    for run in what.runs:
        for offset in range(run.source_first_offset, run.source_end_offset):
            translated = index.translate_offset(offset)
            assert translated is not None and run.target_first_offset <= translated
            assert what.exact(offset) - translated <= run.gaps + 1  # the next record may follow a marker


@given(DENSE)
def test_where_no_record_is_missing_a_translation_is_exact(batches: list[Batch]) -> None:
    what = passed(batches, source=40)
    index = filled(what.runs)
    for offset, target in what.target_of.items():
        assert index.translate_offset(offset) == target


@given(DENSE, st.integers(2, 8))
def test_joined_runs_are_behind_by_the_markers_between_them(batches: list[Batch], runs_max: int) -> None:
    what = passed(batches)
    index = filled(what.runs, runs_max=runs_max)
    markers = sum(batch.marker_after for batch in batches)
    for offset, target in what.target_of.items():
        translated = index.translate_offset(offset)
        assert translated is not None and target - markers <= translated <= target


@pytest.mark.thorough
@given(BATCHES, BATCHES, st.integers(2, 16))
def test_a_mirror_that_was_sent_back_knows_the_second_copy(
    first: list[Batch], second: list[Batch], runs_max: int
) -> None:
    once = passed(first, source=10)
    again = passed(second, source=10, target=once.target_end)
    index = filled([*once.runs, *again.runs], runs_max=runs_max)
    if again.runs[0].source_first_offset < once.runs[-1].source_end_offset:
        assert index.translate_offset(9) is None
        for offset in range(again.runs[0].source_first_offset, again.source_end + 2):
            translated = index.translate_offset(offset)
            assert translated is not None and translated <= again.exact(offset)


def test_a_topic_made_again_at_the_target_voids_what_was_known() -> None:
    index = filled([OffsetRun(0, 100, 1_000, 1_100, 100), OffsetRun(100, 110, 0, 10, 10)])
    assert index.translate_offset(50) is None
    assert index.translate_offset(105) == 5


def test_nothing_before_the_first_known_offset_is_translated() -> None:
    index = filled([], first=point(120, 300))
    assert index.translate_offset(119) is None
    assert index.translate_offset(120) == 300
    assert index.translate_offset(5_000) == 300


def test_offset_zero_of_a_quiet_partition_is_translated() -> None:
    index = filled([], first=beginning(0, 0))
    assert index.translate_offset(0) == 0


def test_offsets_that_retention_removed_become_the_first_one() -> None:
    index = filled([OffsetRun(500, 600, 0, 100, 100)], first=beginning(500, 0))
    assert index.translate_offset(3) == 0
    assert index.translate_offset(520) == 20


def test_batches_without_gaps_need_one_row() -> None:
    index = filled([OffsetRun(at, at + 10, at, at + 10, 10) for at in range(0, 100_000, 10)])
    assert list(index) == [OffsetRun(0, 100_000, 0, 100_000, 100_000)]


def test_the_bound_is_shared_by_partitions() -> None:
    index = SourceOffsetIndex(runs_max=256)
    partitions = [TopicPartition("orders", number) for number in range(3)]
    for partition in partitions:
        index.begin(partition)
        for at in range(1_000):
            index.add(partition, OffsetRun(at * 2, at * 2 + 1, at, at + 1, 1))
    assert list(index) == partitions
    rows = [len(index._partitions[partition]) for partition in partitions]
    assert all(64 // 2 <= count <= 256 // 3 for count in rows), rows
    index.end(partitions[0])
    assert index.translate_offset(partitions[0], 1_998) is None
    assert index.translate_offset(partitions[1], 1_998) == 999
    last = index.last(partitions[1])
    assert last is not None and last.target_end_offset == 1_000
    index.add(partitions[0], OffsetRun(0, 1, 0, 1, 1))
    assert partitions[0] not in index


@pytest.mark.thorough
@given(BATCHES, BATCHES, st.integers(2, 64), st.integers(0, 9))
def test_stored_runs_go_in_front_of_what_is_passed_now(
    before: list[Batch], now: list[Batch], runs_max: int, markers: int
) -> None:
    stored = passed(before)
    current = passed(now, source=stored.source_end, target=stored.target_end + markers)
    index = PartitionIndex(runs_max)
    index.add(point(stored.source_end, stored.target_end + markers))
    for run in current.runs:
        index.add(run)
    # A run of another copy, beyond where this one begins, is left out.
    index.prepend([*stored.runs, OffsetRun(stored.source_end, stored.source_end + 9, 0, 9, 9)])
    assert index.translate_offset(-1) is None
    whole = stored._replace(target_of=stored.target_of | current.target_of, target_end=current.target_end)
    for offset in range(stored.runs[0].source_first_offset, current.source_end + 3):
        translated = index.translate_offset(offset)
        assert translated is not None and translated <= whole.exact(offset)
