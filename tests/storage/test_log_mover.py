"""A log moves to another directory while it is changed, through a kill or a loss of power at each call of the disk."""

from __future__ import annotations

import errno
import random
import uuid
from collections.abc import Callable

import pytest

from odradek.foundation.errors import KafkaStorageError
from odradek.foundation.ids import TopicPartition
from odradek.storage import log_copy
from odradek.storage.config import LogConfig
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.log import Log
from odradek.wire.records.record import Record
from tests.support.disk import SimulatedDisk
from tests.support.logs import (
    StillClock,
    batch,
    delete_due,
    end_transaction,
    load,
    stored_records,
    visible_offsets,
)

TP = TopicPartition("topic", 0)
CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=100, file_delete_delay_ms=1000)


class Killed(Exception):
    """The process died at this call of the disk."""


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_copy, "LOG_COPY_PIECE_BYTES", 400)
    monkeypatch.setattr(log_copy, "LOG_COPY_REMAINDER_BYTES_MAX", 150)


def _open(disk: SimulatedDisk, clock: StillClock | None = None) -> LogManager:
    manager = LogManager(("a", "b"), disk=disk, clock=clock or StillClock(), broker_id=1)
    manager.directories.open()
    if manager.directories.cluster_id is None:
        manager.directories.set_cluster_id("abcdefghijklmnopqrstuv")
    load(manager, lambda _: CONFIG)
    return manager


def _filled(manager: LogManager, records: int = 30) -> Log:
    log = manager.create(TP, uuid.UUID(int=12345), CONFIG)
    manager.save_placement()
    for number in range(records):
        log.append(batch(b"%d" % number + b"x" * (number * 7 % 90)), leader_epoch=number // 10)
    return log


def _move(manager: LogManager, path: str, meanwhile: Callable[[], None] = lambda: None) -> None:
    mover = manager.moves
    copy = mover.begin(TP, path)
    mover.mark(copy)
    while (piece := copy.next_piece()) is not None:
        error: KafkaStorageError | None = None
        meanwhile()
        try:
            piece.run()
        except KafkaStorageError as failure:
            error = failure
        meanwhile()
        copy.end_piece(piece, error)
    old = mover.finish(copy, must_sync=False)
    mover.settle(copy)
    manager.checkpoint()
    mover.put_away(old, TP)


def _log(manager: LogManager) -> Log:
    log = manager.get(TP)
    assert log is not None
    return log


def test_a_log_moves_with_all_that_it_has() -> None:
    disk, clock = SimulatedDisk(), StillClock()
    manager = _open(disk, clock)
    manager.producer_rules.must_verify = False
    log = _filled(manager)
    log.append(
        batch(b"open", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True),
        leader_epoch=3,
    )
    end_transaction(log, 7, is_commit=False, leader_epoch=3)
    log.append(batch(b"last"), leader_epoch=3)
    before, seen = stored_records(log), visible_offsets(log)
    assert log.parent_directory == "a"
    _move(manager, "b")
    assert (log.parent_directory, log.directory, _log(manager)) == ("b", "b/topic-0", log)
    assert (stored_records(log), visible_offsets(log)) == (before, seen)
    assert log.end_offset_for_epoch(1) == (1, 20)
    counts = {one.path: one.log_count for one in manager.directories.online}
    assert counts == {"a": 0, "b": 1}
    clock.advance(10)
    delete_due(manager)
    assert not [path for path in disk.paths("") if path.startswith("a/topic")]
    log.append(batch(b"after"), leader_epoch=3)
    manager.close()
    again = _log(_open(disk))
    assert (again.recovered_bytes, again.parent_directory) == (0, "b")
    assert [record.value for record in stored_records(again)][-1] == b"after"


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_meanwhile_the_copy_is_the_log(seed: int) -> None:
    rng, disk = random.Random(seed), SimulatedDisk()
    manager = _open(disk)
    log = _filled(manager)
    epoch, left = 3, 40

    def meanwhile() -> None:
        nonlocal left, epoch
        left -= 1
        if left < 0 or rng.random() < 0.3:
            return
        happens = rng.randrange(6)
        if happens == 0:
            log.roll()
        elif happens == 1:
            epoch += 1
            log.truncate_to(rng.randint(log.log_start_offset, log.log_end_offset))
        elif happens == 2:
            log.advance_log_start(rng.randint(log.log_start_offset, log.log_end_offset))
            log.delete_old_segments(log.log_end_offset)
        elif happens == 3:
            log.flush()
        for _ in range(rng.randrange(4)):
            value = b"%d %d" % (seed, left) + b"y" * rng.randrange(200)
            log.append(batch(value), leader_epoch=epoch)

    expected: list[Record] = []

    def look() -> None:
        meanwhile()
        expected[:] = stored_records(log)

    _move(manager, "b", look)
    assert stored_records(log) == expected
    log.append(batch(b"after"), leader_epoch=epoch)
    with_last = stored_records(log)
    assert with_last[:-1] == expected
    manager.checkpoint()
    disk.kill()
    again = _log(_open(disk))
    assert stored_records(again) == with_last, "a killed process loses nothing"
    assert again.parent_directory == "b"
    assert again.epochs.latest_epoch == epoch


def _calls_of_a_move() -> int:
    disk = SimulatedDisk()
    manager = _open(disk)
    _filled(manager)
    before = len(disk.calls)
    _move(manager, "b")
    return len(disk.calls) - before


@pytest.mark.parametrize("how", ["kill", "power"])
@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.thorough)])
def test_a_move_that_dies_at_any_call_loses_nothing(how: str, step: int) -> None:
    """`make test` plays each 13th call, and the end of a move."""
    calls = _calls_of_a_move()
    assert calls > 20
    for number in {*range(0, calls, step), *range(calls - 3, calls)}:
        disk = SimulatedDisk()
        manager = _open(disk)
        log = _filled(manager)
        log.flush()
        manager.checkpoint()
        flushed = stored_records(log)
        at = len(disk.calls) + number

        def die(kind: str, path: str, *, at: int = at, disk: SimulatedDisk = disk) -> None:
            if len(disk.calls) > at:
                raise Killed(f"{kind} {path}")

        disk.on_call = die
        with pytest.raises(Killed):
            _move(manager, "b")
        disk.on_call = None
        if how == "kill":
            disk.kill()
        else:
            disk.crash(random.Random(number))
        again = _open(disk)
        assert stored_records(_log(again)) == flushed, f"after a death at call {number}"
        delete_due(again)
        left = [one.name for path in "ab" for one in disk.entries(path) if one.is_directory]
        assert left == [str(TP)], f"after a death at call {number}"
        _log(again).append(batch(b"on"), leader_epoch=3)
        again.moves.unfinished.clear()
        if _log(again).parent_directory == "a":
            _move(again, "b")
        assert [record.value for record in stored_records(_log(again))][-1] == b"on"
        again.close()
        assert len(stored_records(_log(_open(disk)))) == len(flushed) + 1


