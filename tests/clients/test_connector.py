"""ConsumerConnector on a cluster with a real ZooKeeper: sharing, offsets, sessions that end."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from kazoo.client import KazooClient

from odradek.clients import (
    ConsumerConnector,
    ConsumerRebalanceFailedException,
    ConsumerTimeoutException,
    InvalidConfigException,
    KafkaStream,
    KeyedMessage,
    MessageStreamsExistException,
    OutOfRangeException,
    Producer,
    Progress,
    StringDecoder,
    TopicPartition,
    Whitelist,
    aio,
)
from tests.support.cluster_processes import Cluster
from tests.support.peers import topic_creator
from tests.support.polling import wait_until
from tests.support.stories import in_real_time
from tests.support.zookeeper import ZooKeeper, end_session

pytestmark = pytest.mark.integration

SESSION_MS = 15_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeper) -> Iterator[Cluster]:
    """One broker and its controller."""
    settings = {"offsets.topic.num.partitions": "2", "offsets.topic.replication.factor": "1"}
    cluster = Cluster(
        tmp_path_factory.mktemp("cluster"), zookeeper.connect, brokers=1, controllers=1, settings=settings
    )
    cluster.start()
    yield cluster
    cluster.close()


@pytest.fixture
def registry(cluster: Cluster) -> Iterator[KazooClient]:
    client = KazooClient(hosts=cluster.connect)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def connect(cluster: Cluster, unique: str) -> Iterator[Callable[..., ConsumerConnector]]:
    """`connect(name=value)` makes a consumer of the test's group; underscores stand for dots."""
    made: list[ConsumerConnector] = []

    def make(
        start_offsets: Callable[..., Mapping[TopicPartition, int]] | None = None, **given: object
    ) -> ConsumerConnector:
        properties = {name.replace("_", "."): value for name, value in given.items()}
        connector = ConsumerConnector(
            {
                "zk.connect": cluster.connect,
                "groupid": unique,
                "autooffset.reset": "smallest",
                "consumer.timeout.ms": 20_000,
                "zk.sessiontimeout.ms": SESSION_MS,
                **properties,
            },
            start_offsets=start_offsets,
        )
        made.append(connector)
        return connector

    yield make
    for connector in made:
        connector.shutdown()


def create(cluster: Cluster, partitions: int = 1, name: str | None = None) -> str:
    return topic_creator(cluster.bootstrap)(partitions, name)


class ByNumber:
    def partition(self, key: int, num_partitions: int) -> int:
        return key % num_partitions


def write(cluster: Cluster, topic: str, numbers: Sequence[int]) -> None:
    """Message N to partition N modulo their number."""
    with Producer({"broker.list": cluster.bootstrap}, partitioner=ByNumber()) as producer:
        producer.send([KeyedMessage(topic, b"%d" % number, part_key=number) for number in numbers])


def take(stream: KafkaStream, count: int) -> list[int]:
    return [int(next(stream).message) for _ in range(count)]


def offset_of(registry: KazooClient, group: str, topic: str, partition: int = 0) -> int | None:
    path = f"/consumers/{group}/offsets/{topic}/{partition}"
    return int(registry.get(path)[0]) if registry.exists(path) else None


def test_a_stream_gives_messages_and_offsets_are_committed(
    cluster: Cluster, connect: Callable[..., ConsumerConnector], registry: KazooClient, unique: str
) -> None:
    topic = create(cluster, 2)
    write(cluster, topic, range(10))
    connector = connect(consumer_timeout_ms=3_000)
    streams = connector.create_message_streams({topic: 1}, decoder=StringDecoder())
    (stream,) = streams[topic]
    found = [next(stream) for _ in range(10)]
    assert sorted(int(one.message) for one in found) == list(range(10))
    assert {(one.topic, one.partition) for one in found} == {(topic, 0), (topic, 1)}
    for _ in range(2):
        with pytest.raises(ConsumerTimeoutException):
            next(stream)
    write(cluster, topic, [10])
    assert next(stream).message == "10"
    data, stat = registry.get(f"/consumers/{unique}/ids/{connector.consumer_id}")
    assert data.startswith(
        b'{"version":1,"subscription":{"%s":1},"pattern":"static","timestamp":"' % topic.encode()
    )
    assert stat.ephemeralOwner
    assert registry.get(f"/consumers/{unique}/owners/{topic}/1")[0].decode() == f"{connector.consumer_id}-0"
    assert offset_of(registry, unique, topic) is None
    connector.commit_offsets()
    assert registry.get(f"/consumers/{unique}/offsets/{topic}/0")[0] == b"6"
    with pytest.raises(MessageStreamsExistException):
        connector.create_message_streams({topic: 1})
    connector.shutdown()
    assert list(stream) == []
    assert registry.get_children(f"/consumers/{unique}/ids") == []
    assert registry.get_children(f"/consumers/{unique}/owners/{topic}") == []


