"""Records: round trips, and hostile payloads that may raise CorruptRecord and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odradek.foundation.errors import CorruptRecord
from odradek.wire.records.batch import BatchView, read_header
from odradek.wire.records.builder import build_batch, encode_record, frame
from odradek.wire.records.compression import Compression
from odradek.wire.records.record import record_spans, records
from odradek.wire.records.varint import encode_varint
from tests.wire.records.strategies import RECORDS, expected


@given(built=RECORDS, base_offset=st.integers(0, 2**62), compression=st.sampled_from(Compression))
def test_records_are_read_back(
    built: list[tuple[Any, ...]], base_offset: int, compression: Compression
) -> None:
    batch = build_batch(built, base_offset=base_offset, compression=compression)
    view = BatchView(memoryview(batch))
    view.verify()
    assert list(records(view)) == expected(built, base_offset=base_offset)
    assert view.record_count == len(built)
    assert view.max_timestamp_ms == max(record[0] for record in built)


def _with_payload(payload: bytes, *, count: int) -> BatchView:
    return BatchView(frame(read_header(build_batch([(0, None, None)]))._replace(record_count=count), payload))


def _read(view: BatchView) -> None:
    """Reading ends with records or with CorruptRecord; any other exception fails the test."""
    try:
        list(records(view))
    except CorruptRecord:
        return


@given(payload=st.binary(max_size=120), count=st.integers(-2, 2**31 - 1) | st.integers(0, 4))
@example(payload=b"", count=2**31 - 1)
def test_any_payload_is_read_or_refused(payload: bytes, count: int) -> None:
    _read(_with_payload(payload, count=count))


@pytest.mark.thorough
@given(built=RECORDS, data=st.data())
def test_damaged_records_are_read_or_refused(built: list[tuple[Any, ...]], data: st.DataObject) -> None:
    batch = build_batch(built)
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    _read(BatchView(batch))


def test_every_truncation_of_the_records_is_refused() -> None:
    whole = build_batch([(5, b"key", b"value", [("a", b"b"), ("n", None)]), (5000, None, b"x" * 200)])[61:]
    assert len(list(records(_with_payload(bytes(whole), count=2)))) == 2
    for size in range(len(whole)):
        with pytest.raises(CorruptRecord):
            list(records(_with_payload(bytes(whole[:size]), count=2)))
    with pytest.raises(CorruptRecord):
        list(records(_with_payload(bytes(whole) + b"\x00", count=2)))
    with pytest.raises(CorruptRecord):
        list(records(_with_payload(bytes(whole), count=3)))
    with pytest.raises(CorruptRecord):
        list(records(_with_payload(bytes(whole), count=1)))


def _raw_record(body: bytes) -> bytes:
    return encode_varint(len(body)) + body


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x00\x00\x00" + encode_varint(-2) + b"\x01\x00", id="key length -2"),
        pytest.param(b"\x00\x00\x00\x01" + encode_varint(-5) + b"\x00", id="value length -5"),
        pytest.param(b"\x00\x00\x00" + encode_varint(1000) + b"\x01\x00", id="key beyond the record"),
        pytest.param(b"\x00\x00\x00\x01" + encode_varint(2**31 - 1) + b"\x00", id="value beyond the record"),
        pytest.param(b"\x00\x00\x00\x01\x01" + encode_varint(-1), id="negative header count"),
        pytest.param(b"\x00\x00\x00\x01\x01" + encode_varint(2**31 - 1), id="header count without headers"),
        pytest.param(b"\x00\x00\x00\x01\x01\x02\x01\x01", id="null header name"),
        pytest.param(b"\x00\x00\x00\x01\x01\x02\x02a" + encode_varint(-2), id="header value length -2"),
        pytest.param(b"\x00\x00\x00\x01\x01\x00\x00", id="byte after the last field"),
        pytest.param(b"\x00\x00\x00\x01\x01", id="no header count"),
        pytest.param(b"\x00" + b"\xff" * 11 + b"\x00\x01\x01\x00", id="timestamp delta of eleven bytes"),
        pytest.param(b"", id="empty"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(body: bytes) -> None:
    # A whole record follows, so that reading over the end would find bytes.
    payload = _raw_record(body) + encode_record(
        timestamp_delta_ms=0, offset_delta=1, key=b"k" * 50, value=b"v"
    )
    with pytest.raises(CorruptRecord):
        list(records(_with_payload(payload, count=2)))


def test_header_names_that_are_not_utf8_do_not_hide_the_record() -> None:
    payload = _raw_record(b"\x00\x00\x00\x01\x01\x02" + b"\x04\xff\xfe" + b"\x02v")
    (record,) = records(_with_payload(payload, count=1))
    assert record.headers == (("\ufffd\ufffd", b"v"),)


def test_spans_point_at_keys_and_values() -> None:
    payload = bytes(build_batch([(0, b"key", None), (9, None, b"value")])[61:])
    first, second = record_spans(payload, record_count=2)
    assert payload[first.key_start : first.key_end] == b"key"
    assert first.value_start == -1
    assert (second.key_start, second.timestamp_delta_ms, second.offset_delta) == (-1, 9, 1)
    assert payload[second.value_start : second.value_end] == b"value"
    assert payload[first.start : second.end] == payload


def test_another_magic_is_not_read_as_records() -> None:
    batch = build_batch([(0, None, None)])
    batch[16] = 1
    with pytest.raises(CorruptRecord, match="legacy"):
        list(records(BatchView(batch)))
