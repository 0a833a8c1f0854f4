"""Records encoded many at a time are the bytes that they are one at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.wire.records.batch import BatchView
from odradek.wire.records.builder import BatchBuilder
from odradek.wire.records.record import records

parts = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), parts), max_size=3).map(tuple)
pairs = st.lists(st.tuples(parts, parts), max_size=150)


@pytest.mark.thorough
@given(st.lists(pairs, max_size=3), parts, headers, st.booleans())
def test_extending_is_appending_many_times(
    runs: list[list[tuple[bytes | None, bytes | None]]],
    shared_key: bytes | None,
    shared_headers: tuple[tuple[str, bytes | None], ...],
    has_keys: bool,
) -> None:
    together, one_by_one = BatchBuilder(), BatchBuilder()
    for number, run in enumerate(runs):
        timestamp_ms = 1_700_000_000_000 + 100 * number
        values = [value for _, value in run]
        keys = [key for key, _ in run] if has_keys else None
        together.extend(timestamp_ms, values, keys=keys, key=shared_key, headers=shared_headers)
        for key, value in run:
            one_by_one.append(timestamp_ms, key if has_keys else shared_key, value, shared_headers)
    assert len(together) == len(one_by_one)
    assert together.payload_bytes == one_by_one.payload_bytes
    assert together.build() == one_by_one.build()


@pytest.mark.parametrize("first", [0, 60, 8_190])
def test_offset_deltas_become_longer_amid_many_records(first: int) -> None:
    together, one_by_one = BatchBuilder(), BatchBuilder()
    values = [b"%d" % number for number in range(20_000)]
    for builder in (together, one_by_one):
        for _ in range(first):
            builder.append(5, None, b"")
    together.extend(7, values)
    for value in values:
        one_by_one.append(7, None, value)
    built = together.build()
    assert built == one_by_one.build()
    assert [record.value for record in records(BatchView(built))][first:] == values
