"""Snapshot files: Kafka's bytes, damage, and reloading after a restart or a truncation."""

from __future__ import annotations

import logging
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.foundation.ids import TopicPartition
from odradek.storage.files import SystemDisk
from odradek.storage.producer_rules import ProducerRules
from odradek.storage.producer_snapshots import (
    SnapshotDamagedError,
    SnapshotEntry,
    SnapshotFiles,
    decode_snapshot,
    encode_snapshot,
    snapshot_name,
    snapshot_offset,
)
from odradek.storage.producers import ProducerStates
from odradek.wire.records.batch import BatchView
from odradek.wire.records.builder import build_batch
from odradek.wire.records.control import build_marker
from tests.wire.records.strategies import INT16, INT32, INT64

ENTRIES = [
    SnapshotEntry(4000, 2, 17, 99, 3, 1_700_000_000_000, -1, -1),
    SnapshotEntry(4001, 0, -1, -1, 0, 1_700_000_000_001, 5, 42),
]
# Kafka's layout by hand; the checksum is of the bytes from the count on.
GOLDEN_BODY = (
    "00000002"
    "0000000000000fa0" "0002" "00000011" "0000000000000063" "00000003"
    "0000018bcfe56800" "ffffffff" "ffffffffffffffff"
    "0000000000000fa1" "0000" "ffffffff" "ffffffffffffffff" "00000000"
    "0000018bcfe56801" "00000005" "000000000000002a"
)  # fmt: skip


def test_bytes_are_kafkas() -> None:
    data = encode_snapshot(ENTRIES)
    assert data[:2] == b"\x00\x01"
    assert data[6:].hex() == GOLDEN_BODY
    assert decode_snapshot(data, name="x") == ENTRIES


@pytest.mark.thorough
@given(
    st.lists(st.builds(SnapshotEntry, INT64, INT16, INT32, INT64, INT32, INT64, INT32, INT64), max_size=20)
)
def test_entries_are_read_back(entries: list[SnapshotEntry]) -> None:
    assert decode_snapshot(encode_snapshot(entries), name="x") == entries


def test_every_flipped_bit_and_truncation_is_found() -> None:
    data = encode_snapshot(ENTRIES)
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SnapshotDamagedError):
            decode_snapshot(bytes(damaged), name="x")
    for size in range(len(data)):
        with pytest.raises(SnapshotDamagedError):
            decode_snapshot(data[:size], name="x")


@given(st.binary(max_size=100))
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(SnapshotDamagedError):
        decode_snapshot(data, name="x")


def test_names() -> None:
    assert snapshot_name(42) == "00000000000000000042.snapshot"
    assert snapshot_offset("00000000000000000042.snapshot") == 42
    for other in (
        "00000000000000000042.log",
        "x.snapshot",
        ".snapshot",
        "00000000000000000042",
        "-1.snapshot",
    ):
        assert snapshot_offset(other) is None


def _states(directory: Path, **settings: Any) -> ProducerStates:
    files = SnapshotFiles(disk=SystemDisk(), directory=str(directory))
    return ProducerStates(TopicPartition("topic", 0), files=files, **settings)


def _batch(offset: int, *, sequence: int, producer_id: int = 1, transactional: bool = False) -> BatchView:
    return BatchView(
        build_batch(
            [(1000, None, b"v")] * 2,
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=transactional,
        )
    )


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_state_survives_a_restart(tmp_path: Path) -> None:
    before = _states(tmp_path)
    before.replay(_batch(0, sequence=0), now_ms=1000)
    before.replay(_batch(2, sequence=2), now_ms=1000)
    before.replay(_batch(4, sequence=0, producer_id=2, transactional=True), now_ms=1000)
    before.take_snapshot(6)
    after = _states(tmp_path)
    assert after.reload(log_start_offset=0, log_end_offset=8, now_ms=2000) == 6
    assert after.entries() == before.entries()
    assert after.transactions.first_undecided_offset == 4
    known = after.check(_batch(0, sequence=2).header)
    assert known is not None
    assert (known.first_offset, known.last_offset) == (2, 3)
    assert after.check(_batch(0, sequence=4).header) is None
    after.replay(_batch(6, sequence=4), now_ms=2000)
    end = build_marker(
        producer_id=2, producer_epoch=0, is_commit=True, coordinator_epoch=0, timestamp_ms=1000, base_offset=8
    )
    completed = after.replay(BatchView(end), now_ms=2000)
    assert completed is not None
    assert completed.first_offset == 4
    assert after.transactions.first_undecided_offset is None


def test_one_snapshot_per_offset_is_written(tmp_path: Path) -> None:
    states = _states(tmp_path)
    states.take_snapshot(5)
    (tmp_path / snapshot_name(5)).unlink()
    states.take_snapshot(5)
    states.take_snapshot(4)
    assert _names(tmp_path) == []
    states.take_snapshot(6)
    assert _names(tmp_path) == [snapshot_name(6)]


def test_truncation_drops_what_lies_beyond_and_loads_the_newest_before(tmp_path: Path) -> None:
    states = _states(tmp_path)
    for index in range(4):
        states.take_snapshot(2 * index)
        states.replay(_batch(2 * index, sequence=2 * index), now_ms=1000)
    assert states.reload(log_start_offset=0, log_end_offset=5, now_ms=1000) == 4
    assert _names(tmp_path) == [snapshot_name(2), snapshot_name(4)]
    assert states.entries()[0].last_sequence == 3
    states.replay(_batch(4, sequence=4), now_ms=1000)
    states.take_snapshot(6)
    assert _names(tmp_path) == [snapshot_name(2), snapshot_name(4), snapshot_name(6)]


def test_snapshots_at_or_below_the_log_start_are_removed(tmp_path: Path) -> None:
    states = _states(tmp_path)
    states.replay(_batch(0, sequence=0), now_ms=1000)
    for offset in (2, 4, 6):
        states.take_snapshot(offset)
    assert states.reload(log_start_offset=4, log_end_offset=5, now_ms=1000) == 4
    assert _names(tmp_path) == []
    assert len(states) == 0


def test_a_damaged_snapshot_gives_way_to_the_one_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    states = _states(tmp_path)
    states.replay(_batch(0, sequence=0), now_ms=1000)
    states.take_snapshot(2)
    states.take_snapshot(4)
    path = tmp_path / snapshot_name(4)
    path.write_bytes(path.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING):
        assert states.reload(log_start_offset=0, log_end_offset=10, now_ms=1000) == 2
    assert "removed" in caplog.text
    assert _names(tmp_path) == [snapshot_name(2)]
    assert len(states) == 1


def test_expired_producers_are_not_loaded_unless_their_transaction_is_open(tmp_path: Path) -> None:
    states = _states(tmp_path, rules=ProducerRules(expiration_ms=5000))
    states.replay(_batch(0, sequence=0, producer_id=1), now_ms=1000)
    states.replay(_batch(2, sequence=0, producer_id=2, transactional=True), now_ms=1000)
    states.take_snapshot(4)
    states.reload(log_start_offset=0, log_end_offset=4, now_ms=6000)
    assert [entry.producer_id for entry in states.entries()] == [2]


def test_the_checksum_is_crc32c_of_the_body() -> None:
    from aiokafka.record.util import calc_crc32c

    data = encode_snapshot(ENTRIES)
    assert struct.unpack_from(">I", data, 2)[0] == calc_crc32c(data[6:])
