"""The sparse indexes: they answer as a sorted list does, and are rebuilt when absent or wrong."""

from __future__ import annotations

import random
import struct
from bisect import bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.foundation.limits import INDEX_ENTRIES_UNWRITTEN_MAX
from odradek.storage.config import LogConfig
from odradek.storage.headers import headers
from odradek.storage.index import OffsetIndex, TimeIndex
from tests.support.disk import SimulatedDisk
from tests.support.examples import examples
from tests.support.logs import DIRECTORY, START_MS, batch, open_log, stored_records

BASE = 5_000_000_000


@settings(max_examples=examples(150), deadline=None)
@given(
    steps=st.lists(st.integers(1, 50), max_size=400),
    writes=st.sets(st.integers(0, 400)),
    cut=st.integers(0, 20_000),
    asked=st.lists(st.integers(0, 20_100), min_size=1, max_size=30),
)
def test_offset_index_against_a_list(steps: list[int], writes: set[int], cut: int, asked: list[int]) -> None:
    disk = SimulatedDisk()
    disk.make_directory("d")
    index = OffsetIndex("d/0.index", disk=disk, base_offset=BASE)
    model: list[tuple[int, int]] = []
    relative = position = 0
    for number, step in enumerate(steps):
        relative += step
        position += step * 70
        index.append(relative, position)
        model.append((BASE + relative, position))
        if number in writes or len(index.unwritten) >= INDEX_ENTRIES_UNWRITTEN_MAX:
            index.write()
    for again in range(2):
        assert len(index) == len(model)
        assert index.last() == ((model[-1][0] - BASE, model[-1][1]) if model else None)
        for offset in asked:
            place = bisect_right(model, (BASE + offset, 1 << 62))
            assert index.position_before(BASE + offset) == (model[place - 1] if place else (-1, 0))
        if again:
            break
        index.truncate(cut)
        model = [entry for entry in model if entry[0] - BASE < cut]
        index.write()
        assert disk.read("d/0.index") == b"".join(
            struct.pack(">ii", offset - BASE, position) for offset, position in model
        )
        index = OffsetIndex("d/0.index", disk=disk, base_offset=BASE, size_bytes=len(disk.read("d/0.index")))


@settings(max_examples=examples(100), deadline=None)
@given(
    entries=st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 90)), max_size=300),
    cut=st.integers(0, 9000),
    asked=st.lists(st.integers(-10, 60_000), min_size=1, max_size=20),
)
def test_time_index_against_a_list(entries: list[tuple[int, int]], cut: int, asked: list[int]) -> None:
    disk = SimulatedDisk()
    disk.make_directory("d")
    index = TimeIndex("d/0.timeindex", disk=disk, base_offset=BASE)
    model: list[tuple[int, int]] = []
    timestamp_ms = offset = 0
    for later_ms, further in entries:
        timestamp_ms += later_ms
        offset += further
        index.append(timestamp_ms, offset)
        model.append((timestamp_ms, BASE + offset))
        if len(index.unwritten) >= INDEX_ENTRIES_UNWRITTEN_MAX:
            index.write()
    index.truncate_offsets(BASE + cut)
    model = [entry for entry in model if entry[1] < BASE + cut]
    for wanted_ms in asked:
        place = bisect_right(model, (wanted_ms, 1 << 62))
        assert index.entry_before(wanted_ms) == (model[place - 1] if place else None)
    index.write()
    assert disk.read("d/0.timeindex") == b"".join(
        struct.pack(">qi", at, offset - BASE) for at, offset in model
    )


def test_entries_in_memory_are_bounded() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, config=LogConfig(index_interval_bytes=0))
    for _ in range(INDEX_ENTRIES_UNWRITTEN_MAX * 2 + 10):
        log.append(batch(), leader_epoch=0)
    assert len(disk.read(f"{DIRECTORY}/00000000000000000000.index")) == INDEX_ENTRIES_UNWRITTEN_MAX * 2 * 8


CONFIG = LogConfig(segment_bytes=4000, index_interval_bytes=100)


def _closed() -> SimulatedDisk:
    disk = SimulatedDisk()
    log = open_log(disk, config=CONFIG)
    for number in range(150):
        log.append(batch(b"%d" % number, timestamp_ms=START_MS + number), leader_epoch=0)
    log.close()
    return disk


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize(
    "damage", ["absent", "empty", "torn", "zeros behind", "all zeros", "noise", "of another log"]
)
@pytest.mark.parametrize("clean", [True, False])
def test_a_wrong_index_is_rebuilt(suffix: str, damage: str, clean: bool) -> None:
    disk = _closed()
    names = [entry.name for entry in disk.entries(DIRECTORY) if entry.name.endswith(suffix)]
    assert len(names) > 2
    rng = random.Random(3)
    for name in names:
        path = f"{DIRECTORY}/{name}"
        whole = disk.read(path)
        disk.remove(path)
        if damage == "absent":
            continue
        size = 8 if suffix == ".index" else 12
        wrong = {
            "empty": b"",
            "torn": whole[:-3],
            "zeros behind": whole + bytes(size * 1000),
            "all zeros": bytes(len(whole)),
            "noise": rng.randbytes(len(whole)),
            "of another log": b"".join(
                whole[at : at + size - 4] + struct.pack(">i", at * 3 + 1) for at in range(0, len(whole), size)
            ),
        }[damage]
        disk.put(path, wrong)
    log = open_log(disk, config=CONFIG, clean=clean, recovery_point=150 if not clean else 0)
    for offset in range(150):
        assert stored_records(log, from_offset=offset)[0].offset == offset
    assert log.append(batch(timestamp_ms=START_MS + 150), leader_epoch=0).first_offset == 150
    for number in range(0, 150, 7):
        found = log.offset_for_timestamp(START_MS + number)
        assert found is not None and found.offset == number
    assert log.highest_timestamp == START_MS + 150


def test_every_entry_that_an_append_makes_is_true() -> None:
    log = open_log(SimulatedDisk(), config=LogConfig(index_interval_bytes=150))
    for number in range(40):
        log.append(batch(b"x" * (number % 7 * 20), timestamp_ms=START_MS + number), leader_epoch=0)
    segment = log.segments.active
    found = {
        header.last_offset: (position, header.max_timestamp_ms)
        for position, header in headers(segment.file, 0, segment.size_bytes)
    }
    offsets = [segment.offset_index.entry(number) for number in range(len(segment.offset_index))]
    times = [segment.time_index.entry(number) for number in range(len(segment.time_index))]
    assert len(offsets) > 10 and len(times) > 10
    assert all(found[offset][0] == position for offset, position in offsets)
    assert all(found[offset][1] == timestamp_ms for timestamp_ms, offset in times)
