"""Message sets of magic 0 and 1 in a compacted topic, as old directories of Kafka have them."""

from __future__ import annotations

import struct

import pytest

from odradek.storage.log import Log
from odradek.wire.records.batch import LOG_OVERHEAD_BYTES, BatchView
from odradek.wire.records.compression import Compression
from odradek.wire.records.legacy import magic_at, messages
from odradek.wire.records.record import Record, records
from tests.support.compaction import CONFIG, MakeMap, compact, plain
from tests.support.compaction_model import by_vectors
from tests.support.disk import SimulatedDisk
from tests.support.logs import DIRECTORY, StillClock, batch, open_log
from tests.wire.records.foreign import KafkaPythonLegacyBuilder

KEYS = 5
MAPS: dict[str, MakeMap] = {"plain": plain, "vectors": by_vectors(64)}
WRITTEN = [
    *((0, codec) for codec in (Compression.NONE, Compression.GZIP, Compression.SNAPPY)),
    *((1, codec) for codec in (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)),
]


def message_set(magic: int, codec: Compression, base_offset: int, value: bytes | None) -> bytes:
    """Each key once, as a broker stores it; the first key only in the first set."""
    builder = KafkaPythonLegacyBuilder(magic=magic, compression_type=int(codec), batch_size=1 << 20)
    count = KEYS
    for number in range(count):
        key = b"key %d" % number
        offset = number if codec != Compression.NONE and magic == 1 else base_offset + number
        assert builder.append(offset, timestamp=1000 + number if magic else None, key=key, value=value)
    data = bytearray(builder.build())
    if codec != Compression.NONE:
        struct.pack_into(">q", data, 0, base_offset + count - 1)
    return bytes(data)


def log_of(disk: SimulatedDisk, sets: list[bytes]) -> Log:
    """A directory that an old Kafka has left, with a segment of today's batches behind it."""
    disk.make_directory(DIRECTORY)
    file = disk.open(f"{DIRECTORY}/{0:020d}.log", create=True)
    for one in sets:
        file.append(one)
    file.sync()
    log = open_log(disk, config=CONFIG)
    log.roll()
    log.append(batch(b"newest", key=b"key 4"), leader_epoch=0)
    log.roll()
    return log


def held(log: Log) -> list[Record]:
    """Every record, in whatever format."""
    found: list[Record] = []
    for segment in log.segments.all:
        data = memoryview(segment.file.pread(0, segment.size_bytes))
        position = 0
        while position < len(data):
            size = int.from_bytes(data[position + 8 : position + 12], "big") + LOG_OVERHEAD_BYTES
            one = data[position : position + size]
            found += messages(one) if magic_at(one) < 2 else records(BatchView(one))
            position += size
    return found


@pytest.mark.parametrize("make_map", MAPS.values(), ids=MAPS.keys())
@pytest.mark.parametrize(("magic", "codec"), WRITTEN)
def test_of_old_messages_the_newest_of_each_key_stays(
    magic: int, codec: Compression, make_map: MakeMap
) -> None:
    disk = SimulatedDisk()
    sets = [message_set(magic, codec, KEYS * number, b"value %d" % number) for number in range(3)]
    log = log_of(disk, sets)
    whole = {record.offset: record for record in held(log)}
    assert len(whole) == 3 * KEYS + 1
    compact(log, clock=StillClock(), disk=disk, make_map=make_map)
    left = held(log)
    # All of the last set but the key that has a newer record in today's format.
    assert [record.offset for record in left] == [10, 11, 12, 13, 15]
    assert left == [whole[record.offset] for record in left]
    assert log.log_end_offset == 16


@pytest.mark.parametrize("magic", [0, 1])
def test_what_stays_whole_stays_in_its_format(magic: int) -> None:
    disk = SimulatedDisk()
    kept = message_set(magic, Compression.GZIP, 0, b"kept")
    log = log_of(disk, [kept])
    # Its last key has a newer record, so the set becomes a batch; without that it stays byte for byte.
    compact(log, clock=StillClock(), disk=disk)
    first = held(log)[0]
    assert (first.key, first.value, first.timestamp_ms) == (b"key 0", b"kept", 1000 if magic else -1)
    other = SimulatedDisk()
    other.make_directory(DIRECTORY)
    file = other.open(f"{DIRECTORY}/{0:020d}.log", create=True)
    file.append(kept)
    file.sync()
    log = open_log(other, config=CONFIG)
    log.roll()
    compact(log, clock=StillClock(), disk=other)
    assert other.read(f"{DIRECTORY}/{0:020d}.log") == kept
