"""A batch of the source as a batch of the target, checked by the readers of `records`; planted bugs are found."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Sequence

import pytest

from odradek.foundation.errors import CorruptRecord
from odradek.mirror import batch_passing
from odradek.mirror.batch_passing import (
    OpenReason,
    ProducerStamp,
    ReadyBatch,
    TargetRules,
    patch_crc,
    ready_batches,
    stamp_batch,
)
from odradek.wire.records.batch import (
    DELETE_HORIZON_FLAG,
    BatchView,
    TimestampType,
    read_header,
    update_crc,
    validate_header,
    write_header,
)
from odradek.wire.records.builder import build_batch, frame
from odradek.wire.records.checksum import crc32c
from odradek.wire.records.compression import Compression
from odradek.wire.records.record import Record, records

ANY = TargetRules(batch_bytes_max=1 << 20)
STAMP = ProducerStamp(producer_id=4711, producer_epoch=3, base_sequence=2**31 - 2, is_transactional=True)
ROWS = [(1_000 + n, b"k%d" % n, b"value %d" % n, (("h", b"%d" % n),)) for n in range(20)]


def batch(rows: Sequence[tuple[object, ...]] = ROWS, **fields: object) -> memoryview:
    return memoryview(build_batch(rows, base_offset=100, leader_epoch=7, **fields))


def content(found: Sequence[Record]) -> list[tuple[object, ...]]:
    return [record[1:] for record in found]


def passed(ready: Sequence[ReadyBatch], stamp: ProducerStamp = STAMP) -> list[Record]:
    """What the target's readers see, after all checks that it makes."""
    seen: list[Record] = []
    for one in ready:
        data = stamp_batch(one.data, stamp)
        view = BatchView(data)
        view.verify()
        validate_header(view.header)
        header = view.header
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == stamp[:3]
        assert header.is_transactional == stamp.is_transactional
        assert (header.base_offset, header.leader_epoch) == (0, -1)
        assert header.record_count == one.record_count
        seen += records(view)
    return seen


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("is_transactional", [True, False])
def test_a_batch_passes_with_its_records_untouched(compression: Compression, is_transactional: bool) -> None:
    data = batch(compression=compression, producer_id=9, producer_epoch=1, base_sequence=5)
    [ready] = ready_batches(data, position=100, rules=ANY)
    assert ready.opened_because is None
    assert (ready.source_first_offset, ready.source_end_offset, ready.record_count) == (100, 120, 20)
    assert ready.is_contiguous
    seen = passed([ready], STAMP._replace(is_transactional=is_transactional))
    assert content(seen) == content(list(records(BatchView(data))))
    assert stamp_batch(data, STAMP)[61:] == data[61:]


def test_the_patched_crc_is_that_of_the_new_bytes() -> None:
    chance = random.Random(5)
    for _ in range(200):
        whole = bytearray(chance.randbytes(chance.choice([40, 61, 4_000, 70_000, 200_000])))
        start = chance.randrange(0, len(whole) - 20)
        new = chance.randbytes(20)
        old, crc = bytes(whole[start : start + 20]), crc32c(whole)
        whole[start : start + 20] = new
        assert patch_crc(crc, old=old, new=new, bytes_after=len(whole) - start - 20) == crc32c(whole)


def test_damage_is_not_blessed() -> None:
    data = bytearray(batch())
    data[80] ^= 1
    [ready] = ready_batches(memoryview(data), position=100, rules=ANY)
    with pytest.raises(CorruptRecord, match="checksum"):
        BatchView(stamp_batch(ready.data, STAMP)).verify()


def test_damage_in_an_opened_batch_is_found() -> None:
    data = bytearray(batch())
    data[80] ^= 1
    with pytest.raises(CorruptRecord, match="checksum"):
        ready_batches(memoryview(data), position=110, rules=ANY)


def with_gaps() -> memoryview:
    """As compaction leaves a batch: some records are gone, also the last."""
    kept = [_encoded(n) for n in (0, 3, 4, 17)]
    return memoryview(frame(BatchView(batch()).header._replace(record_count=len(kept)), b"".join(kept)))


def _encoded(delta: int) -> bytes:
    from odradek.wire.records.builder import encode_record

    _, key, value, headers = ROWS[delta]
    return encode_record(timestamp_delta_ms=delta, offset_delta=delta, key=key, value=value, headers=headers)


def with_delete_horizon() -> memoryview:
    data = bytearray(batch([(1_000, b"k", b"v", ())]))
    write_header(data, 0, read_header(data)._replace(attributes=DELETE_HORIZON_FLAG))
    update_crc(data)
    return memoryview(data)


