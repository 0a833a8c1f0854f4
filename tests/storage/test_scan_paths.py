"""Recovery's fast path accepts what the slow one accepts, and leaves the same state of producers."""

from __future__ import annotations

import random
import struct
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.foundation.errors import OdradekError
from odradek.foundation.transaction_errors import OutOfOrderSequence
from odradek.storage import scan as scanning
from odradek.storage.config import LogConfig
from odradek.storage.epochs import EpochEntry
from odradek.storage.log import Log
from odradek.storage.producers import ProducerStates
from odradek.storage.recovery import replay_producers
from odradek.wire.records.batch import BatchView, update_crc
from odradek.wire.records.builder import build_batch
from tests.support.disk import SimulatedDisk
from tests.support.examples import examples
from tests.support.logs import (
    DIRECTORY,
    START_MS,
    TP,
    StillClock,
    batch,
    end_transaction,
    open_log,
    stored_batches,
)

CONFIG = LogConfig(index_interval_bytes=200)


def _segment(rng: random.Random) -> bytearray:
    """Batches of several sizes, producers, epochs and times, as a leader would have stored them."""
    data = bytearray()
    offset, epoch, now_ms = 0, 0, START_MS
    for _ in range(rng.randint(1, 60)):
        if rng.random() < 0.05:
            epoch += rng.randint(1, 3)
        now_ms += rng.choice((-5, 0, 0, 0, 7))
        count = rng.randint(1, 4)
        producer_id = rng.choice((-1, -1, 3, 4))
        data += build_batch(
            [(now_ms, None, bytes(rng.randint(0, 120))) for _ in range(count)],
            base_offset=offset,
            leader_epoch=epoch,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=0 if producer_id >= 0 else -1,
            is_transactional=producer_id >= 0 and rng.random() < 0.02,
        )
        offset += count + (rng.random() < 0.03)
    return data


def _damage(data: bytearray, rng: random.Random) -> None:
    kind = rng.randrange(5)
    if kind == 0:
        del data[rng.randrange(len(data)) :]
    elif kind == 1:
        data += bytes(rng.randint(1, 100))
    elif kind == 2:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 3:
        data += rng.randbytes(rng.randint(1, 100))


def _scanned(data: bytes, rules: scanning.ScanRules) -> dict[str, Any]:
    disk = SimulatedDisk()
    disk.put("d/file", data)
    return asdict(scanning.scan(disk.open("d/file"), len(data), rules))


@pytest.mark.parametrize("seed", range(300))
def test_both_roads_find_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    data = _segment(rng)
    _damage(data, rng)
    rules = scanning.ScanRules(
        base_offset=0,
        index_interval_bytes=rng.choice((0, 200, 4096)),
        gaps_allowed=rng.random() < 0.5,
        next_base_offset=rng.choice((None, 50)),
        epochs=rng.choice(((), (EpochEntry(0, 0),), (EpochEntry(0, 0), EpochEntry(2, 20)))),
    )
    # A chunk boundary now and then, wherever it falls.
    monkeypatch.setattr(scanning, "_CHUNK_BYTES", rng.choice((300, 1000, 1 << 22)))
    short = _scanned(bytes(data), rules)
    monkeypatch.setattr(scanning._Scanner, "_read_expected", lambda _self, _view, position: position)
    assert short == _scanned(bytes(data), rules)


def test_the_fast_path_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    one = scanning._Scanner._any

    def counted(self: scanning._Scanner, *arguments: Any) -> tuple[int, int]:
        taken.append(1)
        return one(self, *arguments)

    monkeypatch.setattr(scanning._Scanner, "_any", counted)
    data = b"".join(
        build_batch(
            [(START_MS, None, b"v")], base_offset=offset, leader_epoch=0, producer_id=5, producer_epoch=0
        )
        for offset in range(1000)
    )
    rules = scanning.ScanRules(base_offset=0, index_interval_bytes=4096, epochs=(EpochEntry(0, 0),))
    assert _scanned(data, rules)["next_offset"] == 1000
    assert len(taken) == 1


def test_a_batch_that_ends_before_it_begins_is_not_sound() -> None:
    whole = [build_batch([(START_MS, None, b"v")], base_offset=offset, leader_epoch=0) for offset in range(4)]
    struct.pack_into(">i", whole[2], 23, -1)
    update_crc(whole[2])
    found = _scanned(b"".join(whole), scanning.ScanRules(base_offset=0, index_interval_bytes=4096))
    assert (found["next_offset"], found["valid_bytes"]) == (2, 2 * len(whole[0]))
    assert found["problem"] is not None