def test_a_copy_that_is_given_up_loses_its_name_first() -> None:
    """A kill while its files go one by one must not leave some that look as if Kafka was moving a log."""
    disk = SimulatedDisk()
    manager = _open(disk)
    _filled(manager)
    copy = manager.moves.begin(TP, "b")
    manager.moves.mark(copy)
    manager.moves.cancel(TP)

    def die(kind: str, path: str) -> None:
        if kind == "remove":
            raise Killed(path)

    disk.on_call = die
    with pytest.raises(Killed, match="-delete"):
        manager.moves.discard(copy.directory)
    disk.on_call = None
    disk.kill()
    again = _open(disk)
    assert again.moves.unfinished == {}
    delete_due(again)
    assert disk.entries("b") == [one for one in disk.entries("b") if not one.is_directory]


def test_a_future_replica_of_kafkas_is_left_as_it_is() -> None:
    disk = SimulatedDisk()
    disk.put("b/t-0.0123456789abcdef0123456789abcdef-future/00000000000000000000.log", b"")
    manager = _open(disk)
    delete_due(manager)
    assert [one.name for one in disk.entries("b") if one.is_directory] == [
        "t-0.0123456789abcdef0123456789abcdef-future"
    ]


def test_an_interrupted_move_is_known_at_the_next_start() -> None:
    disk = SimulatedDisk()
    manager = _open(disk)
    _filled(manager)
    copy = manager.moves.begin(TP, "b")
    manager.moves.mark(copy)
    piece = copy.next_piece()
    assert piece is not None
    piece.run()
    disk.kill()
    clock = StillClock()
    again = _open(disk, clock)
    assert (again.moves.unfinished, _log(again).parent_directory) == ({TP: "b"}, "a")
    clock.advance(10)
    delete_due(again)
    assert not [path for path in disk.paths("") if "-future" in path]


def test_records_that_moved_are_not_read_from_where_they_were() -> None:
    """The new disk fails before the old files are gone: they miss what came since."""
    disk = SimulatedDisk()
    manager = _open(disk)
    log = _filled(manager)
    copy = manager.moves.begin(TP, "b")
    manager.moves.mark(copy)
    while (piece := copy.next_piece()) is not None:
        piece.run()
        copy.end_piece(piece)
    manager.moves.finish(copy, must_sync=False)
    log.append(batch(b"after"), leader_epoch=3)
    disk.kill()
    disk.fail_path("b/", errno.EIO)
    again = _open(disk)
    assert again.get(TP) is None
    with pytest.raises(KafkaStorageError, match="its log directory b failed"):
        again.create(TP, uuid.UUID(int=12345), CONFIG)


def test_two_logs_of_one_partition_that_nothing_explains_are_refused() -> None:
    disk = SimulatedDisk()
    manager = _open(disk)
    _filled(manager)
    disk.kill()
    disk.make_directory("b/topic-0")
    with pytest.raises(KafkaStorageError, match="lies in b and in a: remove the one that is older"):
        _open(disk)


def test_a_deleted_log_moves_no_more() -> None:
    manager = _open(SimulatedDisk())
    _filled(manager)
    copy = manager.moves.begin(TP, "b")
    manager.delete(TP)
    assert copy.is_cancelled
    assert manager.moves.under_way == {}


def test_a_log_is_made_in_the_directory_that_was_chosen() -> None:
    manager = _open(SimulatedDisk())
    manager.moves.choose(TP, "b")
    assert _filled(manager).parent_directory == "b"


def test_large_indexes_are_not_copied_in_the_last_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_copy, "LOG_COPY_REMAINDER_BYTES_MAX", 30)
    manager = _open(SimulatedDisk())
    log = manager.create(
        TP, uuid.UUID(int=12345), CONFIG._replace(segment_bytes=1 << 20, index_interval_bytes=1)
    )
    for number in range(20):
        log.append(batch(b"%d" % number), leader_epoch=0)
    assert len(log.segments) == 1
    before = stored_records(log)
    _move(manager, "b")
    assert (len(log.segments), log.segments.active.size_bytes) == (2, 0)
    assert stored_records(log) == before
