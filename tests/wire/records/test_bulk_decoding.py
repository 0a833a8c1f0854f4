"""Records of a batch read at once equal those read one by one, for every shape and every refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.foundation.errors import CorruptRecord
from odradek.wire.records.batch import BatchView
from odradek.wire.records.builder import build_batch
from odradek.wire.records.bulk_decoding import all_records, values
from odradek.wire.records.compression import Compression
from odradek.wire.records.record import Record, decompress_payload, records

# Lengths around the bounds where an integer takes one more byte (64 and 8,192 in zigzag).
sizes = st.sampled_from((0, 1, 62, 63, 64, 65, 100, 8_191, 8_192, 8_193, 20_000))
octets = st.none() | st.binary(max_size=20) | sizes.map(lambda size: b"x" * size)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2).map(tuple)
timestamps = st.sampled_from((0, 1, 63, 64, 8_191, 8_192, 10**12))
READERS: tuple[Callable[[BatchView], list[Any]], ...] = (values, all_records)


@given(
    st.lists(st.tuples(timestamps, octets, octets, headers), min_size=1, max_size=6),
    st.sampled_from((Compression.NONE, Compression.LZ4)),
)
def test_all_at_once_is_the_same_as_one_by_one(rows: list[Any], compression: Compression) -> None:
    batch = BatchView(build_batch(rows, base_offset=7, compression=compression))
    one_by_one = list(records(batch))
    assert all_records(batch) == one_by_one
    assert all(isinstance(record, Record) for record in all_records(batch))
    assert values(batch) == [record.value for record in one_by_one]


@pytest.mark.thorough
def test_more_records_than_two_bytes_count() -> None:
    batch = BatchView(build_batch([(5, None, b"%d" % n) for n in range(20_000)], base_offset=3))
    assert [record.offset for record in all_records(batch)] == list(range(3, 20_003))
    assert values(batch) == [b"%d" % n for n in range(20_000)]


@given(st.data())
def test_damage_is_refused_exactly_where_reading_one_by_one_refuses_it(data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(timestamps, octets, octets, headers), min_size=1, max_size=4))
    whole = bytearray(build_batch(rows, base_offset=0))
    first = len(whole) - len(decompress_payload(BatchView(bytes(whole))))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(first, len(whole) - 1))] = data.draw(st.integers(0, 255))
    batch = BatchView(bytes(whole))
    try:
        expected = list(records(batch))
    except CorruptRecord:
        with pytest.raises(CorruptRecord):
            all_records(batch)
    else:
        assert all_records(batch) == expected
        assert values(batch) == [record.value for record in expected]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("change", [-1, 1])
def test_a_wrong_count_is_refused(read: Callable[[BatchView], list[Any]], change: int) -> None:
    whole = bytearray(build_batch([(0, b"k", b"v")] * 3, base_offset=0))
    whole[57:61] = (3 + change).to_bytes(4, "big")
    with pytest.raises(CorruptRecord, match="remain" if change < 0 else "runs past the end"):
        read(BatchView(bytes(whole)))
