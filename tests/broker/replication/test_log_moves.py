"""Replicas move between the log directories of a broker that serves them all the while (KIP-113)."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey
from tests.support.cleaning import HeldRounds, cleaning_broker, fill, held, log_of, until
from tests.support.disk import SimulatedDisk
from tests.support.logs import stored_records
from tests.support.memory_registry import MemoryRegistry
from tests.support.polling import eventually
from tests.support.whole_broker import WholeBroker
from tests.support.whole_cluster import WholeCluster

BOTH = {"log.dirs": "/one,/two", "log.initial.task.delay.ms": "0"}
REPLICA_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR, LOG_DIR_NOT_FOUND = 9, 3, 56, 57


async def _alter(broker: WholeBroker, path: str, topic: str = "t", partition: int = 0) -> int:
    answer = await broker.ask(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        2,
        dirs=[{"path": path, "topics": [{"name": topic, "partitions": [partition]}]}],
    )
    ((result,),) = [one.partitions for one in answer.results]
    return int(result.error_code)


async def _places(broker: WholeBroker) -> dict[str, list[tuple[int, bool]]]:
    """By directory, the offset lag of each replica of t there, and whether it is on its way."""
    answer = await broker.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None)
    return {
        directory.log_dir: [
            (int(partition.offset_lag), bool(partition.is_future_key))
            for topic in directory.topics
            if topic.name == "t"
            for partition in topic.partitions
        ]
        for directory in answer.results
    }


def _path(broker: WholeBroker) -> str:
    return broker.broker.partitions.get("t", 0).log.parent_directory


async def _values(broker: WholeBroker) -> list[bytes | None]:
    return [record.value for record in stored_records(broker.broker.partitions.get("t", 0).log)]


async def _filled(entries: dict[str, str] | None = None, **more: Any) -> tuple[WholeBroker, str, str]:
    """A broker with 30 records of t, where they are, and the other directory."""
    broker = await WholeBroker.start(BOTH | (entries or {}), **more)
    await broker.create_topic("t", segment_bytes="1048576", index_interval_bytes="4096")
    for number in range(30):
        await broker.produce("t", b"%d" % number + b"x" * 100_000)
    here = _path(broker)
    return broker, here, "/two" if here == "/one" else "/one"


async def test_a_replica_moves_while_records_come() -> None:
    broker, here, there = await _filled({"replica.alter.log.dirs.io.max.bytes.per.second": "1000000"})
    assert await _alter(broker, there) == 0
    await asyncio.sleep(0.5)
    places = await _places(broker)
    assert [is_future for _, is_future in places[here]] == [False]
    ((lag, is_future),) = places[there]
    assert is_future and 0 < lag <= 30
    for number in range(30, 40):
        answer = await broker.produce("t", b"%d" % number)
        assert (int(answer.error_code), answer.base_offset) == (0, number)
        await asyncio.sleep(0.1)
    await eventually("it has moved", lambda: _path(broker) == there)
    values = await _values(broker)
    assert len(values) == 40
    assert values[-1] == b"39"
    await eventually(
        "the old files are gone",
        lambda: not [path for path in broker.disk.paths("") if path.startswith(f"{here}/t-0")],
    )
    assert await _places(broker) == {here: [], there: [(0, False)]}


async def test_the_throttle_holds() -> None:
    broker, _, there = await _filled({"replica.alter.log.dirs.io.max.bytes.per.second": "100000"})
    loop = asyncio.get_running_loop()
    begun = loop.time()
    assert await _alter(broker, there) == 0
    await eventually("it has moved", lambda: _path(broker) == there)
    assert 25 < loop.time() - begun < 40, "3 MB at 100 kB per second"


async def test_a_throttle_that_is_lifted_lets_the_move_end() -> None:
    broker, _, there = await _filled({"replica.alter.log.dirs.io.max.bytes.per.second": "1000"})
    assert await _alter(broker, there) == 0
    await asyncio.sleep(5)
    assert [is_future for _, is_future in (await _places(broker))[there]] == [True]
    resource = {"resource_type": 4, "resource_name": str(broker.broker.broker_id)}
    lift = {"name": "replica.alter.log.dirs.io.max.bytes.per.second", "config_operation": 0}
    await broker.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[{**resource, "configs": [{**lift, "value": "50000000"}]}],
        validate_only=False,
    )
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await eventually("it has moved", lambda: _path(broker) == there)
    assert loop.time() - begun < 3, "what was copied at 1 kB per second is waited for at the new rate"


async def test_a_cancelled_move_makes_the_next_one_wait_for_no_lifted_throttle() -> None:
    """`--cancel` of Kafka's tool ends the move and lifts the throttle; the next `--execute` has none."""
    broker, here, there = await _filled({"replica.alter.log.dirs.io.max.bytes.per.second": "1000"})
    assert await _alter(broker, there) == 0
    await asyncio.sleep(5)
    assert await _alter(broker, here) == 0
    await eventually("nothing moves", lambda: not broker.broker.log_manager.moves.under_way)
    assert await _places(broker) == {here: [(0, False)], there: []}
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await eventually(
        "the copy is gone", lambda: not [path for path in broker.disk.paths("") if "-future" in path]
    )
    assert loop.time() - begun < 3


