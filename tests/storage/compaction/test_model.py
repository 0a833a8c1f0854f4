"""Compaction against an exact model, over random logs: what stays is right, whatever map finds it."""

from __future__ import annotations

import random

import pytest

from tests.support.compaction import CONFIG, MakeMap, Writer, compact, plain
from tests.support.compaction_model import by_vectors, rounds
from tests.support.disk import SimulatedDisk
from tests.support.logs import DIRECTORY, StillClock, open_log


def files(disk: SimulatedDisk) -> dict[str, bytes]:
    return {
        path: disk.read(path)
        for suffix in (".log", ".txnindex", ".index", ".timeindex")
        for path in disk.paths(suffix)
    }


MAPS: dict[str, MakeMap] = {
    "plain": plain,
    "vectors": by_vectors(64),
    "one hash": by_vectors(0),
    "two bits": by_vectors(2),
    "eight bits": by_vectors(8),
}


@pytest.mark.parametrize("seed", range(12))
def test_what_stays_is_right_after_every_round(seed: int) -> None:
    rounds(seed)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
def test_every_map_leaves_the_same_bytes(seed: int) -> None:
    results = []
    for make_map in MAPS.values():
        rng = random.Random(seed)
        disk, clock = SimulatedDisk(), StillClock()
        log = open_log(disk, clock=clock, config=CONFIG)
        writer = Writer(log, rng, clock=clock, keys=60)
        for _ in range(3):
            for _ in range(60):
                writer.step()
            writer.end_all()
            log.roll()
            compact(log, clock=clock, disk=disk, make_map=make_map)
            clock.advance(CONFIG.delete_retention_ms + 1)
        results.append({name: data for name, data in files(disk).items() if name.startswith(DIRECTORY)})
    assert results[0]
    for other in results[1:]:
        assert other.keys() == results[0].keys()
        assert other == results[0]
