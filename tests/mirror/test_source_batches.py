"""What a fetch of committed records holds: aborted and control batches are left out, and no record is unpacked."""

from __future__ import annotations

import pytest

from odradek.foundation.errors import CorruptRecord
from odradek.mirror.batch_passing import TargetRules
from odradek.mirror.source_batches import Position, read_committed_run
from odradek.wire.records.builder import build_batch
from odradek.wire.records.control import build_marker

RULES = TargetRules(1 << 20)


def written(offset: int, count: int, *, producer: int = -1) -> bytes:
    return bytes(
        build_batch(
            [(1, None, b"v%d" % (offset + n)) for n in range(count)],
            base_offset=offset,
            leader_epoch=4,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=0 if producer >= 0 else -1,
            is_transactional=producer >= 0,
        )
    )


def marker(offset: int, producer: int, *, is_commit: bool) -> bytes:
    return bytes(
        build_marker(
            producer_id=producer,
            producer_epoch=0,
            is_commit=is_commit,
            coordinator_epoch=0,
            timestamp_ms=1,
            base_offset=offset,
            leader_epoch=4,
        )
    )


LOG = b"".join(
    (
        written(0, 2),
        written(2, 3, producer=1),  # aborted at 7
        written(5, 2, producer=2),  # committed at 8
        marker(7, 1, is_commit=False),
        marker(8, 2, is_commit=True),
        written(9, 1, producer=1),  # another transaction of 1, committed
        marker(10, 1, is_commit=True),
    )
)


def test_only_committed_batches_are_left() -> None:
    run = read_committed_run(memoryview(LOG), [(2, 1)], position=Position(0), rules=RULES)
    assert [(one.source_first_offset, one.source_end_offset) for one in run.batches] == [
        (0, 2),
        (5, 7),
        (9, 10),
    ]
    assert run.after == Position(11, 4)
    assert run.size_bytes == len(LOG)


def test_a_torn_last_batch_is_left_for_the_next_fetch() -> None:
    data = memoryview(LOG + written(11, 5)[:-3])
    assert read_committed_run(data, [(2, 1)], position=Position(0), rules=RULES).after == Position(11, 4)


def test_a_start_inside_of_a_batch_begins_there() -> None:
    run = read_committed_run(memoryview(LOG), [(2, 1)], position=Position(6), rules=RULES)
    assert [(one.source_first_offset, one.record_count) for one in run.batches] == [(6, 1), (9, 1)]


def test_an_answer_without_a_whole_batch_is_damage() -> None:
    with pytest.raises(CorruptRecord, match="no whole batch"):
        read_committed_run(memoryview(written(0, 9)[:-1]), [], position=Position(0), rules=RULES)