def test_only_what_the_program_asked_beyond_is_committed_by_itself(
    cluster: Cluster, connect: Callable[..., ConsumerConnector], registry: KazooClient, unique: str
) -> None:
    topic = create(cluster)
    write(cluster, topic, range(5))
    connector = connect(autocommit_interval_ms=50)
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    assert take(stream, 3) == [0, 1, 2]
    wait_until("it has come to be", lambda: offset_of(registry, unique, topic) == 2)
    time.sleep(0.2)  # several more commits
    assert offset_of(registry, unique, topic) == 2  # message 2 is still in hand
    connector.shutdown()
    (stream,) = connect().create_message_streams({topic: 1})[topic]
    assert take(stream, 3) == [2, 3, 4]


def test_members_share_partitions_join_and_leave(
    cluster: Cluster, connect: Callable[..., ConsumerConnector], unique: str
) -> None:
    topic = create(cluster, 5)
    first = connect(consumer_id="a")
    one, two = first.create_message_streams({topic: 2})[topic]
    write(cluster, topic, range(5))
    assert sorted(take(one, 3) + take(two, 2)) == list(range(5))
    assert len(first.owned_partitions) == 5
    first.commit_offsets()
    second = connect(consumer_id="b")
    (three,) = second.create_message_streams({topic: 1})[topic]
    wait_until(
        "it has come to be", lambda: len(first.owned_partitions) == 4 and len(second.owned_partitions) == 1
    )
    assert second.owned_partitions == {(topic, 4)}
    write(cluster, topic, range(5, 10))
    assert sorted(take(one, 2) + take(two, 2)) + take(three, 1) == [5, 6, 7, 8, 9]
    for connector in (first, second):
        connector.commit_offsets()
    first.shutdown()
    wait_until("it has come to be", lambda: len(second.owned_partitions) == 5)
    write(cluster, topic, range(10, 15))
    assert sorted(take(three, 5)) == list(range(10, 15))


def test_new_topics_and_partitions_join_in(
    cluster: Cluster, connect: Callable[..., ConsumerConnector], unique: str
) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    topic = create(cluster, 1, f"{unique}.one")
    connector = connect()
    (stream,) = connector.create_message_streams_by_filter(Whitelist(rf"{unique}\..*"))
    assert connector.owned_partitions == {(topic, 0)}
    other = create(cluster, 1, f"{unique}.two")
    create(cluster, 1, f"other.{unique}")
    wait_until("it has come to be", lambda: connector.owned_partitions == {(topic, 0), (other, 0)})
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_partitions([NewPartitions(topic, 2)]).values():
        future.result(30)
    wait_until(
        "it has come to be", lambda: connector.owned_partitions == {(topic, 0), (topic, 1), (other, 0)}
    )
    write(cluster, topic, [0, 1])
    write(cluster, other, [2])
    assert sorted(take(stream, 3)) == [0, 1, 2]


def test_a_seek_goes_back_and_survives(
    cluster: Cluster, connect: Callable[..., ConsumerConnector], registry: KazooClient, unique: str
) -> None:
    topic = create(cluster)
    write(cluster, topic, range(5))
    connector = connect()
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    assert take(stream, 4) == [0, 1, 2, 3]
    connector.commit_offsets()
    connector.seek(topic, 0, 1)
    assert offset_of(registry, unique, topic) == 1
    assert take(stream, 2) == [1, 2]
    with pytest.raises(InvalidConfigException, match="not owned"):
        connector.seek(topic, 7, 1)


