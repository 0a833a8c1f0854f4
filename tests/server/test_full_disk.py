"""A broker whose disk runs full: it says so once when it begins and once when it ends, and shows it between the two."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable

import pytest
from aiohttp.test_utils import make_mocked_request

from odradek.foundation.limits import LOG_DIRECTORY_ROOM_BYTES_MIN
from odradek.server.http.admin import AdminServer
from odradek.wire.protocol.api import ApiKey
from tests.server.test_broker_metrics import labels, scrape
from tests.support.disk import SimulatedDisk
from tests.support.loop import run
from tests.support.stories import told_by
from tests.support.whole_broker import WholeBroker

CAPACITY_BYTES = 1 << 20
KAFKA_STORAGE_ERROR = 56
NONE = 0


def with_small_disk(
    story: Callable[[WholeBroker], Awaitable[None]], *, settings: dict[str, str] | None = None
) -> None:
    async def all_of_it() -> None:
        disk = SimulatedDisk(capacity_bytes=CAPACITY_BYTES)
        broker = await WholeBroker.start({"offsets.topic.num.partitions": "1", **(settings or {})}, disk=disk)
        await story(broker)
        disk.capacity_bytes = None

    run(all_of_it())


async def fill(broker: WholeBroker, topic: str) -> int:
    """Produce until it is refused; how many batches were taken."""
    for count in range(1000):
        if (await broker.produce(topic, b"x" * 10_000)).error_code == KAFKA_STORAGE_ERROR:
            return count
    raise AssertionError("the disk takes everything")


async def ready(broker: WholeBroker, path: str = "/readyz") -> tuple[int, str]:
    server = AdminServer(broker.broker, host="", port=0)
    answer = await server._readiness(make_mocked_request("GET", path))
    return answer.status, str(answer.text)


def told(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and words in record.getMessage()
    ]


@told_by(with_small_disk)
async def test_it_is_logged_once_when_it_begins_and_once_when_it_ends(
    broker: WholeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.create_topic("t")
    await fill(broker, "t")
    for _ in range(20):
        assert (await broker.produce("t", b"x" * 50_000)).error_code == KAFKA_STORAGE_ERROR
    # Checkpoints and flushes are refused too, and are no news.
    await asyncio.sleep(300)
    (begun,) = told(caplog, "is full")
    assert "/logs" in begun and "bytes free" in begun and "No space left on device" in begun
    assert "Records, new partitions and group commits" in begun
    assert "lower their retention" in begun
    assert not told(caplog, "takes writes again")
    assert [one for one in told(caplog, "/logs") if one != begun] == []

    broker.disk.capacity_bytes = CAPACITY_BYTES + LOG_DIRECTORY_ROOM_BYTES_MIN
    await asyncio.sleep(2)
    assert (await broker.produce("t", b"x" * 10_000)).error_code == NONE
    (ended,) = told(caplog, "takes writes again")
    assert "after 30" in ended, "it lasted 300 seconds and some"
    assert "refused writes: " in ended


@told_by(with_small_disk)
async def test_a_small_record_that_fits_does_not_end_it(
    broker: WholeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.create_topic("t")
    await fill(broker, "t")
    for _ in range(5):
        assert (await broker.produce("t", b"x")).error_code == NONE
        assert (await broker.produce("t", b"x" * 50_000)).error_code == KAFKA_STORAGE_ERROR
        await asyncio.sleep(2)
    assert len(told(caplog, "is full")) == 1
    assert not told(caplog, "takes writes again")


@told_by(with_small_disk)
async def test_readiness_fails_with_the_reason_and_liveness_does_not(broker: WholeBroker) -> None:
    await broker.create_topic("t")
    assert await ready(broker) == (200, "ready\n")
    await fill(broker, "t")
    await asyncio.sleep(7)
    status, reason = await ready(broker)
    assert status == 503
    assert reason.startswith("the log directory /logs has been full for 7 s (No space left on device, ")
    assert "reads continue" in reason and "make room" in reason
    assert await ready(broker, "/readyz?exclude=disk") == (200, "ready\n")
    status, reason = await ready(broker, "/readyz?exclude=disc")
    assert (status, reason) == (400, "no check is called 'disc'; exclude any of: serving, disk\n")
    broker.disk.capacity_bytes = None
    await asyncio.sleep(2)
    assert await ready(broker) == (200, "ready\n")


@told_by(with_small_disk)
async def test_the_metrics_show_it(broker: WholeBroker) -> None:
    path = labels(path="/logs")
    await broker.create_topic("t")
    before = scrape(broker)
    assert before["odradek_log_directory_full", path] == 0
    assert before["odradek_log_directory_total_bytes", path] == CAPACITY_BYTES
    await fill(broker, "t")
    full = scrape(broker)
    assert full["odradek_log_directory_full", path] == 1
    assert full["odradek_log_directory_online", path] == 1
    assert full["odradek_log_directory_free_bytes", path] < 10_000
    broker.disk.capacity_bytes = None
    await asyncio.sleep(2)
    assert scrape(broker)["odradek_log_directory_full", path] == 0


async def described(broker: WholeBroker) -> tuple[int, int, int]:
    (found,) = (await broker.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None)).results
    return found.error_code, found.total_bytes, found.usable_bytes


@told_by(with_small_disk)
async def test_describe_log_dirs_tells_total_and_usable_bytes(broker: WholeBroker) -> None:
    await broker.create_topic("t")
    await fill(broker, "t")
    free = CAPACITY_BYTES - broker.disk.used_bytes
    assert await described(broker) == (NONE, CAPACITY_BYTES, free)


@told_by(with_small_disk)
async def test_a_used_up_quota_shows_no_usable_bytes_on_a_volume_with_space(broker: WholeBroker) -> None:
    await broker.create_topic("t")
    broker.disk.capacity_bytes = None
    broker.disk.fail_call(0, errno.EDQUOT)
    assert (await broker.produce("t", b"x")).error_code == KAFKA_STORAGE_ERROR
    assert (await described(broker))[2] == 0
    assert "quota" in (await ready(broker))[1]
    await asyncio.sleep(2)
    assert (await described(broker))[2] > 0


@told_by(with_small_disk)
async def test_too_many_open_files_are_told_as_such_and_are_no_full_disk(
    broker: WholeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.create_topic("t")
    broker.disk.capacity_bytes = None
    broker.disk.fail_call(0, errno.EMFILE)
    assert (await broker.produce("t", b"x")).error_code == KAFKA_STORAGE_ERROR
    (begun,) = told(caplog, "refuses writes (Too many open files")
    assert "ulimit -n" in begun and "delete topics" not in begun
    assert scrape(broker)["odradek_log_directory_full", labels(path="/logs")] == 0
    assert (await ready(broker))[0] == 503
    # Opening one file now and then proves nothing: it is over when nothing was refused for a minute.
    await asyncio.sleep(50)
    assert (await ready(broker))[0] == 503
    await asyncio.sleep(15)
    assert (await ready(broker))[0] == 200


def test_retention_makes_room_on_a_full_disk(caplog: pytest.LogCaptureFixture) -> None:
    """Also where nothing can be written: neither the file of epochs nor a new segment."""
    settings = {"log.retention.check.interval.ms": "1000", "log.segment.delete.delay.ms": "1000"}

    async def story(broker: WholeBroker) -> None:
        broker.disk.capacity_bytes = 5 * CAPACITY_BYTES
        await broker.create_topic("t", segment_bytes=str(CAPACITY_BYTES))
        await fill(broker, "t")
        # The last bytes too.
        broker.disk.capacity_bytes = broker.disk.used_bytes
        partition = broker.broker.partitions.find("t", 0)
        assert partition is not None
        end = partition.log.log_end_offset
        partition.log.reconfigure(partition.log.config._replace(retention_ms=1))
        await asyncio.sleep(10)
        assert broker.disk.used_bytes < CAPACITY_BYTES / 4
        assert partition.log.log_start_offset == end
        assert (await broker.produce("t", b"x")).error_code == NONE

    with_small_disk(story, settings=settings)