@pytest.mark.parametrize("truncated_bytes", [0, 1])
def test_the_last_five_batches_are_known_after_a_crash(truncated_bytes: int) -> None:
    """The scan may take back the last batch, and five before it have to be known all the same."""
    disk = SimulatedDisk()
    log = open_log(disk)
    headers = []
    for sequence in range(12):
        data = batch(producer_id=5, producer_epoch=0, base_sequence=sequence)
        log.append(data, leader_epoch=0)
        headers.append(BatchView(data).header)
    disk.kill()
    file = disk.open(f"{DIRECTORY}/{0:020d}.log")
    file.truncate(file.size - truncated_bytes)
    log = open_log(disk)
    end = log.log_end_offset
    assert end == 12 - truncated_bytes
    for offset in range(end - 5, end):
        known = log.producers.check(headers[offset])
        assert known is not None and known.last_offset == offset
    with pytest.raises(OutOfOrderSequence):
        log.producers.check(headers[end - 6])


def test_a_batch_that_is_taken_back_leaves_its_producer_as_before() -> None:
    """Sound by itself, it leaves a gap that nothing after it confirms."""
    disk = SimulatedDisk()
    log = open_log(disk)
    headers = []
    for sequence in range(6):
        data = batch(producer_id=5, producer_epoch=0, base_sequence=sequence)
        log.append(data, leader_epoch=0)
        headers.append(BatchView(data).header)
    disk.kill()
    stray = batch(producer_id=5, producer_epoch=0, base_sequence=6, base_offset=1000, leader_epoch=0)
    disk.open(f"{DIRECTORY}/{0:020d}.log").append(stray)
    log = open_log(disk)
    assert log.log_end_offset == 6
    for offset in range(1, 6):
        known = log.producers.check(headers[offset])
        assert known is not None and known.last_offset == offset
    assert log.producers.check(BatchView(stray).header) is None


# What may happen to a log: a producer's batch, its next epoch, a transaction's end, a roll.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.integers(0, 3), st.integers(1, 3)),
        st.tuples(st.just("epoch"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("plain"), st.just(0), st.just(0)),
        st.tuples(st.just("roll"), st.just(0), st.just(0)),
        st.tuples(st.just("transaction"), st.integers(0, 3), st.booleans().map(int)),
    ),
    max_size=40,
)


def _write(log: Log, steps: list[tuple[str, int, int]]) -> None:
    epochs = dict.fromkeys(range(4), 0)
    sequences = dict.fromkeys(range(4), 0)
    for kind, producer, number in steps:
        if kind == "plain":
            log.append(batch(), leader_epoch=0)
        elif kind == "roll":
            log.roll()
        elif kind == "epoch":
            epochs[producer] += 1
            sequences[producer] = 0
        else:
            count = number if kind == "batch" else 1
            log.append(
                batch(
                    *[b"v"] * count,
                    producer_id=producer,
                    producer_epoch=epochs[producer],
                    base_sequence=sequences[producer],
                    is_transactional=kind == "transaction",
                ),
                leader_epoch=0,
            )
            sequences[producer] += count
            if kind == "transaction":
                end_transaction(log, producer, is_commit=number > 0, epoch=epochs[producer])


def _answers(producers: ProducerStates, log: Log) -> list[Any]:
    """What each stored batch would be answered if it arrived again."""
    found: list[Any] = []
    for view in stored_batches(log):
        header = view.header
        if header.producer_id >= 0 and not header.is_control:
            try:
                found.append(producers.check(header))
            except OdradekError as error:
                found.append((type(error), str(error)))
    return found


@pytest.mark.thorough
@settings(max_examples=examples(200), deadline=None)
@given(steps=STEPS, truncated_bytes=st.integers(0, 300), without_snapshots=st.booleans())
def test_producers_are_known_after_a_crash_as_if_every_batch_had_been_read(
    steps: list[tuple[str, int, int]], truncated_bytes: int, without_snapshots: bool
) -> None:
    disk = SimulatedDisk()
    log = open_log(disk, config=CONFIG)
    _write(log, steps)
    last = log.segments.active
    disk.kill()
    file = disk.open(last.path + ".log")
    file.truncate(max(file.size - truncated_bytes, 0))
    if without_snapshots:
        for entry in disk.entries(DIRECTORY):
            if entry.name.endswith(".snapshot"):
                disk.remove(f"{DIRECTORY}/{entry.name}")
    log = open_log(disk, config=CONFIG)

    expected = ProducerStates(TP, rules=log.producers.rules)
    replay_producers(
        log.segments.all, expected, from_offset=0, now_ms=StillClock().wall_ms(), rebuild_aborts=False
    )
    if without_snapshots:
        assert sorted(log.producers.entries()) == sorted(expected.entries())
        assert _answers(log.producers, log) == _answers(expected, log)
    else:
        # A snapshot has but the newest batch of each producer, so older duplicates may be unknown: Kafka's rule.
        assert sorted(log.producers.entries()) == sorted(expected.entries())
    assert log.producers.transactions.first_undecided_offset == expected.transactions.first_undecided_offset