def old_message() -> memoryview:
    body = struct.pack(">bbq", 1, 0, 77) + struct.pack(">i", 1) + b"k" + struct.pack(">i", 1) + b"v"
    return memoryview(struct.pack(">qiI", 100, len(body) + 4, zlib.crc32(body)) + body)


@pytest.mark.parametrize(
    ("data", "position", "rules", "reason", "offsets"),
    [
        (with_gaps(), 100, ANY, OpenReason.GAPS, [100, 103, 104, 117]),
        (with_delete_horizon(), 100, ANY, OpenReason.DELETE_HORIZON, [100]),
        (
            batch(timestamp_type=TimestampType.LOG_APPEND_TIME),
            100,
            ANY,
            OpenReason.LOG_APPEND_TIME,
            list(range(100, 120)),
        ),
        (old_message(), 100, ANY, OpenReason.OLD_FORMAT, [100]),
        (batch(), 105, ANY, OpenReason.START_INSIDE, list(range(105, 120))),
        (batch(), 100, TargetRules(300), OpenReason.TOO_LARGE, list(range(100, 120))),
        (batch(), 100, TargetRules(1 << 20, Compression.ZSTD), OpenReason.COMPRESSION, list(range(100, 120))),
    ],
    ids=lambda value: value.value if isinstance(value, OpenReason) else "",
)
def test_a_batch_that_the_target_cannot_take_is_opened(
    data: memoryview, position: int, rules: TargetRules, reason: OpenReason, offsets: list[int]
) -> None:
    ready = ready_batches(data, position=position, rules=rules)
    assert {one.opened_because for one in ready} == {reason}
    seen = passed(ready)
    if reason is not OpenReason.OLD_FORMAT:
        wanted = [record for record in records(BatchView(data)) if record.offset >= position]
        assert content(seen) == content(wanted)
        assert [record.offset for record in wanted] == offsets
    else:
        assert content(seen) == [(77, b"k", b"v", ())]
    # The parts follow one another, and the last one ends where the source's batch ends.
    assert [one.source_first_offset for one in ready[1:]] == [one.source_end_offset for one in ready[:-1]]
    assert ready[0].source_first_offset == offsets[0]
    assert ready[-1].source_end_offset == (101 if len(offsets) == 1 else 120)
    assert sum(one.record_count for one in ready) == len(offsets)
    assert all(len(one.data) <= rules.batch_bytes_max for one in ready)
    if reason is OpenReason.COMPRESSION:
        assert read_header(ready[0].data).compression is Compression.ZSTD


def test_what_readers_see_as_time_is_kept_of_log_append_time() -> None:
    data = batch(timestamp_type=TimestampType.LOG_APPEND_TIME)
    seen = passed(ready_batches(data, position=100, rules=ANY))
    assert {record.timestamp_ms for record in seen} == {1_019}


def test_a_single_record_that_is_too_large_stays_one_batch() -> None:
    [ready] = ready_batches(batch([(1, b"k", bytes(500), ())]), position=100, rules=TargetRules(100))
    assert ready.opened_because is OpenReason.TOO_LARGE and ready.record_count == 1


def test_a_batch_below_the_position_and_one_without_records_give_nothing() -> None:
    assert ready_batches(batch(), position=120, rules=ANY) == []
    empty = bytearray(batch())
    write_header(empty, 0, read_header(empty)._replace(record_count=0, batch_length=49))
    assert ready_batches(memoryview(empty)[:61], position=100, rules=ANY) == []


def _computed_anew(crc: int, *, old: bytes, new: bytes, bytes_after: int) -> int:
    return crc


BUGS: dict[str, Callable[[pytest.MonkeyPatch], object]] = {
    "the crc stays as it was": lambda patch: patch.setattr(batch_passing, "patch_crc", _computed_anew),
    "the shift is forgotten": lambda patch: patch.setattr(
        batch_passing, "_shift_crc", lambda state, _: state
    ),
    "gaps pass": lambda patch: patch.setattr(
        batch_passing, "reason_to_open", lambda header, *, position, rules: None
    ),
    "the transactional bit is lost": lambda patch: patch.setattr(batch_passing, "TRANSACTIONAL_FLAG", 0),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[bug](monkeypatch)
    with pytest.raises((AssertionError, CorruptRecord, Exception)) as found:
        for data in (batch(), with_gaps()):
            ready = ready_batches(data, position=100, rules=ANY)
            assert content(passed(ready)) == content(list(records(BatchView(data))))
    assert not isinstance(found.value, TypeError | AttributeError | NameError)
