"""A mirror begins where MirrorMaker 2 stopped: from bytes that version 4.1.1 wrote, and after MirrorMaker itself."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek import Producer
from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.results import CommittedOffset
from odradek.foundation.ids import TopicPartition
from odradek.mirror.mirror_maker import StoredPositions
from odradek.mirror.positions import Mismatch
from odradek.mirror.source_batches import Position
from tests.mirror.virtual_clusters import GROUP, TwoWholeClusters, clusters, mirroring
from tests.support.java import JavaUnavailableError, java_arguments, java_environment, mirror_maker_classpath
from tests.support.mirroring import committed, entries, mirrored, running, until, write
from tests.support.peers import TwoClusters, skip_or_fail
from tests.support.stories import in_real_time
from tests.support.whole_broker import START_MS

TOPIC = "mm2-offsets.a.internal"
ZERO, ONE, TWO = (TopicPartition("orders", number) for number in range(3))
# As MirrorMaker 4.1.1 wrote them.
RECORDED = {
    ONE: (b'["MirrorSourceConnector",{"cluster":"a","partition":1,"topic":"orders"}]', b'{"offset":124}'),
    ZERO: (b'["MirrorSourceConnector",{"cluster":"a","partition":0,"topic":"orders"}]', b'{"offset":249}'),
}


def record(key: bytes | None, value: bytes | None, *, at_ms: int = 0) -> ConsumerRecord:
    return ConsumerRecord(TOPIC, 0, 0, at_ms, 0, key, value, (), 0)


def found(*records: ConsumerRecord) -> dict[TopicPartition, Position | Mismatch]:
    stored = StoredPositions("a", {ZERO, ONE, TWO})
    stored.add(records)
    return stored.list_found()


def test_a_mirror_begins_behind_the_last_record_that_was_copied() -> None:
    first = [record(*one) for one in RECORDED.values()]
    assert found(*first) == {ZERO: Position(250), ONE: Position(125)}
    key = RECORDED[ZERO][0]
    assert found(*first, record(key, b'{"offset":260}'))[ZERO] == Position(261)
    assert found(*first, record(key, None)) == {ONE: Position(125)}, "a position that was deleted"
    assert found(*first, record(key, b'{"offset":-1}')) == {ONE: Position(125)}, "nothing was copied"


def test_the_newest_position_counts_where_two_connectors_have_one() -> None:
    key = RECORDED[ZERO][0]
    other = key.replace(b"MirrorSourceConnector", b"from-a")
    old, new = record(key, b'{"offset":1}', at_ms=1), record(other, b'{"offset":2}', at_ms=2)
    assert found(old, new) == found(new, old) == {ZERO: Position(3)}
    assert found(old, new, record(other, None, at_ms=3)) == {ZERO: Position(2)}


def test_what_other_connectors_store_is_no_position() -> None:
    keys = [
        b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"a","targetClusterAlias":"b"}]',
        b'["MirrorCheckpointConnector",{"group":"g","partition":0,"topic":"orders"}]',
        b'["files",{"filename":"/tmp/x"}]',
        b'["MirrorSourceConnector",{"cluster":"c","partition":0,"topic":"orders"}]',
        b'["MirrorSourceConnector",{"cluster":"a","partition":0,"topic":"others"}]',
        b'["MirrorSourceConnector"]',
        b"\xff",
        b"7",
        None,
    ]
    assert found(*(record(key, b'{"offset":5}') for key in keys)) == {}


@pytest.mark.parametrize(
    "value", [b"", b"\xff", b"5", b'{"offset":"5"}', b'{"offset":true}', b'{"position":5}']
)
def test_a_position_that_cannot_be_read_is_not_guessed(value: bytes) -> None:
    one = found(record(RECORDED[ZERO][0], value))[ZERO]
    assert isinstance(one, Mismatch) and "cannot be read" in one.what


async def store(both: TwoWholeClusters, *positions: tuple[int, bytes], alias: str = "a") -> None:
    """Write positions of `t` at the target, as MirrorMaker does."""
    async with both.client("b") as target, Producer(target) as producer:
        for number, value in positions:
            key = b'["MirrorSourceConnector",{"cluster":"%s","partition":%d,"topic":"t"}]'
            await producer.send(TOPIC, value, key=key % (alias.encode(), number), timestamp_ms=START_MS)


async def make_topic(both: TwoWholeClusters) -> None:
    async with both.client("b") as target:
        await TopicAdmin(target).create(TOPIC, partitions=25, configs={"cleanup.policy": "compact"})


async def copied(target: Client) -> dict[int, list[bytes | None]]:
    rows = await committed(target, "a.t")
    return {number: [row[2] for row in one] for number, one in rows.items()}


async def test_partitions_begin_once_where_mirror_maker_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def _is(target: Client, wanted: dict[int, list[bytes]]) -> bool:
        return await copied(target) == wanted

    async with (
        clusters(monkeypatch, partitions=4) as both,
        both.client("a") as source,
        both.client("b") as target,
    ):
        for number in range(4):
            async with Producer(source) as producer:
                for value in range(5):
                    await producer.send("t", b"%d" % value, partition=number, timestamp_ms=START_MS)
        await make_topic(both)
        # Copied: 3 records, nothing, what cannot be read, and what the mirror itself has copied further.
        await store(both, (0, b'{"offset":2}'), (2, b"?"), (3, b'{"offset":0}'))
        await TopicAdmin(target).create("a.t", partitions=4)
        await GroupAdmin(target).alter_offsets(GROUP, {TopicPartition("a.t", 3): CommittedOffset(4, -1, "")})
        properties = mirroring(mirror__maker__offsets__topic=TOPIC)
        wanted = {0: [b"3", b"4"], 1: [b"0", b"1", b"2", b"3", b"4"], 3: [b"4"]}
        async with running(properties) as mirror:
            await until(lambda: _is(target, wanted))
            stopped = mirror.flows[0].counters.partitions[TopicPartition("t", 2)].stopped
            assert stopped is not None and stopped.kind == "mirror-maker-position"
            assert "remove mirror.maker.offsets.topic from the file" in stopped.text
        # Its own positions count from now on, and another of MirrorMaker's changes nothing.
        await store(both, (0, b'{"offset":0}'), (2, b'{"offset":3}'))
        async with running(properties):
            await until(lambda: _is(target, {**wanted, 2: [b"4"]}))


async def test_what_is_not_there_is_not_taken_for_nothing_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    async with clusters(monkeypatch) as both, both.client("b") as target:
        await both.produce("0", "1", "2")
        async with running(mirroring(mirror__maker__offsets__topic=TOPIC)) as mirror:

            async def says(text: str) -> bool:
                last = mirror.flows[0].counters.last_error
                return last is not None and text in last.text

            await until(lambda: says(f"there is no topic '{TOPIC}' at cluster 'b'"))
            await make_topic(both)
            await until(lambda: says("has no positions of MirrorMaker 2 for source 'a'; correct"))
            await store(both, (0, b'{"offset":0}'), alias="east")
            await until(lambda: says("for source 'a' (it has some for east); correct"))
            assert await copied(target) == {}
            await store(both, (0, b'{"offset":1}'))
            await until(lambda: both.copy_is("2"))


@contextmanager
def mirror_maker(folder: Path, given: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """MirrorMaker 2 as a process of its own."""
    try:
        classpath = mirror_maker_classpath()
    except JavaUnavailableError as failure:
        skip_or_fail(str(failure))
    file = folder / "mm2.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in given.items()))
    with (folder / "mm2.log").open("wb") as log:
        process = subprocess.Popen(
            java_arguments("org.apache.kafka.connect.mirror.MirrorMaker", [str(file)], classpath=classpath),
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env=java_environment(),
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.thorough
@pytest.mark.java
@in_real_time
async def test_a_mirror_continues_in_the_place_of_mirror_maker(
    clusters: TwoClusters, unique: str, tmp_path: Path
) -> None:
    given = {
        **entries(clusters.source.bootstrap, clusters.target.bootstrap, name=unique, topics=unique),
        **{f"{one}.storage.replication.factor": "1" for one in ("offset", "config", "status")},
        "offset.flush.interval.ms": "1000",
    }
    # It refuses to copy without offset syncs.
    theirs = {key: value for key, value in given.items() if key != "name"} | {
        "emit.offset-syncs.enabled": "true"
    }
    async with Client(clusters.source.bootstrap) as source, Client(clusters.target.bootstrap) as target:
        copy = f"a.{unique}"
        await TopicAdmin(source).create(unique, partitions=3)
        await write(source, unique, 300, partitions=2)
        with mirror_maker(tmp_path, theirs) as process:
            await until(lambda: mirrored(source, target, unique, copy), seconds_max=240)
            async with running({**given, "mirror.maker.offsets.topic": TOPIC}) as mirror:

                async def waits() -> bool:
                    last = mirror.flows[0].counters.last_error
                    return last is not None and "MirrorMaker 2 still copies a->b" in last.text

                await until(waits)
                process.terminate()
                await asyncio.to_thread(process.wait, 60)
                await write(source, unique, 300, first=300, partitions=3)
                await until(lambda: mirrored(source, target, unique, copy))
                counters = mirror.flows[0].counters.partitions
                assert sum(of.records for of in counters.values()) == 300
