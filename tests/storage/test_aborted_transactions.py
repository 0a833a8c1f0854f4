"""What a read-committed reader learns of aborted transactions, and where it has to stop: against a plain model."""

from __future__ import annotations

import random
from typing import Any

import pytest

from odradek.storage.config import LogConfig
from odradek.storage.log import Log
from odradek.wire.records.batch import split
from tests.support.disk import SimulatedDisk
from tests.support.logs import DIRECTORY, batch, end_transaction, open_log

CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=300)


class History:
    """A log that several transactional producers write to, and what a plain reader makes of it."""

    def __init__(self, log: Log, rng: random.Random) -> None:
        self.log = log
        self.rng = rng
        self.sequences = dict.fromkeys(range(1, 5), 0)
        self.open: dict[int, int] = {}
        self.ended: list[tuple[int, int, int, bool]] = []
        """(producer, first offset, the marker's, whether it was aborted)."""

    def step(self) -> None:
        producer_id = self.rng.choice(list(self.sequences))
        if producer_id in self.open and self.rng.random() < 0.35:
            self.end(producer_id, is_commit=self.rng.random() < 0.5)
        elif self.rng.random() < 0.2:
            self.log.append(batch(b"plain"), leader_epoch=0)
        else:
            self.write(producer_id)

    def write(self, producer_id: int) -> None:
        values = [b"v" * self.rng.randint(1, 60)] * self.rng.randint(1, 3)
        fields: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 0, "is_transactional": True}
        data = batch(*values, base_sequence=self.sequences[producer_id], **fields)
        offset = self.log.append(data, leader_epoch=0).first_offset
        self.sequences[producer_id] += len(values)
        self.open.setdefault(producer_id, offset)

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        offset = end_transaction(self.log, producer_id, is_commit=is_commit)
        self.ended.append((producer_id, self.open.pop(producer_id), offset, not is_commit))

    def last_stable_offset(self, high_watermark: int) -> int:
        unstable = [
            *self.open.values(),
            *(first for _, first, last, _ in self.ended if last >= high_watermark),
        ]
        return min([high_watermark, *unstable])

    def aborted(self, begin: int, end: int) -> set[tuple[int, int, int]]:
        return {
            (producer_id, first, last)
            for producer_id, first, last, is_aborted in self.ended
            if is_aborted and last >= begin and first < end
        }


@pytest.mark.parametrize("seed", range(8))
def test_every_read_is_told_its_aborts_and_few_others(seed: int) -> None:
    rng = random.Random(seed)
    disk = SimulatedDisk()
    log = open_log(disk, config=CONFIG)
    history = History(log, rng)
    for _ in range(150):
        history.step()
        high_watermark = rng.randint(max(log.log_end_offset - 6, 0), log.log_end_offset)
        stable = log.producers.transactions.last_stable_offset(high_watermark=high_watermark)
        # The high watermark of the log never goes back, and what is below it is not looked at again.
        assert stable <= high_watermark
        if high_watermark == log.log_end_offset:
            assert stable == history.last_stable_offset(high_watermark)
    _check_reads(log, history, rng)
    log.close()
    log = open_log(disk, config=CONFIG, clean=rng.random() < 0.5)
    history.log = log
    _check_reads(log, history, rng)
    for entry in disk.entries(DIRECTORY):
        if entry.name.endswith(".snapshot"):
            disk.remove(f"{DIRECTORY}/{entry.name}")
    disk.kill()
    history.log = open_log(disk, config=CONFIG)
    _check_reads(history.log, history, rng)


def _check_reads(log: Log, history: History, rng: random.Random) -> None:
    end = log.log_end_offset
    stable = log.producers.transactions.last_stable_offset(high_watermark=end)
    assert stable == history.last_stable_offset(end)
    assert len(log.segments) > 2
    for _ in range(60):
        begin = rng.randrange(max(stable, 1))
        records = log.read(begin, bytes_max=rng.choice((1, 400, 2000)), offset_limit=stable)
        told = {
            (one.producer_id, one.first_offset, one.last_offset)
            for one in log.find_aborted_in(records, begin, offset_limit=stable)
        }
        batches = list(split(memoryview(records.read()), may_be_cut=True))
        read_end = batches[-1].last_offset + 1 if batches else begin
        assert history.aborted(begin, read_end) <= told <= history.aborted(begin, stable)


def test_a_reader_far_behind_is_not_told_of_the_whole_log() -> None:
    log = open_log(SimulatedDisk(), config=CONFIG)
    history = History(log, random.Random(1))
    for _ in range(200):
        history.write(1)
        history.end(1, is_commit=False)
    end = log.log_end_offset
    records = log.read(0, bytes_max=400, offset_limit=end)
    assert len(log.find_aborted_in(records, 0, offset_limit=end)) < 10
    assert len(log.find_aborted_transactions(0, end)) == 200


def test_markers_above_the_high_watermark_hold_readers_at_the_oldest() -> None:
    log = open_log(SimulatedDisk(), config=CONFIG)
    history = History(log, random.Random(1))
    history.write(1)
    second = log.log_end_offset
    history.write(2)
    ends = []
    for producer_id in (2, 1):
        history.end(producer_id, is_commit=True)
        ends.append(log.log_end_offset)
    transactions = log.producers.transactions
    assert transactions.last_stable_offset(high_watermark=second) == 0
    assert transactions.last_stable_offset(high_watermark=ends[0]) == 0
    assert transactions.last_stable_offset(high_watermark=ends[1]) == ends[1]


def test_a_truncated_marker_opens_its_transaction_again() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, config=CONFIG)
    history = History(log, random.Random(1))
    history.write(1)
    marker = log.log_end_offset
    history.end(1, is_commit=False)
    log.truncate_to(marker)
    assert log.producers.transactions.first_undecided_offset == 0
    assert log.find_aborted_transactions(0, 10) == []


def test_records_of_an_open_transaction_that_are_deleted_leave_it_open() -> None:
    """Its marker comes after a crash too, and names a first offset below the log's start or the first one left."""
    for crashes in (False, True):
        disk = SimulatedDisk()
        log = open_log(disk, config=CONFIG)
        history = History(log, random.Random(1))
        history.write(1)
        log.roll()
        history.write(1)
        deleted = log.log_end_offset
        history.write(1)
        log.advance_log_start(deleted)
        log.delete_old_segments()
        if crashes:
            disk.kill()
            log = history.log = open_log(disk, config=CONFIG, log_start_offset=deleted)
        first = log.producers.transactions.first_undecided_offset
        assert first is not None and first <= deleted
        history.end(1, is_commit=False)
        assert not len(log.producers.transactions)
        (aborted,) = log.find_aborted_transactions(deleted, log.log_end_offset)
        assert aborted.first_offset == first
