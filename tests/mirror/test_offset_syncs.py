"""Offset syncs as others read them: the newest pair not after the offset, plus one if it is not equal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.foundation.ids import TopicPartition
from odradek.mirror.offset_syncs import PendingSyncs, sync_of
from odradek.mirror.offset_translation import OffsetRun
from tests.mirror.passing import BATCHES, Batch, passed

PARTITION = TopicPartition("orders", 0)


def as_mirror_maker_translates(pairs: list[tuple[int, int]], offset: int) -> int | None:
    known = [pair for pair in pairs if pair[0] <= offset]
    if not known:
        return None
    source, target = known[-1]
    return target if source == offset else target + 1


def written(runs: list[OffsetRun], *, every: int) -> list[OffsetRun]:
    """What is written if a sync falls due after each `every` batches."""
    pending = PendingSyncs(100)
    found: list[OffsetRun] = []
    for at, run in enumerate(runs, 1):
        pending.add(PARTITION, run)
        if at % every == 0:
            found += pending.take().values()
    return found + list(pending.take().values())


@given(BATCHES, st.integers(1, 9))
def test_other_readers_are_never_ahead(batches: list[Batch], every: int) -> None:
    what = passed(batches)
    syncs = [sync_of(PARTITION, run) for run in written(what.runs, every=every)]
    pairs = [(sync.source_offset, sync.target_offset) for sync in syncs]
    for offset in range(what.source_end + 3):
        translated = as_mirror_maker_translates(pairs, offset)
        assert translated is None or translated <= what.exact(offset)


def test_a_group_at_the_end_of_a_quiet_topic_is_translated_exactly() -> None:
    """Not stale for ever (KAFKA-15906): the pair is that of the last record."""
    (run,) = written([OffsetRun(0, 100, 0, 100, 100), OffsetRun(100, 250, 101, 251, 150)], every=10)
    sync = sync_of(PARTITION, run)
    assert as_mirror_maker_translates([(sync.source_offset, sync.target_offset)], 250) == 251


def test_gaps_do_not_make_more_syncs() -> None:
    """Compacted and transactional topics have gaps everywhere; a sync falls due by time."""
    runs = [OffsetRun(at * 10, at * 10 + 1, at * 2, at * 2 + 1, 1) for at in range(1_000)]
    assert len(written(runs, every=500)) == 2


def test_what_could_not_be_written_is_written_later() -> None:
    pending = PendingSyncs(100)
    pending.add(PARTITION, OffsetRun(0, 10, 0, 10, 10))
    failed = pending.take()
    pending.add(PARTITION, OffsetRun(10, 20, 11, 21, 10))
    pending.restore(failed)
    assert pending.take() == {PARTITION: OffsetRun(0, 20, 0, 21, 20)}
    assert pending.take() == {}


def test_a_mirror_that_was_sent_back_forgets_what_was_pending() -> None:
    pending = PendingSyncs(100)
    pending.add(PARTITION, OffsetRun(0, 10, 0, 10, 10))
    pending.add(PARTITION, OffsetRun(5, 8, 11, 14, 3))
    assert pending.take() == {PARTITION: OffsetRun(5, 8, 11, 14, 3)}


def test_partitions_of_other_workers_are_forgotten() -> None:
    pending = PendingSyncs(100)
    other = TopicPartition("orders", 1)
    pending.add(PARTITION, OffsetRun(0, 10, 0, 10, 10))
    pending.add(other, OffsetRun(0, 5, 0, 5, 5))
    pending.keep([other])
    assert list(pending.take()) == [other]


def test_a_sync_is_due_when_readers_of_the_last_one_are_too_far_behind() -> None:
    pending = PendingSyncs(100)
    pending.add(PARTITION, OffsetRun(0, 10, 0, 10, 10))
    assert list(pending.take(is_due=True)) == [PARTITION], "the first one does not wait"
    # The last sync has offset 9 of the target, and its readers take 10.
    pending.add(PARTITION, OffsetRun(10, 109, 10, 109, 99))
    pending.add(PARTITION, OffsetRun(109, 110, 109, 110, 1))
    assert pending.take(is_due=True) == {}
    pending.add(PARTITION, OffsetRun(110, 111, 110, 111, 1))
    assert pending.take(is_due=True) == {PARTITION: OffsetRun(10, 111, 10, 111, 101)}
    pending.add(PARTITION, OffsetRun(111, 112, 111, 112, 1))
    assert pending.take(is_due=True) == {}
    assert pending.take() == {PARTITION: OffsetRun(111, 112, 111, 112, 1)}
    # What failed waits for its time, unless much more passed.
    pending.restore({PARTITION: OffsetRun(111, 112, 111, 112, 1)})
    assert pending.take(is_due=True) == {} and list(pending.take()) == [PARTITION]
    # A target that begins again does not wait.
    pending.add(PARTITION, OffsetRun(112, 113, 0, 1, 1))
    assert list(pending.take(is_due=True)) == [PARTITION]


def test_the_lag_of_a_sync_counts_the_markers_of_the_target() -> None:
    """Few records with a marker behind each: offsets are what readers are behind by."""
    pending = PendingSyncs(10)
    pending.add(PARTITION, OffsetRun(0, 1, 0, 1, 1))
    pending.take()
    found = 0
    for at in range(1, 12):
        pending.add(PARTITION, OffsetRun(at, at + 1, at * 2, at * 2 + 1, 1))
        found += len(pending.take(is_due=True))
    assert found == 1
