"""What a key takes in the maps of compaction, and how full they are."""

from __future__ import annotations

import tempfile
import tracemalloc
from collections.abc import Callable

import pytest

from odradek.storage.compaction.offset_map import SLOT_BYTES, OffsetMap, PlainOffsetMap
from odradek.storage.compaction.reading import StoredBatch
from odradek.storage.compaction.vector_map import VectorOffsetMap
from odradek.wire.records.builder import build_batch
from tests.support.logs import START_MS

KEYS = 3000
KEY_BYTES_MAX = 40
MAPS: dict[str, Callable[..., OffsetMap]] = {"plain": PlainOffsetMap, "vectors": VectorOffsetMap}


def batch_of(keys: range) -> StoredBatch:
    built = bytes(build_batch([(START_MS, b"a key of some bytes %06d" % key, b"") for key in keys]))
    batch = StoredBatch(memoryview(built), end=len(built))
    batch.load()
    return batch


@pytest.mark.parametrize("make", MAPS.values(), ids=MAPS.keys())
def test_a_key_takes_no_more_than_forty_bytes_of_memory(make: Callable[..., OffsetMap]) -> None:
    batch = batch_of(range(KEYS))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        found = make(
            capacity_bytes=1 << 30,
            load_factor=0.9,
            records_max=KEYS,
            keys_directory=tempfile.gettempdir(),
        )
        assert not found.add([batch], 0)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(found) == KEYS
    assert taken < KEY_BYTES_MAX * KEYS, f"{taken / KEYS:.1f} bytes a key"
    assert found.size_bytes < KEY_BYTES_MAX * KEYS
    found.close()


@pytest.mark.parametrize("make", MAPS.values(), ids=MAPS.keys())
def test_a_map_knows_how_full_it_is(make: Callable[..., OffsetMap]) -> None:
    capacity_bytes = 200 * SLOT_BYTES
    found = make(
        capacity_bytes=capacity_bytes, load_factor=0.5, records_max=1000, keys_directory=tempfile.gettempdir()
    )
    assert found.fill_ratio == 0
    assert not found.add([batch_of(range(50))], 0)
    assert found.fill_ratio == 0.5
    assert found.add([batch_of(range(1000))], 0), "it is full"
    assert 0.98 < found.fill_ratio <= 1
    assert found.size_bytes <= capacity_bytes
    found.close()
