"""What an append takes, what it refuses, and what it answers."""

from __future__ import annotations

import pytest

from odradek.foundation import errors, transaction_errors
from odradek.storage.append_rules import Origin
from odradek.storage.config import LogConfig
from odradek.wire.records.batch import BatchView, TimestampType, set_log_append_time
from odradek.wire.records.compression import Compression
from tests.support.disk import SimulatedDisk
from tests.support.logs import START_MS, StillClock, batch, open_log, stored_batches, stored_records


@pytest.mark.parametrize("make", [bytes, bytearray, lambda data: memoryview(bytes(data)), memoryview])
@pytest.mark.parametrize("size", [10, 20_000], ids=["small", "large"])
def test_offsets_and_epoch_are_set_and_the_rest_stays(make: object, size: int) -> None:
    log = open_log(SimulatedDisk())
    sent = batch(b"x" * size, b"second")
    original = bytes(sent)
    for expected in (0, 2, 4):
        result = log.append(make(bytearray(original)), leader_epoch=6)  # type: ignore[operator]
        assert (result.first_offset, result.last_offset) == (expected, expected + 1)
        assert (result.record_count, result.size_bytes) == (2, len(original))
        assert (result.is_duplicate, result.log_append_time_ms) == (False, -1)
    for number, view in enumerate(stored_batches(log)):
        assert (view.base_offset, view.leader_epoch) == (number * 2, 6)
        view.verify()
        stored = bytes(view.bytes_view)
        assert stored[8:12] == original[8:12] and stored[16:] == original[16:]


def test_damage_and_nonsense_are_refused_and_leave_no_trace() -> None:
    log = open_log(SimulatedDisk())
    damaged = batch(b"value")
    damaged[-1] ^= 1
    for bad, error in (
        (damaged, errors.CorruptRecord),
        (batch(b"value")[:-1], errors.CorruptRecord),
        (b"", errors.CorruptRecord),
        (batch(b"a") + bytes(20), errors.CorruptRecord),
        (batch(b"a", base_offset=5), errors.InvalidRecord),
        (batch(b"a", is_control=True), errors.InvalidRecord),
    ):
        with pytest.raises(error):
            log.append(bytes(bad), leader_epoch=0)
        assert (log.log_end_offset, log.size_bytes) == (0, 0)


def test_max_message_bytes_is_the_largest_batch_taken() -> None:
    exact = batch(b"x" * 500)
    log = open_log(SimulatedDisk(), config=LogConfig(max_message_bytes=len(exact)))
    log.append(bytes(exact), leader_epoch=0)
    with pytest.raises(errors.RecordTooLarge, match=r"max\.message\.bytes"):
        log.append(batch(b"x" * 501), leader_epoch=0)
    log.reconfigure(LogConfig(max_message_bytes=len(exact) + 1))
    assert log.append(batch(b"x" * 501), leader_epoch=0).first_offset == 1


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    log = open_log(SimulatedDisk(), config=LogConfig(segment_bytes=300))
    with pytest.raises(errors.RecordListTooLarge):
        log.append(batch(b"x" * 400), leader_epoch=0)
    assert log.append(batch(b"x"), leader_epoch=0).first_offset == 0


def test_timestamps_outside_the_bounds_are_refused() -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=50)
    log = open_log(SimulatedDisk(), config=config)
    log.append(batch(timestamp_ms=START_MS + 50), leader_epoch=0)
    log.append(batch(timestamp_ms=START_MS - 1000), leader_epoch=0)
    log.append(batch(timestamp_ms=-1), leader_epoch=0)
    for timestamp_ms in (START_MS + 51, START_MS - 1001):
        with pytest.raises(errors.InvalidTimestamp):
            log.append(batch(timestamp_ms=timestamp_ms), leader_epoch=0)
    assert log.log_end_offset == 3


def test_log_append_time_stamps_the_brokers_clock() -> None:
    clock = StillClock()
    log = open_log(SimulatedDisk(), clock=clock, config=LogConfig(message_timestamp_type="LogAppendTime"))
    clock.advance(77)
    result = log.append(bytes(batch(b"a", b"b", timestamp_ms=5)), leader_epoch=0)
    assert result.log_append_time_ms == START_MS + 77
    (view,) = stored_batches(log)
    view.verify()
    assert view.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp_ms for record in stored_records(log)] == [START_MS + 77] * 2


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_a_codec_of_the_topic_recompresses_what_differs(codec: str) -> None:
    log = open_log(SimulatedDisk(), config=LogConfig(compression_type=codec))
    for sent in Compression:
        log.append(batch(b"value" * 50, b"other", compression=sent), leader_epoch=0)
    for view in stored_batches(log):
        view.verify()
        assert view.compression.name.lower() == codec.replace("uncompressed", "none")
    assert [record.value for record in stored_records(log)] == [b"value" * 50, b"other"] * 5


def test_a_compacted_topic_refuses_a_record_without_a_key() -> None:
    log = open_log(SimulatedDisk(), config=LogConfig(cleanup_compact=True, cleanup_delete=False))
    with pytest.raises(errors.InvalidRecord, match="key"):
        log.append(batch(b"v", key=None), leader_epoch=0)
    log.append(batch(b"v", key=b""), leader_epoch=0)
    log.append(batch(b"v", key=None), leader_epoch=0, origin=Origin.COORDINATOR)


