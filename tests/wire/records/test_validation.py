"""What a broker refuses of a client's batch, and what it lets pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.foundation import errors, transaction_errors
from odradek.foundation.limits import RECORD_ERRORS_PER_BATCH_MAX
from odradek.wire.records.batch import BatchHeader, BatchView, read_header, validate_header
from odradek.wire.records.builder import BatchBuilder, build_batch, frame
from odradek.wire.records.compression import Compression
from odradek.wire.records.validation import (
    TIMESTAMP_BOUND_NONE,
    single_batch_bytes,
    validate_keys,
    validate_timestamps,
)

GOOD = read_header(
    build_batch([(1000, b"a", b"b"), (1001, b"c", b"d")], producer_id=5, producer_epoch=0, base_sequence=0)
)


def test_what_clients_send_passes() -> None:
    validate_header(GOOD)
    validate_header(GOOD._replace(base_offset=-99))
    validate_header(GOOD._replace(attributes=0x10))
    validate_header(GOOD._replace(producer_id=-1, producer_epoch=-1, base_sequence=-1))
    for compression in Compression:
        validate_header(GOOD._replace(attributes=compression))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"record_count": 0, "last_offset_delta": -1}, errors.InvalidRecord),
        ({"record_count": -1}, errors.InvalidRecord),
        ({"record_count": 3}, errors.InvalidRecord),
        ({"last_offset_delta": 5}, errors.InvalidRecord),
        ({"last_offset_delta": -1}, errors.InvalidRecord),
        ({"attributes": 0x20}, errors.InvalidRecord),
        ({"attributes": 0x30}, errors.InvalidRecord),
        ({"base_sequence": -1}, errors.InvalidRecord),
        ({"producer_id": -2}, errors.InvalidRecord),
        ({"producer_id": -1, "attributes": 0x10}, errors.InvalidRecord),
        ({"record_count": 1000, "last_offset_delta": 999}, errors.InvalidRecord),
        ({"producer_epoch": -1}, transaction_errors.InvalidProducerEpoch),
        *(({"attributes": codec}, errors.UnsupportedCompressionType) for codec in (5, 6, 7)),
    ],
)
def test_contradictions_and_unknown_codecs_are_refused(
    change: dict[str, int], error: type[Exception]
) -> None:
    with pytest.raises(error):
        validate_header(GOOD._replace(**change))


def test_one_batch_is_one_batch() -> None:
    batch = bytes(build_batch([(0, b"k", b"v")]))
    size = len(batch)
    # What follows and is too short for another batch does not count.
    for follows in (b"", b"\0" * 5, batch[:11], batch[:16], batch[:-1]):
        assert single_batch_bytes(batch + follows) == size
    for cut in (0, 5, 11, 16, size - 1):
        with pytest.raises(errors.InvalidRecord, match="no whole batch"):
            single_batch_bytes(batch[:cut])
    with pytest.raises(errors.InvalidRecord, match="several"):
        single_batch_bytes(batch + batch)
    with pytest.raises(errors.InvalidRecord, match="magic 1"):
        single_batch_bytes(batch[:16] + b"\1" + batch[17:])
    for position, what in ((16, b"\3"), (16, b"\xff"), (8, b"\xff\xff\xff\xff"), (8, b"\0\0\0\r")):
        with pytest.raises(errors.CorruptRecord):
            single_batch_bytes(batch[:position] + what + batch[position + len(what) :])


def _check_times(
    *timestamps_ms: int, before: int = TIMESTAMP_BOUND_NONE, after: int = TIMESTAMP_BOUND_NONE
) -> None:
    for compression in (Compression.NONE, Compression.LZ4):
        batch = BatchView(
            build_batch([(time, None, b"v") for time in timestamps_ms], compression=compression)
        )
        validate_timestamps(batch, batch.header, now_ms=10_000, before_max_ms=before, after_max_ms=after)


def test_timestamps_are_bounded_on_both_sides() -> None:
    _check_times(0, 2**60)
    _check_times(9_000, 11_000, before=1000, after=1000)
    _check_times(-1, -1, before=1000, after=1000)
    _check_times(9_500, 5, before=20_000)
    with pytest.raises(errors.InvalidTimestamp, match=r"after\.max"):
        _check_times(10_000, 11_001, 10_000, after=1000)
    # The batch's base timestamp is fine; the older record is in its middle.
    with pytest.raises(errors.InvalidTimestamp, match=r"before\.max"):
        _check_times(10_000, 8_999, 10_000, before=1000)


def test_records_outside_of_the_bounds_are_named() -> None:
    with pytest.raises(errors.InvalidTimestamp) as newer:
        _check_times(10_000, 11_001, 8_000, 12_000, before=1500, after=1000)
    assert [index for index, _ in newer.value.record_errors] == [1, 2, 3]
    with pytest.raises(errors.InvalidTimestamp) as older:
        _check_times(10_000, -1, 8_000, before=1500)
    assert [index for index, _ in older.value.record_errors] == [2]


def test_an_answer_names_no_more_records_than_it_should() -> None:
    batch = BatchView(build_batch([(0, None, b"")] * (RECORD_ERRORS_PER_BATCH_MAX + 5)))
    with pytest.raises(errors.InvalidRecord) as keys:
        validate_keys(batch)
    with pytest.raises(errors.InvalidTimestamp) as times:
        validate_timestamps(batch, batch.header, now_ms=10_000, before_max_ms=1, after_max_ms=1)
    for refused in (keys.value, times.value):
        assert len(refused.record_errors) == RECORD_ERRORS_PER_BATCH_MAX


def _jumping() -> BatchView:
    builder = BatchBuilder()
    builder.append(0, b"k", b"v")
    builder.append(0, b"k", b"v", offset_delta=2)
    return BatchView(builder.build(last_offset_delta=1))


@pytest.mark.parametrize("compression", Compression)
def test_keys_are_demanded_of_every_record(compression: Compression) -> None:
    validate_keys(BatchView(build_batch([(0, b"", b"v"), (0, b"k", None)], compression=compression)))
    batch = BatchView(build_batch([(0, b"k", b"v"), (0, None, b"v")], compression=compression))
    with pytest.raises(errors.InvalidRecord, match="record 1 of the batch has no key") as refused:
        validate_keys(batch)
    assert refused.value.record_errors == ((1, "the record has no key"),)


def _changed(change: Callable[[BatchHeader], BatchHeader], payload: bytes | None = None) -> BatchView:
    batch = BatchView(build_batch([(0, b"k", b"v"), (0, b"l", b"w")]))
    return BatchView(frame(change(batch.header), bytes(batch.payload) if payload is None else payload))


def test_walking_through_the_records_finds_what_the_header_hides() -> None:
    with pytest.raises(errors.InvalidRecord, match="rise by one"):
        validate_keys(_jumping())
    with pytest.raises(errors.CorruptRecord):
        validate_keys(_changed(lambda header: header._replace(record_count=3)))
    with pytest.raises(errors.CorruptRecord):
        validate_keys(_changed(lambda header: header._replace(record_count=1)))
    with pytest.raises(errors.CorruptRecord):
        validate_keys(_changed(lambda header: header, b"not records at all"))
    with pytest.raises(errors.CorruptRecord):
        validate_keys(_changed(lambda header: header._replace(attributes=Compression.ZSTD)))


def test_a_bomb_is_refused_where_records_are_read() -> None:
    batch = BatchView(build_batch([(0, b"k", bytes(1 << 20))], compression=Compression.ZSTD))
    with pytest.raises(errors.CorruptRecord, match="grows beyond"):
        validate_keys(batch, size_max=1 << 16)
