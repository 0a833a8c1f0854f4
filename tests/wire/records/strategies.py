"""What the tests of records generate: records of every legal shape, and batches with any header."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TIMESTAMP_MS = st.integers(-1, 2**42)

_FIELD = st.none() | st.binary(max_size=100)
HEADERS = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=20)), max_size=3)
RECORD = st.tuples(TIMESTAMP_MS, _FIELD, _FIELD, HEADERS)
RECORDS = st.lists(RECORD, min_size=1, max_size=20)


def expected(records: list[tuple[Any, ...]], *, base_offset: int = 0) -> list[tuple[Any, ...]]:
    """What a reader gives for records that were built with `base_offset`."""
    return [
        (base_offset + index, timestamp_ms, key, value, tuple(tuple(header) for header in headers))
        for index, (timestamp_ms, key, value, headers) in enumerate(records)
    ]
