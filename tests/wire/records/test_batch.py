"""The batch view against a plain model, its verification against every damage, and writing in place."""

from __future__ import annotations

import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.foundation.errors import CorruptRecord
from odradek.wire.records import batch as batch_module
from odradek.wire.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    BatchView,
    TimestampType,
    advance_sequence,
    assign,
    read_header,
    set_log_append_time,
    set_max_timestamp,
    split,
    update_crc,
    verify_header,
    write_header,
)
from odradek.wire.records.builder import build_batch, frame
from odradek.wire.records.compression import Compression
from odradek.wire.records.record import newest_timestamp_ms, records
from tests.wire.records.strategies import INT16, INT32, INT64


@st.composite
def headers(draw: st.DrawFn) -> BatchHeader:
    return BatchHeader(
        base_offset=draw(INT64),
        batch_length=0,
        leader_epoch=draw(INT32),
        magic=2,
        crc=0,
        attributes=draw(INT16),
        last_offset_delta=draw(INT32),
        base_timestamp_ms=draw(INT64),
        max_timestamp_ms=draw(INT64),
        producer_id=draw(INT64),
        producer_epoch=draw(INT16),
        base_sequence=draw(INT32),
        record_count=draw(INT32),
    )


def sample(**fields: object) -> bytearray:
    return build_batch([(1000, b"k", b"v" * 20), (1003, None, b"w")], **fields)


@given(
    header=headers(),
    payload=st.binary(max_size=50),
    before=st.binary(max_size=7),
    after=st.binary(max_size=7),
)
def test_view_reads_every_field_where_it_lies(
    header: BatchHeader, payload: bytes, before: bytes, after: bytes
) -> None:
    buffer = memoryview(before + bytes(frame(header, payload)) + after)
    view = BatchView(buffer, len(before))
    whole = view.header
    assert whole == read_header(buffer, len(before)) == verify_header(buffer, len(before))
    for name in BatchHeader._fields:
        if name not in ("batch_length", "crc"):
            assert getattr(whole, name) == getattr(header, name)
        if name != "batch_length":
            assert getattr(view, name) == getattr(whole, name)
    assert view.size_bytes == whole.size_bytes == HEADER_BYTES + len(payload)
    assert bytes(view.payload) == payload
    assert view.last_offset == whole.last_offset == header.base_offset + header.last_offset_delta
    bits = header.attributes & 0xFFFF
    assert view.is_transactional == whole.is_transactional == bool(bits >> 4 & 1)
    assert view.is_control == whole.is_control == bool(bits >> 5 & 1)
    assert whole.has_delete_horizon == bool(bits >> 6 & 1)
    assert whole.timestamp_type == TimestampType(bits >> 3 & 1)
    if bits & 7 <= 4:
        assert view.compression == whole.compression == Compression(bits & 7)
    else:
        with pytest.raises(CorruptRecord):
            _ = view.compression


@pytest.mark.parametrize("increment", [0, 1, 5])
def test_sequence_numbers_wrap_to_zero(increment: int) -> None:
    last = 2**31 - 1
    assert advance_sequence(last - increment, increment) == last
    assert advance_sequence(last, increment + 1) == increment


def test_every_flipped_bit_behind_the_leader_epoch_is_found() -> None:
    batch = sample()
    for bit in range(len(batch) * 8):
        position = bit // 8
        damaged = bytearray(batch)
        damaged[position] ^= 1 << bit % 8
        # Base offset and leader epoch are the broker's to set, so the checksum leaves them out.
        if position < 8 or 12 <= position < 16:
            BatchView(damaged).verify()
            continue
        with pytest.raises(CorruptRecord):
            BatchView(damaged).verify()


def test_every_truncation_is_found() -> None:
    batch = sample()
    for size in range(len(batch)):
        with pytest.raises(CorruptRecord):
            verify_header(memoryview(batch)[:size])
        if size:
            with pytest.raises(CorruptRecord):
                list(split(batch[:size]))


@pytest.mark.parametrize("length", [-(2**31), -62, -1, 0, 48, 2**31 - 1])
def test_a_length_that_cannot_be_is_found(length: int) -> None:
    batch = sample()
    struct.pack_into(">i", batch, 8, length)
    for attempt in (
        BatchView(batch).verify,
        lambda: list(split(batch)),
        lambda: BatchView(batch).payload,
        lambda: set_log_append_time(batch, 0, timestamp_ms=1),
        lambda: list(records(BatchView(batch))),
    ):
        with pytest.raises(CorruptRecord):
            attempt()


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_another_magic_is_found(magic: int) -> None:
    batch = sample()
    batch[16] = magic
    with pytest.raises(CorruptRecord, match="magic"):
        BatchView(batch).verify()
    with pytest.raises(CorruptRecord, match="magic"):
        list(split(batch))


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_and_nothing_else_is_raised(data: bytes) -> None:
    with pytest.raises(CorruptRecord):
        verify_header(data)
    if data:
        with pytest.raises(CorruptRecord):
            list(split(data))


