"""The cleaner of a running broker: which logs it takes, several at once, and what ends a round early."""

from __future__ import annotations

import asyncio
import errno
import logging
import re

import pytest

from odradek.broker.replication.cleaner import WorkerDied
from tests.server.test_broker_metrics import scrape
from tests.support.cleaning import ENTRIES, HeldRounds, Pair, cleaning_broker, fill, held, log_of, put, until
from tests.support.whole_broker import WholeBroker


async def compacted_topic(
    node: WholeBroker, name: str = "table", *, partitions: int = 1, **config: str
) -> None:
    settings = {"min_cleanable_dirty_ratio": "0.01", **config}
    await node.create_topic(name, partitions=partitions, cleanup_policy="compact", **settings)


async def test_each_thread_has_a_partition_of_its_own() -> None:
    node = await cleaning_broker({"log.cleaner.threads": "2"})
    rounds = HeldRounds(node)
    await compacted_topic(node, partitions=3)
    last = [await fill(node, "table", partition) for partition in range(3)]
    await until(lambda: len(rounds.written) == 2)
    await asyncio.sleep(60)
    assert len(set(rounds.under_way)) == len(rounds.under_way) == 2
    assert len(rounds.written) == 2
    rounds.may_go_on.set()
    await until(lambda: node.broker.cleaner.totals.rounds == 3)
    for partition in range(3):
        assert held(log_of(node, "table", partition)) == last[partition]


