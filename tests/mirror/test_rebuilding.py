"""The offsets that are known after a restart, from offset syncs and checkpoints of its own and of MirrorMaker 2."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.consumer.blocks import ConsumerRecord
from odradek.foundation.ids import TopicPartition
from odradek.mirror.formats import (
    Checkpoint,
    TopicIds,
    checkpoint_key,
    checkpoint_value,
    offset_sync_key,
    offset_sync_value,
    run_header,
    topics_header,
)
from odradek.mirror.offset_syncs import sync_of
from odradek.mirror.offset_translation import OffsetRun, PartitionIndex, point
from odradek.mirror.rebuilding import History, Mirrored
from tests.mirror.passing import BATCHES, Batch, passed

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("a.orders", 0)
IDS = TopicIds(uuid.UUID(int=1), uuid.UUID(int=2))
MADE_AGAIN = TopicIds(uuid.UUID(int=3), uuid.UUID(int=2))


def record(key: bytes, value: bytes | None, headers: list[tuple[str, bytes]]) -> ConsumerRecord:
    return ConsumerRecord("internal", 0, 0, 0, 0, key, value, tuple(headers), -1)


def stored_sync(run: OffsetRun, ids: TopicIds | None = IDS, *, is_ours: bool = True) -> ConsumerRecord:
    sync = sync_of(SOURCE, run)
    headers = [run_header(run), *([topics_header(ids)] if ids else [])] if is_ours else []
    return record(offset_sync_key(sync), offset_sync_value(sync), headers)


def stored_checkpoint(
    source: int, target: int, ids: TopicIds | None = IDS, group_id: str = "g"
) -> ConsumerRecord:
    checkpoint = Checkpoint(group_id, TARGET, source, target, "")
    headers = [topics_header(ids)] if ids else []
    return record(checkpoint_key(checkpoint), checkpoint_value(checkpoint), headers)


def history(position: int, target_end: int) -> History:
    return History({SOURCE: Mirrored(TARGET, IDS, position, target_end)})


def index_after(found: History, position: int, target_end: int) -> PartitionIndex:
    index = PartitionIndex()
    index.add(point(position, target_end))
    index.prepend(found.runs(SOURCE))
    return index


@pytest.mark.thorough
@given(BATCHES, st.booleans(), st.data())
def test_stored_offsets_are_never_ahead(batches: list[Batch], is_ours: bool, data: st.DataObject) -> None:
    what = passed(batches)
    found = history(what.source_end, what.target_end)
    found.add_syncs([stored_sync(run, is_ours=is_ours) for run in what.runs if data.draw(st.booleans())])
    groups = data.draw(st.lists(st.integers(0, what.source_end), max_size=5))
    found.add_checkpoints([stored_checkpoint(at, what.exact(at), group_id=f"g{at}") for at in groups])
    index = index_after(found, what.source_end, what.target_end)
    for offset in range(what.source_end + 2):
        translated = index.translate_offset(offset)
        assert translated is None or translated <= what.exact(offset)
    for at in groups:
        assert index.translate_offset(at) is not None


def test_a_group_behind_the_mirror_is_translated_after_a_restart() -> None:
    found = history(300, 310)
    found.add_syncs(
        [stored_sync(OffsetRun(0, 100, 0, 100, 100)), stored_sync(OffsetRun(100, 200, 104, 204, 100))]
    )
    index = index_after(found, 300, 310)
    assert index.translate_offset(50) == 50
    assert index.translate_offset(150) == 154
    assert index.translate_offset(250) == 204
    assert index.translate_offset(300) == 310


def test_pairs_of_mirror_maker_are_read_as_it_reads_them() -> None:
    found = history(250, 250)
    found.add_syncs(
        [stored_sync(OffsetRun(at, at + 1, at, at + 1, 1), is_ours=False) for at in (0, 101, 202, 249)]
    )
    index = index_after(found, 250, 250)
    assert [index.translate_offset(at) for at in (0, 101, 120, 203, 250)] == [0, 101, 102, 203, 250]


def test_its_checkpoints_are_points_too() -> None:
    found = history(250, 260)
    found.add_checkpoints([stored_checkpoint(120, 102, ids=None)])
    index = index_after(found, 250, 260)
    assert index.translate_offset(119) is None
    assert index.translate_offset(130) == 102


def test_offsets_of_a_topic_that_was_made_again_are_void() -> None:
    found = history(300, 900)
    old = OffsetRun(0, 100, 500, 600, 100)
    found.add_syncs(
        [
            stored_sync(old, None),
            stored_sync(old, MADE_AGAIN),
            stored_sync(OffsetRun(200, 300, 800, 900, 100)),
        ]
    )
    found.add_checkpoints(
        [stored_checkpoint(50, 550, MADE_AGAIN), stored_checkpoint(60, 570, MADE_AGAIN, "h")]
    )
    assert found.runs(SOURCE) == [OffsetRun(200, 300, 800, 900, 100)]
    assert found.checkpoints == {}
    found.add_syncs([stored_sync(OffsetRun(0, 9, 0, 9, 9), MADE_AGAIN)])
    assert found.runs(SOURCE) == []


def test_offsets_beyond_both_ends_are_void() -> None:
    """The mirror was sent back to 100, and the target lost what was after 110."""
    found = history(100, 110)
    found.add_syncs(
        [stored_sync(OffsetRun(0, 100, 0, 100, 100)), stored_sync(OffsetRun(100, 200, 101, 201, 100))]
    )
    found.add_checkpoints([stored_checkpoint(150, 151), stored_checkpoint(90, 120, group_id="h")])
    assert found.runs(SOURCE) == [OffsetRun(0, 100, 0, 100, 100)]


def test_a_sync_that_goes_back_voids_those_before_it() -> None:
    """Negative lag came of offsets that were carried over (KAFKA-12468)."""
    found = history(100, 1_000)
    found.add_syncs([stored_sync(OffsetRun(0, 90, 700, 790, 90)), stored_sync(OffsetRun(10, 20, 10, 20, 10))])
    assert found.runs(SOURCE) == [OffsetRun(10, 20, 10, 20, 10)]


def test_records_of_others_are_left_out() -> None:
    found = history(10, 10)
    other = Checkpoint("g", TopicPartition("a.other", 0), 1, 1, "")
    found.add_checkpoints(
        [
            record(checkpoint_key(other), checkpoint_value(other), []),
            record(b"\0", b"", []),
            record(b"key", None, []),
        ]
    )
    found.add_syncs([record(b"", b"\1\2", [])])
    assert found.checkpoints == {} and found.runs(SOURCE) == []
