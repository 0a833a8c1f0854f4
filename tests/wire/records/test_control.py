"""Transaction markers: known bytes, round trips, and damage."""

from __future__ import annotations

import pytest

from odradek.foundation.errors import CorruptRecord
from odradek.wire.records.batch import BatchView
from odradek.wire.records.builder import build_batch
from odradek.wire.records.control import ControlType, Marker, build_marker, control_type, parse_marker
from odradek.wire.records.record import Record, records


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_is_read_back(is_commit: bool) -> None:
    batch = BatchView(
        build_marker(
            producer_id=77,
            producer_epoch=3,
            is_commit=is_commit,
            coordinator_epoch=12,
            timestamp_ms=5000,
            base_offset=8,
            leader_epoch=2,
        )
    )
    batch.verify()
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.base_offset, batch.leader_epoch, batch.base_sequence) == (8, 2, -1)
    assert parse_marker(batch) == Marker(77, 3, is_commit, 12, 5000)
    (record,) = records(batch)
    assert record.key == bytes.fromhex("0000" + ("0001" if is_commit else "0000"))
    assert record.value == bytes.fromhex("0000" + "0000000c")


def _control(key: bytes | None, value: bytes | None) -> BatchView:
    return BatchView(build_batch([(1, key, value)], is_control=True, is_transactional=True, producer_id=1))


@pytest.mark.parametrize("number", [2, 6, 99, 32767, -5])
def test_other_types_are_passed_over(number: int) -> None:
    key = b"\x00\x00" + number.to_bytes(2, "big", signed=True)
    assert parse_marker(_control(key, b"")) is None
    assert control_type(Record(0, 0, key, None)) in ControlType


def test_an_emptied_control_batch_has_no_marker() -> None:
    assert parse_marker(BatchView(build_batch([], is_control=True, last_offset_delta=0))) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\x00\x00\x00\x00\x00\x00"),
        (b"\x00\x00\x00", b"\x00\x00\x00\x00\x00\x00"),
        (b"\xff\xff\x00\x00", b"\x00\x00\x00\x00\x00\x00"),
        (b"\x00\x00\x00\x00", None),
        (b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00"),
        (b"\x00\x00\x00\x01", b"\xff\xff\x00\x00\x00\x00"),
    ],
)
def test_a_damaged_marker_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptRecord):
        parse_marker(_control(key, value))