async def test_a_move_that_waits_for_others_is_shown_as_on_its_way() -> None:
    """Kafka makes the future replica when it is asked; its tool takes a replica without one for a lost move."""
    broker, here, there = await _filled(
        {
            "replica.alter.log.dirs.io.max.bytes.per.second": "1000",
            "num.replica.alter.log.dirs.threads": "1",
        }
    )
    assert await _alter(broker, there) == 0
    await broker.create_topic("u", partitions=2)
    at = {number: broker.broker.partitions.get("u", number).log.parent_directory for number in range(2)}
    (number,) = [number for number, path in at.items() if path == here][:1]
    assert await _alter(broker, there, "u", number) == 0
    answer = await broker.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=[{"topic": "u", "partitions": [number]}])
    found = {
        (one.log_dir, bool(partition.is_future_key), int(partition.partition_size))
        for one in answer.results
        for topic in one.topics
        for partition in topic.partitions
    }
    assert found == {(here, False, 0), (there, True, 0)}


async def test_a_move_that_a_stop_interrupts_begins_again() -> None:
    disk, registry = SimulatedDisk(), MemoryRegistry()
    slow = {"replica.alter.log.dirs.io.max.bytes.per.second": "100000"}
    broker, _, there = await _filled(slow, disk=disk, registry=registry)
    assert await _alter(broker, there) == 0
    await asyncio.sleep(1)
    await broker.stop()
    again = await WholeBroker.start(BOTH, disk=disk, registry=registry)
    await eventually("it has moved", lambda: _path(again) == there)
    assert len(await _values(again)) == 30


async def test_a_move_back_ends_the_move() -> None:
    broker, here, there = await _filled({"replica.alter.log.dirs.io.max.bytes.per.second": "100000"})
    assert await _alter(broker, there) == 0
    await asyncio.sleep(1)
    assert await _alter(broker, here) == 0
    await eventually(
        "the copy is gone", lambda: not [path for path in broker.disk.paths("") if "-future" in path]
    )
    assert (_path(broker), broker.broker.log_manager.moves.under_way) == (here, {})
    assert await _alter(broker, there) == 0
    await eventually("it has moved", lambda: _path(broker) == there)


async def test_a_move_that_is_given_up_and_wanted_again_is_done() -> None:
    broker, here, there = await _filled({"replica.alter.log.dirs.io.max.bytes.per.second": "1000000"})
    for path in (there, here, there):
        assert await _alter(broker, path) == 0
    await eventually("it has moved", lambda: _path(broker) == there)


@pytest.mark.parametrize("path", ["/one", "/two"])
async def test_a_replica_comes_to_another_broker_into_the_chosen_directory(path: str) -> None:
    """`kafka-reassign-partitions.sh` with `log_dirs` asks for the directory before the replica is there."""
    cluster = await WholeCluster.start(brokers=2, controllers=1, entries=BOTH)
    topic = {
        "name": "t",
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": 0, "broker_ids": [1]}],
        "configs": [],
    }
    await cluster.ask(1, ApiKey.CREATE_TOPICS, 5, topics=[topic], timeout=30_000, validate_only=False)
    await eventually("broker 2 knows it", lambda: "t" in cluster.brokers[2].images.current.topics)

    async def choose() -> int:
        dirs = [{"path": path, "topics": [{"name": "t", "partitions": [0]}]}]
        answer = await cluster.ask(2, ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=dirs)
        return int(answer.results[0].partitions[0].error_code)

    assert await choose() == REPLICA_NOT_AVAILABLE
    moved = [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [2]}]}]
    await cluster.ask(1, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, topics=moved, timeout=30_000)
    logs = cluster.brokers[2].log_manager
    key = TopicPartition("t", 0)
    await eventually("it is there", lambda: logs.get(key) is not None)
    log = logs.get(key)
    assert log is not None
    assert log.parent_directory == path
    assert await choose() == 0
    assert cluster.brokers[2].log_moves.future_of(log) is None


async def test_nothing_moves_to_a_directory_that_fails_meanwhile() -> None:
    broker, here, there = await _filled({"replica.alter.log.dirs.io.max.bytes.per.second": "1000000"})
    assert await _alter(broker, there) == 0
    await asyncio.sleep(1)
    directories = broker.broker.log_manager.directories
    directories.fail(directories.by_path[there], OSError(errno.EIO, "Input/output error"))
    await eventually("nothing moves", lambda: not broker.broker.log_manager.moves.under_way)
    assert _path(broker) == here
    assert int((await broker.produce("t", b"on")).error_code) == 0
    assert await _alter(broker, there) == KAFKA_STORAGE_ERROR


