"""What a read answers with: which batches, how many bytes, where it stops."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.foundation.errors import OffsetOutOfRange
from odradek.storage.config import LogConfig
from odradek.storage.log import Log
from odradek.wire.records.batch import BatchView
from odradek.wire.records.builder import build_batch
from tests.support.disk import SimulatedDisk
from tests.support.examples import examples
from tests.support.logs import START_MS, batch, open_log, stored_batches

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=300)


def _log(count: int = 40) -> Log:
    log = open_log(SimulatedDisk(), config=CONFIG)
    for number in range(count):
        log.append(batch(*([b"%d" % number + b"x" * (number * 13 % 90)] * (number % 3 + 1))), leader_epoch=0)
    return log


def test_a_read_from_inside_a_batch_returns_the_whole_batch() -> None:
    log = open_log(SimulatedDisk())
    log.append(batch(b"a", b"b", b"c"), leader_epoch=0)
    log.append(batch(b"d"), leader_epoch=0)
    for offset in range(3):
        assert BatchView(memoryview(log.read(offset, bytes_max=1000).read())).base_offset == 0
    assert BatchView(memoryview(log.read(3, bytes_max=1000).read())).base_offset == 3


def test_offsets_outside_the_log_are_out_of_range_and_its_end_is_empty() -> None:
    log = _log()
    assert len(log.read(log.log_end_offset, bytes_max=1000)) == 0
    log.advance_log_start(5)
    for offset in (-1, 4, log.log_end_offset + 1):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, bytes_max=1000)
    assert log.read(5, bytes_max=1000).size > 0


def test_a_bound_that_the_first_batch_just_fits_gives_it() -> None:
    log = open_log(SimulatedDisk())
    size = log.append(batch(b"first"), leader_epoch=0).size_bytes
    log.append(batch(b"second"), leader_epoch=0)
    for bytes_max, expected in ((size - 1, 0), (size, size)):
        assert len(log.read(0, bytes_max=bytes_max, at_least_one_batch=False)) == expected


def test_a_first_batch_above_the_bound_is_whole_or_left_out() -> None:
    log = _log()
    batches = stored_batches(log)
    for view in batches:
        slice_ = log.read(view.base_offset, bytes_max=1, at_least_one_batch=True)
        assert slice_.read() == bytes(view.bytes_view)
        assert log.read(view.base_offset, bytes_max=1, at_least_one_batch=False).size == 0


@pytest.mark.thorough
@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_any_read(data: st.DataObject) -> None:
    """Against the list of batches: begins with the right batch, stays below limit and bound, leaves nothing out."""
    log = _read_log
    offset = data.draw(st.integers(0, log.log_end_offset))
    limit = data.draw(st.integers(0, log.log_end_offset + 3))
    bytes_max = data.draw(st.integers(0, 3000))
    at_least_one = data.draw(st.booleans())
    eligible = [view for view in _read_batches if view.last_offset >= offset and view.last_offset < limit]
    answer = log.read(offset, bytes_max=bytes_max, offset_limit=limit, at_least_one_batch=at_least_one)
    data_read = answer.read()
    assert answer.read_cached() == data_read
    expected = b"".join(view.bytes_view for view in eligible)
    assert expected.startswith(data_read)
    if not eligible:
        assert not data_read
        return
    first = eligible[0].size_bytes
    if first > bytes_max:
        assert len(data_read) == (first if at_least_one else 0)
        return
    # A read does not go beyond its segment.
    segment = log.segments.all[log.segments.floor(eligible[0].base_offset)]
    next_base = log.segments.upper_offset(log.segments.all.index(segment), end_offset=log.log_end_offset)
    inside = sum(view.size_bytes for view in eligible if view.last_offset < next_base)
    assert len(data_read) == min(bytes_max, inside)


_read_log = _log(80)
_read_batches = stored_batches(_read_log)


def test_a_slice_outlives_the_deletion_of_its_segment() -> None:
    log = _log()
    slice_ = log.read(0, bytes_max=500)
    before = slice_.read()
    log.advance_log_start(log.log_end_offset)
    assert log.delete_old_segments() == 0 or log.log_start_offset == log.log_end_offset
    assert slice_.read() == before


def test_the_newest_time_counts_until_its_segment_is_deleted() -> None:
    """As in Kafka, where DeleteRecords ends inside the batch that has it; look-ups by time stay above the start."""
    log = open_log(SimulatedDisk())
    newest_first = [(START_MS + 50, None, b"0"), (START_MS + 10, None, b"1"), (START_MS + 20, None, b"2")]
    log.append(bytes(build_batch(newest_first)), leader_epoch=0)
    log.append(batch(b"3", timestamp_ms=START_MS + 30), leader_epoch=0)
    for start_offset in (1, 3, 4):
        log.advance_log_start(start_offset)
        assert log.offset_of_max_timestamp() == (0, START_MS + 50, 0)
    assert log.offset_for_timestamp(START_MS + 10) is None
    log.delete_old_segments()
    assert log.offset_of_max_timestamp() is None
