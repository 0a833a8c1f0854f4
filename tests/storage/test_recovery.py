"""Torn and damaged logs: what is sound stays, what is not goes, and nothing unsound is ever kept."""

from __future__ import annotations

import random

import pytest

from odradek.storage.config import LogConfig
from odradek.storage.epochs import EpochEntry
from odradek.storage.headers import headers
from odradek.storage.scan import ScanRules, scan
from odradek.wire.records.batch import BatchView
from tests.support.disk import SimulatedDisk
from tests.support.logs import DIRECTORY, StillClock, batch, open_log, stored_batches, stored_records

EPOCHS = (EpochEntry(3, 0),)
LOG_FILE = f"{DIRECTORY}/00000000000000000000.log"


def _disk_with(*, segment: bytes, base_offset: int = 0) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.put(f"{DIRECTORY}/{base_offset:020d}.log", segment)
    return disk


def _written(
    count: int, *, size: int = 100, config: LogConfig | None = None
) -> tuple[SimulatedDisk, list[int]]:
    """A log of `count` batches of two records, not closed, and where each batch begins and the last ends."""
    disk = SimulatedDisk()
    log = open_log(disk, config=config)
    for number in range(count):
        log.append(batch(b"%d-" % number + b"a" * size, b"second"), leader_epoch=0)
    segment = log.segments.first
    positions = [position for position, _ in headers(segment.file, 0, segment.size_bytes)]
    return disk, [*positions, segment.size_bytes]


def test_every_length_of_the_last_two_batches() -> None:
    disk, positions = _written(5)
    whole = disk.read(LOG_FILE)
    for size in range(positions[3], positions[5] + 1):
        log = open_log(_disk_with(segment=whole[:size]))
        kept = sum(1 for end in positions[1:] if end <= size)
        assert log.log_end_offset == kept * 2, f"truncated to {size} bytes"
        assert log.size_bytes == positions[kept]
        assert log.truncated_bytes == size - positions[kept]
        result = log.append(batch(b"after"), leader_epoch=0)
        assert result.first_offset == kept * 2
        assert len(stored_batches(log)) == kept + 1


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0" * 10_000,
        b"\0" * 61,
        b"\xff" * 333,
        random.Random(5).randbytes(4096),
        random.Random(6).randbytes(27),
        bytes(batch(b"of another place", base_offset=3)),
        bytes(batch(b"cut", base_offset=10))[:-1],
        bytes(batch(b"wrong magic", base_offset=10))[:16] + b"\x03" + bytes(60),
    ],
    ids=["zeros", "few zeros", "ones", "random", "few random", "an older offset", "torn", "magic 3"],
)
def test_garbage_behind_the_last_batch(garbage: bytes) -> None:
    disk, positions = _written(5)
    log = open_log(_disk_with(segment=disk.read(LOG_FILE) + garbage))
    assert log.log_end_offset == 10
    assert log.size_bytes == positions[-1]
    assert log.truncated_bytes == len(garbage)