def test_split_gives_every_batch_and_then_reports_the_torn_tail() -> None:
    batches = [sample(base_offset=10 * index) for index in range(3)]
    joined = b"".join(bytes(batch) for batch in batches)
    assert [view.base_offset for view in split(memoryview(joined))] == [0, 10, 20]
    assert [bytes(view.bytes_view) for view in split(joined)] == [bytes(batch) for batch in batches]
    torn = split(joined[:-1])
    assert [next(torn).base_offset, next(torn).base_offset] == [0, 10]
    with pytest.raises(CorruptRecord, match="cut off"):
        next(torn)
    assert list(split(b"")) == []


def test_split_leaves_out_a_truncated_batch_but_never_the_first() -> None:
    first, second = (bytes(sample(base_offset=base)) for base in (0, 10))
    joined = first + second
    for size in range(len(first), len(joined)):
        assert [view.base_offset for view in split(joined[:size], may_be_cut=True)] == [0]
    for size in range(1, len(first)):
        with pytest.raises(CorruptRecord):
            list(split(joined[:size], may_be_cut=True))
    not_a_batch = bytearray(joined)
    not_a_batch[len(first) + 16] = 1  # its magic
    with pytest.raises(CorruptRecord, match="magic"):
        list(split(not_a_batch, may_be_cut=True))


@given(base_offset=st.integers(0, 2**63 - 1), leader_epoch=st.integers(-1, 2**31 - 1), pad=st.integers(0, 9))
def test_assign_changes_only_offset_and_epoch(base_offset: int, leader_epoch: int, pad: int) -> None:
    before = sample()
    buffer = bytearray(pad) + before
    assign(memoryview(buffer), pad, base_offset=base_offset, leader_epoch=leader_epoch)
    view = BatchView(buffer, pad)
    view.verify()
    assert (view.base_offset, view.leader_epoch) == (base_offset, leader_epoch)
    assert buffer[pad + 8 : pad + 12] == before[8:12]
    assert buffer[pad + 16 :] == before[16:]


def test_log_append_time_is_every_records_time_and_the_crc_fits() -> None:
    for compression in Compression:
        batch = sample(compression=compression)
        set_log_append_time(batch, 0, timestamp_ms=5000)
        view = BatchView(batch)
        view.verify()
        assert view.header.timestamp_type == TimestampType.LOG_APPEND_TIME
        assert view.max_timestamp_ms == 5000
        assert view.compression == compression
        assert [record.timestamp_ms for record in records(view)] == [5000, 5000]


def test_write_header_and_update_crc_make_a_changed_batch_whole() -> None:
    batch = sample()
    write_header(batch, 0, read_header(batch)._replace(producer_id=77, producer_epoch=3, base_sequence=9))
    with pytest.raises(CorruptRecord):
        BatchView(batch).verify()
    update_crc(batch)
    header = verify_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 9)
    assert header.last_sequence == 10


def test_repr_has_the_main_fields() -> None:
    assert "base_offset=7" in repr(BatchView(sample(base_offset=7)))


@pytest.mark.parametrize("compression", Compression)
def test_an_unset_max_timestamp_can_be_read_from_the_records_and_set(compression: Compression) -> None:
    batch = build_batch([(1000, None, b"v"), (1009, None, b"v"), (1004, None, b"v")], compression=compression)
    before = list(records(BatchView(batch)))
    set_max_timestamp(batch, 0, timestamp_ms=-1)
    view = BatchView(batch)
    view.verify()
    assert view.max_timestamp_ms == -1
    set_max_timestamp(batch, 0, timestamp_ms=newest_timestamp_ms(view))
    view.verify()
    assert view.max_timestamp_ms == 1009
    assert list(records(view)) == before
    assert newest_timestamp_ms(BatchView(build_batch([]))) == -1


def test_the_modules_table_is_the_layout_that_the_code_reads() -> None:
    codes = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint32": "I"}
    rows = re.findall(
        r"^ {4}(\d+) +(u?int\d+) +([a-z ]+?)(?:  .*)?$", batch_module.__doc__ or "", re.MULTILINE
    )
    layout = struct.Struct(">" + "".join(codes[kind] for _, kind, _ in rows))
    positions = [struct.calcsize(layout.format[: 1 + number]) for number in range(len(rows))]
    assert [int(position) for position, _, _ in rows] == positions
    assert (layout.format, layout.size) == (batch_module._HEADER.format, HEADER_BYTES)
    units = {"base timestamp", "max timestamp"}
    names = [f"{name} ms" if name in units else name for _, _, name in rows]
    fields = [field.replace("_", " ") for field in BatchHeader._fields]
    assert names == [field.replace("leader epoch", "partition leader epoch") for field in fields]