def test_a_program_keeps_its_offsets_itself(
    cluster: Cluster, connect: Callable[..., ConsumerConnector], registry: KazooClient, unique: str
) -> None:
    topic = create(cluster)
    write(cluster, topic, range(5))
    asked: list[TopicPartition] = []

    def start_offsets(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        asked.extend(partitions)
        return dict.fromkeys(partitions, 3)

    connector = connect(start_offsets=start_offsets, autocommit_interval_ms=10)
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    assert take(stream, 2) == [3, 4]
    connector.commit_offsets()
    connector.shutdown()
    assert asked == [(topic, 0)]
    assert offset_of(registry, unique, topic) is None


def test_offsets_may_be_with_the_coordinator(
    cluster: Cluster, connect: Callable[..., ConsumerConnector], registry: KazooClient, unique: str
) -> None:
    topic = create(cluster)
    write(cluster, topic, range(5))
    for expected in ([0, 1], [2, 3]):
        connector = connect(offsets_storage="kafka")
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        assert take(stream, 2) == expected
        connector.commit_offsets()
        connector.shutdown()
    assert offset_of(registry, unique, topic) is None


def test_an_offset_the_log_lacks_is_reset_or_raised(
    cluster: Cluster, connect: Callable[..., ConsumerConnector], registry: KazooClient, unique: str
) -> None:
    topic = create(cluster)
    write(cluster, topic, range(3))
    registry.create(f"/consumers/{unique}/offsets/{topic}/0", b"99", makepath=True)
    failing = connect(autooffset_reset="error", auto_commit_enable="false")
    (stream,) = failing.create_message_streams({topic: 1})[topic]
    with pytest.raises(OutOfRangeException):
        next(stream)
    failing.shutdown()
    (stream,) = connect().create_message_streams({topic: 1})[topic]
    assert take(stream, 3) == [0, 1, 2]


def test_a_lost_session_hands_out_and_commits_nothing(
    cluster: Cluster, connect: Callable[..., ConsumerConnector], registry: KazooClient, unique: str
) -> None:
    topic = create(cluster)
    write(cluster, topic, range(100))
    connector = connect(autocommit_interval_ms=60_000)
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    assert take(stream, 10) == list(range(10))
    engine, inner = connector._engine, connector._connector
    engine.call(lambda: end_session(inner._store, cluster.connect))  # type: ignore[arg-type]
    wait_until("it has come to be", lambda: connector.owned_partitions)
    # Nothing was committed of what the first session owned, so the second one begins where the group was.
    assert take(stream, 3) == [0, 1, 2]
    assert offset_of(registry, unique, topic) is None


def test_a_stalled_consumer_hands_out_nothing_more(
    cluster: Cluster, connect: Callable[..., ConsumerConnector]
) -> None:
    topic = create(cluster)
    write(cluster, topic, range(100))
    connector = connect(consumer_timeout_ms=3_000, zk_sessiontimeout_ms=2_000)
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    assert take(stream, 10) == list(range(10))
    stalled = threading.Event()
    engine = connector._engine
    engine._loop.call_soon_threadsafe(stalled.wait, 120)  # as a stopped process
    try:
        wait_until("it has come to be", lambda: not connector._connector.lease.is_valid)
        with pytest.raises(ConsumerTimeoutException):
            next(stream)  # although the batch is decoded
    finally:
        stalled.set()


def test_a_seek_is_not_undone_by_what_was_in_hand(
    cluster: Cluster, connect: Callable[..., ConsumerConnector], registry: KazooClient, unique: str
) -> None:
    topic = create(cluster)
    write(cluster, topic, range(5))
    connector = connect(autocommit_interval_ms=20)
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    assert take(stream, 4) == [0, 1, 2, 3]
    connector.seek(topic, 0, 1)
    time.sleep(0.2)  # several automatic commits
    assert offset_of(registry, unique, topic) == 1
    connector.shutdown()
    assert offset_of(registry, unique, topic) == 1


@in_real_time
async def test_streams_of_one_group_in_asyncio(cluster: Cluster, unique: str) -> None:
    topic = create(cluster, 2)
    await asyncio.to_thread(write, cluster, topic, range(6))
    properties = {"zk.connect": cluster.connect, "groupid": unique, "autooffset.reset": "smallest"}
    async with (
        asyncio.timeout(60),
        aio.ConsumerConnector(properties | {"consumer.timeout.ms": 3_000}) as connector,
    ):
        one, two = (await connector.create_message_streams({topic: 2}))[topic]
        assert sorted([int((await anext(one)).message) for _ in range(3)]) == [0, 2, 4]
        assert [int((await anext(two)).message) for _ in range(3)] == [1, 3, 5]
        with pytest.raises(ConsumerTimeoutException):
            await anext(one)
        waiting = asyncio.ensure_future(anext(two))
        async with aio.Producer({"broker.list": cluster.bootstrap}, partitioner=ByNumber()) as producer:
            await producer.send(KeyedMessage(topic, b"7", part_key=1))
        assert (await waiting).message == b"7"
        await connector.commit_offsets()
        await connector.seek(topic, 1, 3)
        assert (await anext(two)).message == b"7"
    assert [message async for message in two] == []


def test_an_id_node_that_cannot_be_read_stops_no_other(
    cluster: Cluster, connect: Callable[..., ConsumerConnector], registry: KazooClient, unique: str
) -> None:
    topic = create(cluster, 2)
    registry.create(
        f"/consumers/{unique}/ids/poison", b'{"%s":1}' % topic.encode(), ephemeral=True, makepath=True
    )
    connector = connect()
    connector.create_message_streams({topic: 1})
    assert len(connector.owned_partitions) == 2


def test_a_claim_waits_until_the_owner_has_left(
    cluster: Cluster, connect: Callable[..., ConsumerConnector], registry: KazooClient, unique: str
) -> None:
    topic = create(cluster, 2)
    node = f"/consumers/{unique}/owners/{topic}/1"
    registry.create(node, b"another-0", ephemeral=True, makepath=True)
    connector = connect(rebalance_backoff_ms=200)
    connector.create_message_streams({topic: 1})
    assert connector.owned_partitions == frozenset()
    assert registry.get_children(f"/consumers/{unique}/owners/{topic}") == ["1"]  # all or none
    registry.delete(node)
    wait_until("it has come to be", lambda: len(connector.owned_partitions) == 2)


def test_an_id_that_is_taken_is_an_error(cluster: Cluster, connect: Callable[..., ConsumerConnector]) -> None:
    topic = create(cluster)
    connect(consumer_id="same").create_message_streams({topic: 1})
    with pytest.raises(ConsumerRebalanceFailedException, match="another session"):
        connect(consumer_id="same").create_message_streams({topic: 1})


def test_what_a_connector_needs_is_said(cluster: Cluster) -> None:
    with pytest.raises(InvalidConfigException, match=r"group.id is missing"):
        ConsumerConnector({"zk.connect": cluster.connect})
    with pytest.raises(InvalidConfigException, match=r"zookeeper.connect is missing"):
        ConsumerConnector({"groupid": "g"})


def test_a_stream_reports_its_progress(
    cluster: Cluster, connect: Callable[..., ConsumerConnector], unique: str
) -> None:
    topic = create(cluster)
    write(cluster, topic, range(3))
    write(cluster, topic, range(3, 7))
    seen: list[Progress] = []
    (stream,) = connect().create_message_streams({topic: 1}, on_progress=seen.append)[topic]
    assert take(stream, 3) == [0, 1, 2]
    assert seen == [Progress(topic, 0, 0, 7)]
    assert take(stream, 4) == [3, 4, 5, 6]
    assert seen == [Progress(topic, 0, 0, 7), Progress(topic, 0, 3, 7)]


def test_the_group_is_shown_with_its_owners_and_lag(
    cluster: Cluster, connect: Callable[..., ConsumerConnector], unique: str
) -> None:
    topic = create(cluster, 2)
    write(cluster, topic, range(10))
    connector = connect()
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    take(stream, 10)
    connector.commit_offsets()
    write(cluster, topic, range(10, 14))

    def shown(*command: str) -> Any:
        arguments = ["-b", cluster.bootstrap, "--output", "json"]
        done = subprocess.run(
            [sys.executable, "-m", "odradek", "groups", *command, *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr

    rows = [row for row in shown("list", "--type", "zookeeper") if row["group_id"] == unique]
    assert [(row["type"], row["state"]) for row in rows] == [("zookeeper", "Stable")]
    (group,) = shown("describe", unique)
    assert (group["type"], group["state"], group["assignor"]) == ("zookeeper", "Stable", "range")
    assert [member["member_id"] for member in group["members"]] == [connector.consumer_id]
    # What the stream holds ready is not consumed.
    rows = [(one["partition"], one["committed"], one["lag"], one["member_id"]) for one in group["partitions"]]
    assert rows == [(number, 5, 2, connector.consumer_id) for number in range(2)]
    connector.shutdown()
    (group,) = shown("describe", unique)
    assert (group["state"], group["members"]) == ("Empty", [])
    refused = shown("reset-offsets", unique, "--all-topics", "--to-earliest", "--execute")
    assert "kept in ZooKeeper" in refused
    assert "kept in ZooKeeper" in shown("delete", unique)