def test_a_duplicate_is_answered_with_its_old_offset() -> None:
    log = open_log(SimulatedDisk())
    for sequence in range(7):
        sent = batch(b"%d" % sequence, producer_id=9, producer_epoch=1, base_sequence=sequence)
        log.append(bytes(sent), leader_epoch=0)
    size = log.size_bytes
    for sequence in range(2, 7):
        again = log.append(
            batch(b"%d" % sequence, producer_id=9, producer_epoch=1, base_sequence=sequence), leader_epoch=0
        )
        assert (again.is_duplicate, again.first_offset, again.last_offset) == (True, sequence, sequence)
    with pytest.raises(transaction_errors.OutOfOrderSequence):
        log.append(batch(b"gap", producer_id=9, producer_epoch=1, base_sequence=8), leader_epoch=0)
    with pytest.raises(transaction_errors.InvalidProducerEpoch):
        log.append(batch(b"old", producer_id=9, producer_epoch=0, base_sequence=7), leader_epoch=0)
    assert (log.log_end_offset, log.size_bytes) == (7, size)


@pytest.mark.parametrize("clean", [True, False])
def test_duplicates_are_known_after_a_restart(clean: bool) -> None:
    disk = SimulatedDisk()
    config = LogConfig(segment_bytes=200)
    log = open_log(disk, config=config)
    for sequence in range(9):
        log.append(batch(producer_id=9, producer_epoch=1, base_sequence=sequence), leader_epoch=0)
    if clean:
        log.close()
    else:
        disk.kill()
    log = open_log(disk, config=config, clean=clean)
    again = log.append(batch(producer_id=9, producer_epoch=1, base_sequence=8), leader_epoch=0)
    assert (again.is_duplicate, again.first_offset) == (True, 8)
    assert (
        log.append(batch(producer_id=9, producer_epoch=1, base_sequence=9), leader_epoch=0).first_offset == 9
    )


def test_several_batches_are_appended_together_or_not_at_all() -> None:
    log = open_log(SimulatedDisk())
    result = log.append(batch(b"a", b"b") + batch(b"c"), leader_epoch=3, origin=Origin.COORDINATOR)
    assert (result.first_offset, result.last_offset, result.record_count) == (0, 2, 3)
    damaged = batch(b"d") + batch(b"e")
    damaged[-1] ^= 1
    with pytest.raises(errors.CorruptRecord):
        log.append(damaged, leader_epoch=3, origin=Origin.COORDINATOR)
    assert [record.value for record in stored_records(log)] == [b"a", b"b", b"c"]
    assert [view.leader_epoch for view in stored_batches(log)] == [3, 3]


def test_trailing_bytes_after_a_clients_batch_are_left_out() -> None:
    log = open_log(SimulatedDisk())
    with pytest.raises(errors.InvalidRecord, match="several batches"):
        log.append(batch(b"a") + batch(b"b"), leader_epoch=0)
    assert log.log_end_offset == 0
    sent = batch(b"a")
    log.append(sent + b"torn", leader_epoch=0)
    assert log.size_bytes == len(sent)
    assert [record.value for record in stored_records(log)] == [b"a"]


def test_the_mark_of_another_brokers_time_is_taken_away() -> None:
    sent = batch(b"a", b"b")
    set_log_append_time(sent, 0, timestamp_ms=BatchView(sent).max_timestamp_ms)
    log = open_log(SimulatedDisk())
    log.append(bytes(sent), leader_epoch=0)
    (stored,) = stored_batches(log)
    stored.verify()
    assert stored.header.timestamp_type is TimestampType.CREATE_TIME
    assert bytes(stored.payload) == bytes(BatchView(sent).payload)
    stamping = open_log(SimulatedDisk(), config=LogConfig(message_timestamp_type="LogAppendTime"))
    with pytest.raises(errors.InvalidTimestamp) as refused:
        stamping.append(bytes(sent), leader_epoch=0)
    assert [index for index, _ in refused.value.record_errors] == [0, 1]


def test_a_follower_keeps_offsets_and_epochs_and_leaves_a_torn_end_out() -> None:
    log = open_log(SimulatedDisk())
    first = batch(b"a", b"b", base_offset=10, leader_epoch=2)
    second = batch(b"c", base_offset=15, leader_epoch=4)
    result = log.append_as_follower(bytes(first + second + batch(b"torn", base_offset=16)[:-1]))
    assert (result.first_offset, result.last_offset) == (10, 15)
    assert log.log_end_offset == 16
    assert [tuple(entry) for entry in log.epochs.entries] == [(2, 10), (4, 15)]
    assert log.end_offset_for_epoch(2) == (2, 15)
    with pytest.raises(errors.InvalidRecord):
        log.append_as_follower(bytes(batch(b"again", base_offset=15, leader_epoch=4)))
    assert [record.offset for record in stored_records(log, from_offset=10)] == [10, 11, 15]


def test_flush_messages_decides_which_append_is_flushed() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, config=LogConfig(flush_messages=3))
    for expected in (0, 0, 3, 3, 3, 6):
        log.append(batch(), leader_epoch=0)
        assert log.must_flush == (expected == log.log_end_offset)
        if log.must_flush:
            log.flush()
        assert log.recovery_point == expected
    disk.crash()
    assert open_log(disk, recovery_point=6).log_end_offset == 6
