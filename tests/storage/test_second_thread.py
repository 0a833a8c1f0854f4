"""A cleaner's thread reads closed segments while the log's own thread appends, rolls and reads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

from odradek.foundation.limits import READ_POSITIONS_REMEMBERED_MAX
from odradek.storage.config import LogConfig
from odradek.storage.files import SystemDisk
from odradek.storage.index import OffsetIndex, SparseIndex
from odradek.storage.log import Log
from odradek.storage.open_files import OpenFiles
from odradek.storage.segment import Segment, _forget_oldest
from odradek.wire.records.batch import read_header
from tests.support.disk import SimulatedDisk
from tests.support.logs import TP, StillClock, batch, open_log

ROUNDS = 30


@pytest.fixture(autouse=True)
def _threads_change_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def _together(*works: Callable[[], object]) -> None:
    """Run these at once, each on a thread of its own; raises what the first that failed raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        start.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_two_threads_read_segments_whose_files_close_and_open(tmp_path: Path) -> None:
    open_files = OpenFiles(2)
    log = Log.open(
        str(tmp_path / "topic-0"),
        TP,
        config=LogConfig(index_interval_bytes=0),
        disk=SystemDisk(),
        clock=StillClock(),
        clean=True,
        open_files=open_files,
    )
    for _ in range(6):
        for _ in range(4):
            log.append(batch(b"%d" % log.log_end_offset), leader_epoch=0)
        log.roll()

    def read_all() -> None:
        for _ in range(ROUNDS):
            for segment in log.segments.all[:6]:
                for offset in range(segment.base_offset, segment.base_offset + 4):
                    segment._read_positions = {}
                    position = segment.position_of(offset)
                    assert read_header(segment.file.pread(position, 61)).base_offset == offset

    def own() -> None:
        for number in range(ROUNDS):
            log.append(batch(b"more"), leader_epoch=0)
            for offset in range(0, 24, 5):
                assert read_header(log.read(offset, bytes_max=1 << 20).read()).base_offset == offset
            if number % 10 == 0:
                log.roll()

    _together(read_all, read_all, own)
    assert len(open_files) <= 2
    log.close()


def _interrupted(code: CodeType, work: Callable[[], object], other: Callable[[], object]) -> int:
    """Run `work` again and again, with `other` between two instructions of `code`, as a thread may: at each once.

    Returns how many instructions there are.
    """
    number = 0
    while True:
        seen = -1

        def trace(frame: FrameType, event: str, _: object, stop: int = number) -> Any:
            nonlocal seen
            if frame.f_code is code:
                frame.f_trace_opcodes = True
                if event == "opcode":
                    seen += 1
                    if seen == stop:
                        other()
                return trace
            return None

        # Python 3.12 reports instructions only where a frame asked for them before.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(None)
        if seen < number:
            return number
        number += 1


def _getter(member: object) -> CodeType:
    assert isinstance(member, property) and isinstance(member.fget, FunctionType)
    return member.fget.__code__


def test_a_file_that_closes_at_any_moment_is_open_for_its_reader() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, config=LogConfig(index_interval_bytes=0))
    for _ in range(3):
        log.append(batch(), leader_epoch=0)
    log.roll()
    segment = log.segments.first

    def read_log() -> None:
        segment.release()
        assert segment.file.size == segment.size_bytes
        assert segment.file.size == segment.size_bytes

    def read_index() -> None:
        segment.release()
        assert segment.offset_index._open().size > 0

    assert _interrupted(_getter(Segment.file), read_log, segment.release) > 10
    assert _interrupted(SparseIndex._open.__code__, read_index, segment.release) > 10


def test_files_that_others_close_and_open_are_counted_within_their_bound() -> None:
    class Holder:
        def release(self) -> None:
            open_files.discard(self)

    open_files = OpenFiles(2)
    others = [Holder() for _ in range(3)]

    def close_all() -> None:
        for holder in others:
            open_files.discard(holder)

    def fill() -> None:
        for holder in [*others, *(Holder() for _ in range(3))]:
            open_files.add(holder)
        assert len(open_files) <= 2

    assert _interrupted(OpenFiles.add.__code__, fill, close_all) > 10
    assert _interrupted(OpenFiles.add.__code__, fill, lambda: open_files.add(Holder())) > 10


def test_positions_that_others_remember_and_forget_do_not_disturb_a_reader() -> None:
    positions = dict.fromkeys(range(READ_POSITIONS_REMEMBERED_MAX), 0)

    def make_room() -> None:
        positions.update(dict.fromkeys(range(-READ_POSITIONS_REMEMBERED_MAX, 0), 0))
        _forget_oldest(positions)
        assert len(positions) <= READ_POSITIONS_REMEMBERED_MAX

    def forget() -> None:
        del positions[next(iter(positions))]

    def remember() -> None:
        positions[max(positions) + 1] = 0

    assert _interrupted(_forget_oldest.__code__, make_room, forget) > 10
    assert _interrupted(_forget_oldest.__code__, make_room, remember) > 10


def test_a_position_that_a_truncation_overtook_is_not_remembered() -> None:
    log = open_log(SimulatedDisk())
    for number in range(6):
        log.append(batch(b"x" * 10 * (number + 1)), leader_epoch=0)
    segment = log.segments.active
    search = segment._search
    segment_type = type(segment)

    def overtaken(self: object, start: int, offset: int, indexed_offset: int) -> int:
        position = search(start, offset, indexed_offset)
        patch.undo()
        log.truncate_to(2)
        for _ in range(6):
            log.append(batch(b"other"), leader_epoch=0)
        return position

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_type, "_search", overtaken)
        segment.position_of(5)
    assert read_header(log.read(5, bytes_max=1 << 20).read()).base_offset == 5


def test_an_index_has_all_entries_while_they_move_to_the_file() -> None:
    disk = SimulatedDisk()
    disk.put("logs/0.index", b"")
    index = OffsetIndex("logs/0.index", disk=disk, base_offset=0)
    written = 0

    def write() -> None:
        nonlocal written
        for _ in range(3):
            written += 1
            index.append(written, written * 10)
        index.write()

    def search() -> None:
        for offset in (1, written // 2, written):
            if offset:
                assert index.position_before(offset) == (offset, offset * 10)

    assert _interrupted(SparseIndex.write.__code__, write, search) > 10
