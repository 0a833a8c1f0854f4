"""Flushes outside the loop: one sync serves all earlier requests, and no turn of the loop waits for the device."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.replication.blocking import BlockingWork
from odradek.broker.replication.flusher import Flusher, Outcome
from odradek.foundation.errors import KafkaStorageError
from odradek.storage.checkpoints import RECOVERY_POINT_FILE
from odradek.storage.log import Log
from tests.support.disk import SimulatedDisk, SimulatedFile
from tests.support.logs import DIRECTORY, StillClock, batch, open_log
from tests.support.polling import SECONDS_MAX
from tests.support.stories import in_real_time
from tests.support.whole_broker import WholeBroker

LOG_FILE = f"{DIRECTORY}/{0:020d}.log"


def _flusher() -> Flusher:
    return Flusher(threads=BlockingWork(threads_max=2), clock=StillClock())


def _syncs(disk: SimulatedDisk) -> int:
    return disk.calls.count(("sync", LOG_FILE))


def _into(outcomes: list[Outcome]) -> Callable[[Outcome], None]:
    return outcomes.append


async def test_requests_of_one_turn_share_one_sync() -> None:
    disk = SimulatedDisk()
    log, flusher = open_log(disk), _flusher()
    outcomes: list[Outcome] = []
    for _ in range(10):
        log.append(batch(), leader_epoch=0)
        flusher.request(log, _into(outcomes))
    assert (outcomes, log.recovery_point) == ([], 0)
    await flusher.drain()
    assert (outcomes, log.recovery_point) == ([None] * 10, 10)
    assert (_syncs(disk), flusher.flushes) == (1, 1)


async def test_requests_during_a_sync_share_the_next_one() -> None:
    disk = SimulatedDisk()
    log, flusher = open_log(disk), _flusher()
    log.append(batch(), leader_epoch=0)
    points: list[int] = []
    late: list[int] = []

    def first_done(outcome: Outcome) -> None:
        assert outcome is None
        points.append(log.recovery_point)

    flusher.request(log, first_done)
    # The turn after next is between the sync's beginning and its end.
    await asyncio.sleep(0)
    assert (_syncs(disk), points) == (0, [])
    for _ in range(5):
        log.append(batch(), leader_epoch=0)
        flusher.request(log, lambda _: late.append(log.recovery_point))
    await flusher.drain()
    assert (points, late) == ([1], [6] * 5)
    assert _syncs(disk) == 2


async def test_what_is_on_the_device_already_needs_no_sync() -> None:
    disk = SimulatedDisk()
    log, flusher = open_log(disk), _flusher()
    log.append(batch(), leader_epoch=0)
    log.flush()
    await flusher.flush(log)
    assert (_syncs(disk), flusher.flushes) == (1, 0)


async def test_a_failed_sync_fails_all_requests_that_wait() -> None:
    disk = SimulatedDisk()
    failures: list[str] = []
    log = open_log(disk, on_failure=lambda path, _: failures.append(path))
    flusher = _flusher()
    log.append(batch(), leader_epoch=0)
    outcomes: list[Outcome] = []
    flusher.request(log, _into(outcomes))
    await asyncio.sleep(0)
    disk.fail_call(0, errno.EIO)
    flusher.request(log, _into(outcomes))
    await flusher.drain()
    assert [type(outcome) for outcome in outcomes] == [KafkaStorageError, KafkaStorageError]
    assert log.failure is not None and failures == ["logs"]
    assert log.recovery_point == 0
    with pytest.raises(KafkaStorageError):
        await flusher.flush(log)


async def test_a_cancelled_caller_leaves_the_others_waiting() -> None:
    disk = SimulatedDisk()
    log, flusher = open_log(disk), _flusher()
    log.append(batch(), leader_epoch=0)
    gone = asyncio.ensure_future(flusher.flush(log))
    stays = asyncio.ensure_future(flusher.flush(log))
    await asyncio.sleep(0)
    gone.cancel()
    await stays
    assert gone.cancelled() and log.recovery_point == 1


class _Gate(SimulatedDisk):
    """Syncs of log files wait until the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.reached = threading.Event()

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        file = super().open(path, create=create)
        if path == LOG_FILE:
            sync = file.sync

            def wait() -> None:
                self.reached.set()
                assert self.gate.wait(SECONDS_MAX), "the gate was never opened"
                sync()

            file.sync = wait  # type: ignore[method-assign]
        return file


