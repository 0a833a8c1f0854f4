"""A start after an unclean stop: opened beside each other, seen from outside while it lasts, and stopped when asked."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.process.broker_process import BrokerProcess
from odradek.broker.process.local_control import LocalControl
from odradek.foundation.metrics import MetricsRegistry
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.controller.requests import NewTopic
from odradek.server.http import broker_metrics
from odradek.storage.files import SystemDisk, SystemFile
from tests.support.disk import SimulatedDisk
from tests.support.exposition import exposition_text
from tests.support.memory_registry import MemoryRegistry, MemoryStore
from tests.support.polling import SECONDS_MAX
from tests.support.stories import in_real_time
from tests.support.whole_broker import WholeBroker, batch

PARTITIONS = 5


class _SlowDisk(SystemDisk):
    """Reads of log files wait until they are let through."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.reached = threading.Semaphore(0)

    def open(self, path: str, *, create: bool = False) -> SystemFile:
        if path.endswith(".log") and not create:
            self.reached.release()
            assert self.gate.wait(SECONDS_MAX), "the gate was never opened"
        return super().open(path, create=create)


def _broker(path: Path, registry: MemoryRegistry, *, disk: Any = None) -> BrokerProcess[LocalControl]:
    texts = {
        "log.dirs": str(path),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "num.recovery.threads.per.data.dir": "2",
    }
    return BrokerProcess(Settings(texts), control=LocalControl(store=MemoryStore(registry)), disk=disk)


async def _written(path: Path, registry: MemoryRegistry) -> int:
    """A directory with records that looks as if it was never closed; how many bytes of log there are."""
    broker = _broker(path, registry)
    await broker.start()
    await broker.control.controller.create_topics([NewTopic(name="t", partition_count=PARTITIONS)])
    for partition in broker.partitions:
        partition.require_leader().append(memoryview(batch([b"v" * 100])), required_acks=1)
    size_bytes = sum(partition.log.size_bytes for partition in broker.partitions)
    await broker.stop()
    (path / ".kafka_cleanshutdown").unlink()
    return size_bytes


def _scrape(broker: BrokerProcess[LocalControl]) -> dict[str, float]:
    registry = MetricsRegistry()
    broker_metrics.register(broker, registry)
    lines = exposition_text(registry).splitlines()
    return {line.split(" ")[0]: float(line.split(" ")[1]) for line in lines if line.startswith("odradek_log")}


@in_real_time
async def test_a_start_reports_its_scan_and_scans_as_many_logs_as_allowed(tmp_path: Path) -> None:
    registry, disk = MemoryRegistry(), _SlowDisk()
    size_bytes = await _written(tmp_path, registry)
    broker = _broker(tmp_path, registry, disk=disk)
    assert _scrape(broker)["odradek_logs_to_open"] == 0
    starting = asyncio.ensure_future(broker.start())
    for _ in range(2):
        await asyncio.get_running_loop().run_in_executor(None, disk.reached.acquire)
    # Two logs are being scanned, each in its thread, and the loop is free to report.
    assert not disk.reached.acquire(blocking=False)
    assert not starting.done()
    found = _scrape(broker)
    assert found["odradek_logs_to_open"] == PARTITIONS
    assert found["odradek_log_recovery_scanned_bytes_total"] == 0
    disk.gate.set()
    await starting
    found = _scrape(broker)
    assert found["odradek_logs_to_open"] == 0
    assert found["odradek_log_recovery_scanned_bytes_total"] == size_bytes
    assert found["odradek_log_recovery_cut_bytes_total"] == 0
    assert len(broker.partitions) == PARTITIONS
    await broker.stop()


@in_real_time
async def test_a_cancelled_start_ends_after_the_logs_at_hand_without_a_marker(tmp_path: Path) -> None:
    registry, disk = MemoryRegistry(), _SlowDisk()
    await _written(tmp_path, registry)
    broker = _broker(tmp_path, registry, disk=disk)
    starting = asyncio.ensure_future(broker.start())
    for _ in range(2):
        await asyncio.get_running_loop().run_in_executor(None, disk.reached.acquire)
    starting.cancel()
    disk.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await starting
    # The two that had begun were finished, no other was.
    assert not disk.reached.acquire(blocking=False)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    again = _broker(tmp_path, registry)
    await again.start()
    assert {partition.high_watermark for partition in again.partitions} == {1}
    await again.stop()


async def test_a_directory_that_fails_while_it_is_opened_takes_its_own_logs_only() -> None:
    disk = SimulatedDisk()
    broker = await WholeBroker.start({"log.dirs": "/one,/two"}, disk=disk)
    await broker.create_topic("t", partitions=6)
    for partition in range(6):
        await broker.produce("t", b"v", partition=partition)
    await broker.broker.stop()
    disk.remove("/one/.kafka_cleanshutdown")
    disk.fail_path("/one/t-", errno.EIO)
    again = await WholeBroker.start({"log.dirs": "/one,/two"}, disk=disk, registry=broker.registry)
    assert again.broker.log_manager.directories.offline == {"/one"}
    assert [partition.high_watermark for partition in again.broker.partitions] == [1, 1, 1]
    assert all(log.parent_directory == "/two" for log in again.broker.log_manager.logs())


async def test_a_log_that_cannot_be_closed_keeps_its_directory_from_being_marked() -> None:
    disk = SimulatedDisk()
    broker = await WholeBroker.start({"log.dirs": "/one,/two"}, disk=disk)
    await broker.create_topic("t", partitions=4)
    for partition in range(4):
        await broker.produce("t", b"v", partition=partition)
    (bad, *_) = [log for log in broker.broker.log_manager.logs() if log.parent_directory == "/one"]
    disk.fail_path(f"{bad.directory}/", errno.EIO)
    await broker.broker.stop()
    assert not disk.exists("/one/.kafka_cleanshutdown")
    assert disk.exists("/two/.kafka_cleanshutdown")