@pytest.mark.thorough
def test_each_bit_of_a_64_kb_segment() -> None:
    """A flip is found, and only the damaged batch and what follows goes.

    The body of a batch is covered by its checksum: there the batch alone is scanned, in a file of its own.
    """
    disk = SimulatedDisk()
    log = open_log(disk)
    sizes = random.Random(7)
    while log.size_bytes < 64 * 1024:
        log.append(batch(sizes.randbytes(sizes.randint(20, 1800))), leader_epoch=3)
    whole = bytearray(disk.read(LOG_FILE))
    segment = log.segments.first
    found = list(headers(segment.file, 0, segment.size_bytes))
    rules = ScanRules(base_offset=0, index_interval_bytes=4096, epochs=EPOCHS)
    assert scan(segment.file, len(whole), rules).valid_bytes == len(whole)
    checked = 0
    for number, (position, header) in enumerate(found):
        alone = bytearray(whole[position : position + header.size_bytes])
        path = f"alone/{number}"
        disk.put(path, bytes(alone))
        one = ScanRules(base_offset=header.base_offset, index_interval_bytes=4096, epochs=EPOCHS)
        file = disk.open(path)
        data = disk._files[path].data
        for bit in range(16 * 8, header.size_bytes * 8):
            data[bit // 8] ^= 1 << (bit % 8)
            result = scan(file, len(data), one)
            assert result.problem is not None and result.valid_bytes == 0, f"bit {bit} of batch {number}"
            data[bit // 8] ^= 1 << (bit % 8)
            checked += 1
    whole_data = disk._files[LOG_FILE].data
    for number, (position, _) in enumerate(found):
        for bit in range(position * 8, (position + 16) * 8):
            whole_data[bit // 8] ^= 1 << (bit % 8)
            result = scan(segment.file, len(whole), rules)
            assert result.problem is not None, f"bit {bit - position * 8} of batch {number} is not found"
            assert result.valid_bytes == position, f"bit {bit - position * 8} of batch {number}"
            whole_data[bit // 8] ^= 1 << (bit % 8)
            checked += 1
    assert checked == len(whole) * 8


def test_segments_after_a_damaged_one_are_removed(caplog: pytest.LogCaptureFixture) -> None:
    config = LogConfig(segment_bytes=400, index_interval_bytes=100)
    disk = SimulatedDisk()
    log = open_log(disk, config=config)
    for number in range(12):
        log.append(batch(b"%03d" % number + b"x" * 60), leader_epoch=0)
    bases = [segment.base_offset for segment in log.segments.all]
    assert len(bases) >= 4
    disk.kill()
    disk.flip_bit(f"{DIRECTORY}/{bases[1]:020d}.log", 8 * 200)
    lost = sum(segment.size_bytes for segment in log.segments.all[2:])

    log = open_log(disk, config=config)

    assert [segment.base_offset for segment in log.segments.all] == bases[:2]
    assert log.log_end_offset == bases[1] + 1
    assert log.truncated_bytes > lost
    assert [record.offset for record in stored_records(log)] == list(range(bases[1] + 1))
    assert f"({log.truncated_bytes} bytes in all)" in caplog.text
    names = {entry.name for entry in disk.entries(DIRECTORY)}
    assert not [name for base in bases[2:] for name in names if name.startswith(f"{base:020d}.log")]


def test_what_lies_below_the_recovery_point_is_not_read() -> None:
    config = LogConfig(segment_bytes=400)
    disk = SimulatedDisk()
    log = open_log(disk, config=config)
    for number in range(12):
        log.append(batch(b"%03d" % number + b"x" * 60), leader_epoch=0)
    log.flush()
    base, size = log.segments.active.base_offset, log.segments.active.size_bytes
    disk.kill()
    disk.flip_bit(LOG_FILE, 8 * 200)
    log = open_log(disk, config=config, recovery_point=log.recovery_point)
    assert log.log_end_offset == 12
    assert log.recovered_bytes == size, "only the segment of the recovery point is read"
    assert log.segments.active.base_offset == base


def test_a_clean_start_scans_nothing_and_continues() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, config=LogConfig(segment_bytes=2000, index_interval_bytes=200))
    for number in range(50):
        log.append(batch(b"%d" % number), leader_epoch=2)
    log.close()
    log = open_log(disk, clean=True)
    assert (log.log_end_offset, log.recovery_point, log.recovered_bytes) == (50, 50, 0)
    assert log.epochs.latest_epoch == 2
    assert log.append(batch(b"next"), leader_epoch=2).first_offset == 50


def test_a_torn_tail_is_found_even_after_a_stop_that_claims_to_be_clean() -> None:
    disk, positions = _written(5)
    whole = disk.read(LOG_FILE)
    log = open_log(_disk_with(segment=whole[:-3]), clean=True)
    assert log.log_end_offset == 8
    assert log.size_bytes == positions[4]


def test_compacted_logs_may_have_gaps_and_others_may_not_end_with_one() -> None:
    segment = bytes(batch(b"one", base_offset=4) + batch(b"two", base_offset=9))
    compacted = open_log(_disk_with(segment=segment), config=LogConfig(cleanup_compact=True))
    assert compacted.log_end_offset == 10
    assert compacted.truncated_bytes == 0
    plain = open_log(_disk_with(segment=segment), config=LogConfig(cleanup_compact=False))
    assert plain.log_end_offset == 5


@pytest.mark.parametrize("bit", [7, 23])
def test_a_last_batch_at_a_raised_offset_is_fetched_again(bit: int) -> None:
    """Nothing in a compacted log contradicts it. A follower truncates its log to where the leader's epoch ends."""
    config = LogConfig(cleanup_compact=True)
    disk, positions = _written(5, config=config)
    disk.kill()
    # The first eight bytes of a batch are its base offset, which no checksum covers.
    disk.flip_bit(LOG_FILE, positions[4] * 8 + (7 - bit // 8) * 8 + bit % 8)
    log = open_log(disk, config=config)
    assert log.log_end_offset > 1 << bit
    log.truncate_to(20)
    assert log.log_end_offset == 8


def test_an_epoch_that_falls_is_damage_to_the_one_that_rose() -> None:
    sound = b"".join(batch(b"v", base_offset=offset, leader_epoch=4) for offset in range(3))
    raised = bytes(batch(b"v", base_offset=3, leader_epoch=4 | 1 << 20))
    after = bytes(batch(b"v", base_offset=4, leader_epoch=4))
    log = open_log(_disk_with(segment=bytes(sound) + raised + after))
    assert log.log_end_offset == 3
    assert [entry.epoch for entry in log.epochs.entries] == [4]


def test_recovery_learns_epochs_and_producers() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    first = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    log.append(bytes(first), leader_epoch=1)
    log.append(batch(b"b", producer_id=7, producer_epoch=0, base_sequence=1), leader_epoch=5)
    disk.kill()
    disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    log = open_log(disk)
    assert [tuple(entry) for entry in log.epochs.entries] == [(1, 0), (5, 1)]
    again = log.append(batch(b"b", producer_id=7, producer_epoch=0, base_sequence=1), leader_epoch=5)
    assert again.is_duplicate and again.first_offset == 1
    assert log.log_end_offset == 2


def test_old_formats_are_recovered_and_read() -> None:
    import struct
    import zlib

    def message(offset: int, magic: int, value: bytes) -> bytes:
        body = struct.pack(">bb", magic, 0)
        if magic:
            body += struct.pack(">q", 1000 + offset)
        body += struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
        return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body

    old = message(0, 0, b"") + message(1, 1, b"one") + message(2, 1, b"two")
    new = bytes(batch(b"three", base_offset=3, leader_epoch=0))
    log = open_log(_disk_with(segment=old + new))
    assert log.log_end_offset == 4
    assert log.read(1, bytes_max=1 << 20).read() == (old + new)[len(message(0, 0, b"")) :]
    found = log.offset_for_timestamp(1002)
    assert found is not None and found.offset == 2
    only_old = open_log(_disk_with(segment=old + message(3, 0, b"")))
    assert only_old.log_end_offset == 4
    damaged = bytearray(old)
    damaged[-1] ^= 1
    assert open_log(_disk_with(segment=bytes(damaged))).log_end_offset == 2


def test_batches_larger_than_the_chunk_of_a_scan() -> None:
    large = batch(random.Random(1).randbytes(9_000_000))
    disk = SimulatedDisk()
    log = open_log(disk, config=LogConfig(max_message_bytes=1 << 24))
    log.append(batch(b"small"), leader_epoch=0)
    log.append(large, leader_epoch=0)
    log.append(batch(b"small"), leader_epoch=0)
    disk.kill()
    log = open_log(disk, clock=StillClock())
    assert log.log_end_offset == 3
    assert BatchView(memoryview(log.read(1, bytes_max=1).read())).size_bytes == len(large)