@in_real_time
async def test_the_loop_continues_while_the_device_is_slow() -> None:
    disk = _Gate()
    log: Log = open_log(disk)
    threads = BlockingWork(threads_max=1)
    flusher = Flusher(threads=threads, clock=StillClock())
    log.append(batch(b"flushed"), leader_epoch=0)
    flushed = asyncio.ensure_future(flusher.flush(log))
    await asyncio.get_running_loop().run_in_executor(None, disk.reached.wait, 60)
    # The sync is stuck in its thread; appends and reads of the same log continue here.
    for number in range(3):
        assert log.append(batch(b"meanwhile"), leader_epoch=0).first_offset == number + 1
    assert len(log.read(0, bytes_max=1 << 20)) > 0
    assert not flushed.done() and log.recovery_point == 0
    disk.gate.set()
    await flushed
    assert (log.recovery_point, log.log_end_offset) == (1, 4)
    await flusher.flush(log)
    assert log.recovery_point == 4
    threads.close()


class _Piece:
    def __init__(self, number: int) -> None:
        self.number = number
        self.thread = ""

    def run(self) -> None:
        self.thread = threading.current_thread().name


@pytest.mark.parametrize("together", [1, 3, 100])
@in_real_time
async def test_pieces_run_in_threads_and_are_taken_in_once_each(together: int) -> None:
    threads = BlockingWork(threads_max=3, name="test")
    taken: list[_Piece] = []
    await threads.run_all((_Piece(number) for number in range(50)), taken.append, together=together)
    threads.close()
    assert sorted(piece.number for piece in taken) == list(range(50))
    assert all(piece.thread.startswith("odradek-test") for piece in taken)
    assert threads.waiting == 0


def test_a_piece_is_asked_for_when_a_thread_is_free_for_it() -> None:
    async def story() -> None:
        threads = BlockingWork(threads_max=2)
        asked = 0
        ahead: list[int] = []
        taken: list[_Piece] = []

        def pieces() -> Any:
            nonlocal asked
            for number in range(20):
                asked += 1
                ahead.append(asked - len(taken))
                yield _Piece(number)

        await threads.run_all(pieces(), taken.append)
        threads.close()
        assert len(taken) == 20 and max(ahead) <= 2

    asyncio.run(story())


class _GateBeforeCheckpoints(SimulatedDisk):
    """Checkpoint files are written once the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.reached = threading.Event()

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        if path.endswith(RECOVERY_POINT_FILE):
            self.reached.set()
            assert self.gate.wait(SECONDS_MAX), "the gate was never opened"
        super().replace(path, data, sync=sync)


@in_real_time
async def test_a_checkpoint_blocks_no_request_and_the_stop_waits_for_it() -> None:
    disk = _GateBeforeCheckpoints()
    broker = await WholeBroker.start(disk=disk)
    await broker.create_topic("t")
    await broker.produce("t", b"a")
    housekeeping = broker.broker.housekeeping
    duty = asyncio.ensure_future(housekeeping.checkpoint())
    await asyncio.get_running_loop().run_in_executor(None, disk.reached.wait, 60)
    assert (await broker.produce("t", b"b")).error_code == 0
    duty.cancel()
    stopping = asyncio.ensure_future(housekeeping.stop())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not stopping.done(), "the thread still writes"
    disk.gate.set()
    await stopping
    assert disk.exists(f"/logs/{RECOVERY_POINT_FILE}")