async def test_a_round_logs_and_counts_what_it_read_kept_and_saved(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    node = await cleaning_broker()
    await compacted_topic(node)
    for value in (b"old" * 100, b"new" * 100):
        await put(node, "table", (b"a", value), (b"b", value))
    log_of(node, "table").roll()
    log_of(node, "table").flush()
    await until(lambda: node.broker.cleaner.totals.rounds == 1)
    totals = node.broker.cleaner.totals
    assert (totals.records_kept, totals.records_removed) == (2, 2)
    assert 0 < totals.map_fill_ratio < 0.001
    (line,) = [one.getMessage() for one in caplog.records if "compacted up to" in one.getMessage()]
    kept, _, of_map = line.partition(". ")
    found = re.fullmatch(
        r"table-0: compacted up to 4: 2 of 4 records stay, 0\.0 of 0\.0 MB \((\d+\.\d)% saved\)", kept
    )
    assert found is not None, line
    assert 30 < float(found[1]) < 70
    assert of_map.startswith("2 keys, 0.0% of the map, ")
    samples = scrape(node)
    assert samples["odradek_cleaner_records_kept_total", ()] == 2
    assert samples["odradek_cleaner_saved_bytes_total", ()] == totals.bytes_saved
    assert samples["odradek_cleaner_map_fill_ratio", ()] == totals.map_fill_ratio
    assert totals.bytes_saved > 300


async def test_the_memory_and_rate_of_all_threads_are_divided() -> None:
    entries = {
        "log.cleaner.threads": "2",
        "log.cleaner.dedupe.buffer.size": str(10 << 20),
        "log.cleaner.io.buffer.size": str(64 << 20),
        "log.cleaner.io.max.bytes.per.second": "1000",
    }
    node = await cleaning_broker(entries)
    rounds = HeldRounds(node)
    await compacted_topic(node)
    await fill(node, "table")
    await until(lambda: bool(rounds.tasks))
    task = rounds.tasks[0]
    assert (task.map_bytes, task.window_bytes, task.bytes_per_second) == (5 << 20, 32 << 20, 500)


async def test_a_record_that_waits_for_too_long_closes_the_active_segment() -> None:
    """max.compaction.lag.ms on a quiet log: no append would close the segment, and no ratio makes it due."""
    node = await cleaning_broker()
    await compacted_topic(node, min_cleanable_dirty_ratio="1", max_compaction_lag_ms="60000")
    await compacted_topic(node, "patient")
    for topic in ("table", "patient"):
        await put(node, topic, (b"a", b"old"), (b"b", b"only"))
        await put(node, topic, (b"a", b"new"))
    log = log_of(node, "table")
    await asyncio.sleep(50)
    assert len(held(log)) == 3
    await asyncio.sleep(30)
    assert log.segments.active.base_offset == 3
    await until(lambda: node.broker.cleaner.totals.rounds == 1)
    assert held(log) == [(b"b", b"only"), (b"a", b"new")]
    assert log.log_end_offset == 3
    await asyncio.sleep(600)
    # Without the setting the active segment stays as it is.
    assert len(held(log_of(node, "patient"))) == 3


async def test_a_truncation_ends_the_round_and_lowers_the_checkpoint() -> None:
    node = await cleaning_broker()
    rounds = HeldRounds(node)
    rounds.may_go_on.set()
    await compacted_topic(node)
    await fill(node, "table")
    log = log_of(node, "table")
    await until(lambda: log.offsets.cleaned_offset == 30)
    rounds.may_go_on.clear()
    await fill(node, "table")
    await until(lambda: len(rounds.written) == 2)
    segments = log.segments.all
    log.truncate_to(25)
    await until(lambda: not rounds.under_way)
    # Nothing was swapped in, and all that is left may be dirty again.
    assert log.segments.all[0] is segments[0]
    assert log.offsets.cleaned_offset <= log.log_end_offset
    assert node.disk.paths(".cleaned") == []
    assert node.broker.cleaner.uncleanable == {}
    rounds.may_go_on.set()
    last = await fill(node, "table")
    await until(lambda: node.broker.cleaner.totals.rounds == 2)
    assert held(log) == last


async def test_a_damaged_partition_is_marked_and_the_others_go_on() -> None:
    node = await cleaning_broker()
    await compacted_topic(node, partitions=2)
    damaged = log_of(node, "table", 0)
    await fill(node, "table", 0)
    before = damaged.size_bytes
    (path,) = [path for path in node.disk.paths(".log") if "table-0" in path and node.disk.size_bytes(path)]
    node.disk.flip_bit(path, 8 * 100)
    last = await fill(node, "table", 1)
    await until(lambda: node.broker.cleaner.totals.rounds == 1)
    await until(lambda: bool(node.broker.cleaner.uncleanable))
    assert held(log_of(node, "table", 1)) == last
    assert damaged.size_bytes == before
    assert scrape(node)["odradek_uncleanable_partitions", ()] == 1
    assert scrape(node)["odradek_uncleanable_bytes", ()] == before
    # It stays so, and the others are still compacted.
    last = await fill(node, "table", 1)
    await until(lambda: node.broker.cleaner.totals.rounds == 2)
    assert held(log_of(node, "table", 1)) == last
    await asyncio.sleep(600)
    assert scrape(node)["odradek_uncleanable_partitions", ()] == 1
    assert node.broker.cleaner.totals.rounds == 2
    # A restart tries again. Here the log is sound by then.
    node.disk.flip_bit(path, 8 * 100)
    await node.broker.stop()
    node = await WholeBroker.start(ENTRIES, disk=node.disk, registry=node.registry)
    await until(lambda: node.broker.cleaner.totals.rounds == 1)
    assert scrape(node)["odradek_uncleanable_partitions", ()] == 0


async def test_a_full_disk_is_tried_again_until_there_is_room() -> None:
    node = await cleaning_broker()
    rounds = HeldRounds(node)
    rounds.may_go_on.set()
    await compacted_topic(node)
    last = await fill(node, "table")
    log = log_of(node, "table")
    before = held(log)
    node.disk.capacity_bytes = node.disk.used_bytes
    await asyncio.sleep(600)
    cleaner = node.broker.cleaner
    assert (cleaner.totals.rounds, cleaner.uncleanable) == (0, {})
    assert held(log) == before
    assert log.failure is None
    # What a round wrote until the disk was full goes with it.
    assert node.disk.paths(".cleaned") == []
    # Each round reads the log, so they become rarer.
    assert 3 < len(rounds.tasks) < 12
    node.disk.capacity_bytes = None
    await until(lambda: cleaner.totals.rounds == 1)
    assert held(log) == last
    assert node.disk.paths(".cleaned") == []


async def test_a_disk_that_fails_takes_the_directory_offline() -> None:
    node = await cleaning_broker()
    await compacted_topic(node)
    log = log_of(node, "table")
    node.disk.fail_path(f"{log.directory}/00000000000000000000.log.cleaned", errno.EIO)
    await fill(node, "table")
    await until(lambda: log.failure is not None)
    assert "restart the broker" in str(log.failure)
    assert node.broker.cleaner.uncleanable == {}


@pytest.mark.parametrize("deaths", [1, 2, 3])
async def test_a_process_that_dies_is_forgiven_twice(deaths: int) -> None:
    node = await cleaning_broker()
    rounds = HeldRounds(node)
    rounds.may_go_on.set()
    rounds.fails_with = [WorkerDied("killed") for _ in range(deaths)]
    await compacted_topic(node)
    last = await fill(node, "table")
    await asyncio.sleep(600)
    is_forgiven = deaths < 3
    assert held(log_of(node, "table")) == (last if is_forgiven else last_of_all(3))
    assert scrape(node)["odradek_uncleanable_partitions", ()] == (not is_forgiven)


def last_of_all(rounds: int) -> list[Pair]:
    """What `fill` writes, none of it removed."""
    return [(b"key %d" % key, b"value %d" % number) for number in range(rounds) for key in range(10)]