async def test_a_throttle_of_nothing_is_the_smallest() -> None:
    broker, _, there = await _filled({"replica.alter.log.dirs.io.max.bytes.per.second": "0"})
    assert await _alter(broker, there) == 0
    await asyncio.sleep(60)
    assert broker.broker.log_moves.target_of(broker.broker.partitions.get("t", 0).topic_partition) == there


async def test_a_deleted_topic_moves_no_more() -> None:
    broker, _, there = await _filled({"replica.alter.log.dirs.io.max.bytes.per.second": "100000"})
    assert await _alter(broker, there) == 0
    await asyncio.sleep(1)
    await broker.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["t"], timeout=1000)
    await eventually(
        "the copy is gone", lambda: not [path for path in broker.disk.paths("") if "-future" in path]
    )


async def test_what_cannot_move_is_answered_as_by_kafka() -> None:
    broker, here, there = await _filled()
    assert await _alter(broker, "/three") == LOG_DIR_NOT_FOUND
    assert await _alter(broker, there, "none") == UNKNOWN_TOPIC_OR_PARTITION
    assert await _alter(broker, there, partition=7) == UNKNOWN_TOPIC_OR_PARTITION
    assert await _alter(broker, here + "/") == 0
    assert _path(broker) == here


async def test_a_full_directory_takes_no_log_and_the_log_stays() -> None:
    broker, here, there = await _filled()

    def refuse(kind: str, path: str) -> None:
        if kind == "write" and path.startswith(there) and path.endswith(".log"):
            raise OSError(errno.ENOSPC, "No space left on device", path)

    broker.disk.on_call = refuse
    assert await _alter(broker, there) == 0
    key = broker.broker.partitions.get("t", 0).topic_partition
    await eventually("the move has failed", lambda: broker.broker.log_moves.target_of(key) is None)
    broker.disk.on_call = None
    assert _path(broker) == here
    assert int((await broker.produce("t", b"on")).error_code) == 0
    assert await _alter(broker, there) == 0
    await eventually("it has moved", lambda: _path(broker) == there)


async def test_a_round_of_compaction_is_given_up_by_a_move() -> None:
    """It has written beside the files of before. The next one compacts the log where it is."""
    node = await cleaning_broker(BOTH)
    rounds = HeldRounds(node)
    await node.create_topic("t", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    last = await fill(node, "t")
    await until(lambda: bool(rounds.written))
    there = "/two" if _path(node) == "/one" else "/one"
    assert await _alter(node, there) == 0
    await eventually("it has moved", lambda: _path(node) == there)
    rounds.may_go_on.set()
    await until(lambda: node.broker.cleaner.totals.rounds == 1)
    log = log_of(node, "t")
    assert (log.failure, log.parent_directory, held(log)) == (None, there, last)


async def _cordon(broker: WholeBroker, value: str) -> tuple[int, str]:
    configs = [{"name": "cordoned.log.dirs", "config_operation": 0, "value": value}]
    resource = {"resource_type": 4, "resource_name": str(broker.broker.broker_id), "configs": configs}
    answer = await broker.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    return int(answer.responses[0].error_code), answer.responses[0].error_message or ""


async def test_no_new_log_is_made_in_a_cordoned_directory() -> None:
    broker = await WholeBroker.start(BOTH)
    assert await _cordon(broker, "/one") == (0, "")
    described = await broker.ask(ApiKey.DESCRIBE_LOG_DIRS, 5, topics=[])
    assert {one.log_dir: one.is_cordoned for one in described.results} == {"/one": True, "/two": False}
    await broker.create_topic("t", partitions=6)
    logs = [broker.broker.partitions.get("t", number).log for number in range(6)]
    assert {log.parent_directory for log in logs} == {"/two"}
    assert await _alter(broker, "/one") == 0
    await eventually("what is asked for by name moves all the same", lambda: _path(broker) == "/one")
    again = await broker.restart()
    assert again.broker.log_manager.directories.cordoned == {"/one"}


@pytest.mark.parametrize(
    ("value", "code", "words"),
    [
        (
            "/three",
            42,
            "Invalid entry in cordoned.log.dirs: /three. The log directories of this broker are /one, /two.",
        ),
        ("/one,/two", 42, "set cordoned.log.dirs=*"),
        ("one", 42, "Invalid entry in cordoned.log.dirs: one."),
        ("*,/one", 42, "Invalid entry in cordoned.log.dirs: *."),
    ],
)
async def test_a_cordon_that_cannot_be_is_refused(value: str, code: int, words: str) -> None:
    broker = await WholeBroker.start(BOTH)
    refused, text = await _cordon(broker, value)
    assert (refused, words in text) == (code, True), text
