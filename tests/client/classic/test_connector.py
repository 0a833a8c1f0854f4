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

from odradek.classic import (
    ConsumerConnector,
    ConsumerRebalanceFailedException,
    ConsumerTimeoutException,
    FetchRequest,
    InvalidConfigException,
    KafkaStream,
    KeyedMessage,
    MessageStreamsExistException,
    OutOfRangeException,
    Producer,
    Progress,
    SimpleConsumer,
    StringDecoder,
    TopicPartition,
    Whitelist,
    aio,
)
from tests.support.cluster_processes import Cluster
from tests.support.local_process import running
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
    with running(cluster):
        yield cluster


class ByNumber:
    def partition(self, key: int, num_partitions: int) -> int:
        return key % num_partitions


class Group:
    """A group of the test's own: its consumers, its nodes in the registry, and topics for it."""

    def __init__(self, cluster: Cluster, name: str, registry: KazooClient) -> None:
        self.cluster, self.name, self.registry = cluster, name, registry
        self.made: list[ConsumerConnector] = []

    def connect(
        self, start_offsets: Callable[..., Mapping[TopicPartition, int]] | None = None, **given: object
    ) -> ConsumerConnector:
        """A consumer; underscores stand for dots."""
        connector = ConsumerConnector(
            {
                "zk.connect": self.cluster.connect,
                "groupid": self.name,
                "autooffset.reset": "smallest",
                "consumer.timeout.ms": 20_000,
                "zk.sessiontimeout.ms": SESSION_MS,
                **{name.replace("_", "."): value for name, value in given.items()},
            },
            start_offsets=start_offsets,
        )
        self.made.append(connector)
        return connector

    def stream(self, topic: str, **given: Any) -> tuple[ConsumerConnector, KafkaStream]:
        """A consumer with one stream."""
        connector = self.connect(**given)
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        return connector, stream

    def topic(self, numbers: Sequence[int] = (), *, partitions: int = 1, name: str | None = None) -> str:
        """A new topic with these messages."""
        topic = topic_creator(self.cluster.bootstrap)(partitions, name)
        self.write(topic, numbers)
        return topic

    def write(self, topic: str, numbers: Sequence[int]) -> None:
        """Message N to partition N modulo their number."""
        with Producer({"broker.list": self.cluster.bootstrap}, partitioner=ByNumber()) as producer:
            producer.send([KeyedMessage(topic, b"%d" % number, part_key=number) for number in numbers])

    def offset_of(self, topic: str, partition: int = 0) -> int | None:
        path = f"/consumers/{self.name}/offsets/{topic}/{partition}"
        return int(self.registry.get(path)[0]) if self.registry.exists(path) else None


@pytest.fixture
def group(cluster: Cluster, unique: str) -> Iterator[Group]:
    registry = KazooClient(hosts=cluster.connect)
    registry.start()
    group = Group(cluster, unique, registry)
    yield group
    for connector in group.made:
        connector.shutdown()
    registry.stop()
    registry.close()


def take(stream: KafkaStream, count: int) -> list[int]:
    return [int(next(stream).message) for _ in range(count)]


def test_a_stream_gives_messages_and_offsets_are_committed(group: Group) -> None:
    topic = group.topic(range(10), partitions=2)
    connector = group.connect(consumer_timeout_ms=3_000)
    streams = connector.create_message_streams({topic: 1}, decoder=StringDecoder())
    (stream,) = streams[topic]
    found = [next(stream) for _ in range(10)]
    assert sorted(int(one.message) for one in found) == list(range(10))
    assert {(one.topic, one.partition) for one in found} == {(topic, 0), (topic, 1)}
    for _ in range(2):
        with pytest.raises(ConsumerTimeoutException):
            next(stream)
    group.write(topic, [10])
    assert next(stream).message == "10"
    data, stat = group.registry.get(f"/consumers/{group.name}/ids/{connector.consumer_id}")
    assert data.startswith(
        b'{"version":1,"subscription":{"%s":1},"pattern":"static","timestamp":"' % topic.encode()
    )
    assert stat.ephemeralOwner
    assert (
        group.registry.get(f"/consumers/{group.name}/owners/{topic}/1")[0].decode()
        == f"{connector.consumer_id}-0"
    )
    assert group.offset_of(topic) is None
    connector.commit_offsets()
    assert group.registry.get(f"/consumers/{group.name}/offsets/{topic}/0")[0] == b"6"
    with pytest.raises(MessageStreamsExistException):
        connector.create_message_streams({topic: 1})
    connector.shutdown()
    assert list(stream) == []
    assert group.registry.get_children(f"/consumers/{group.name}/ids") == []
    assert group.registry.get_children(f"/consumers/{group.name}/owners/{topic}") == []


def test_only_what_the_program_asked_beyond_is_committed_by_itself(group: Group) -> None:
    topic = group.topic(range(5))
    connector, stream = group.stream(topic, autocommit_interval_ms=50)
    assert take(stream, 3) == [0, 1, 2]
    wait_until("it has come to be", lambda: group.offset_of(topic) == 2)
    time.sleep(0.2)  # several more commits
    assert group.offset_of(topic) == 2  # message 2 is still in hand
    connector.shutdown()
    _, stream = group.stream(topic)
    assert take(stream, 3) == [2, 3, 4]


def test_members_share_partitions_join_and_leave(group: Group) -> None:
    topic = group.topic(partitions=5)
    first = group.connect(consumer_id="a")
    one, two = first.create_message_streams({topic: 2})[topic]
    group.write(topic, range(5))
    assert sorted(take(one, 3) + take(two, 2)) == list(range(5))
    assert len(first.owned_partitions) == 5
    first.commit_offsets()
    second, three = group.stream(topic, consumer_id="b")
    wait_until(
        "it has come to be", lambda: len(first.owned_partitions) == 4 and len(second.owned_partitions) == 1
    )
    assert second.owned_partitions == {(topic, 4)}
    group.write(topic, range(5, 10))
    assert sorted(take(one, 2) + take(two, 2)) + take(three, 1) == [5, 6, 7, 8, 9]
    for connector in (first, second):
        connector.commit_offsets()
    first.shutdown()
    wait_until("it has come to be", lambda: len(second.owned_partitions) == 5)
    group.write(topic, range(10, 15))
    assert sorted(take(three, 5)) == list(range(10, 15))


def test_new_topics_and_partitions_join_in(group: Group) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    topic = group.topic(partitions=1, name=f"{group.name}.one")
    connector = group.connect()
    (stream,) = connector.create_message_streams_by_filter(Whitelist(rf"{group.name}\..*"))
    assert connector.owned_partitions == {(topic, 0)}
    other = group.topic(partitions=1, name=f"{group.name}.two")
    group.topic(partitions=1, name=f"other.{group.name}")
    wait_until("it has come to be", lambda: connector.owned_partitions == {(topic, 0), (other, 0)})
    admin = AdminClient({"bootstrap.servers": group.cluster.bootstrap})
    for future in admin.create_partitions([NewPartitions(topic, 2)]).values():
        future.result(30)
    wait_until(
        "it has come to be", lambda: connector.owned_partitions == {(topic, 0), (topic, 1), (other, 0)}
    )
    group.write(topic, [0, 1])
    group.write(other, [2])
    assert sorted(take(stream, 3)) == [0, 1, 2]


def test_a_seek_goes_back_and_survives(group: Group) -> None:
    topic = group.topic(range(5))
    connector, stream = group.stream(topic)
    assert take(stream, 4) == [0, 1, 2, 3]
    connector.commit_offsets()
    connector.seek(topic, 0, 1)
    assert group.offset_of(topic) == 1
    assert take(stream, 2) == [1, 2]
    with pytest.raises(InvalidConfigException, match="not owned"):
        connector.seek(topic, 7, 1)


def test_a_program_keeps_its_offsets_itself(group: Group) -> None:
    topic = group.topic(range(5))
    asked: list[TopicPartition] = []

    def start_offsets(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        asked.extend(partitions)
        return dict.fromkeys(partitions, 3)

    connector, stream = group.stream(topic, start_offsets=start_offsets, autocommit_interval_ms=10)
    assert take(stream, 2) == [3, 4]
    connector.commit_offsets()
    connector.shutdown()
    assert asked == [(topic, 0)]
    assert group.offset_of(topic) is None


def test_offsets_may_be_with_the_coordinator(group: Group) -> None:
    topic = group.topic(range(5))
    for expected in ([0, 1], [2, 3]):
        connector, stream = group.stream(topic, offsets_storage="kafka")
        assert take(stream, 2) == expected
        connector.commit_offsets()
        connector.shutdown()
    assert group.offset_of(topic) is None


def test_an_offset_the_log_lacks_is_reset_or_raised(group: Group) -> None:
    topic = group.topic(range(3))
    group.registry.create(f"/consumers/{group.name}/offsets/{topic}/0", b"99", makepath=True)
    failing, stream = group.stream(topic, autooffset_reset="error", auto_commit_enable="false")
    with pytest.raises(OutOfRangeException):
        next(stream)
    failing.shutdown()
    _, stream = group.stream(topic)
    assert take(stream, 3) == [0, 1, 2]


def test_a_lost_session_hands_out_and_commits_nothing(group: Group) -> None:
    topic = group.topic(range(100))
    connector, stream = group.stream(topic, autocommit_interval_ms=60_000)
    assert take(stream, 10) == list(range(10))
    engine, inner = connector._engine, connector._connector
    engine.call(lambda: end_session(inner._store, group.cluster.connect))  # type: ignore[arg-type]
    wait_until("it has come to be", lambda: connector.owned_partitions)
    # Nothing was committed of what the first session owned, so the second one begins where the group was.
    assert take(stream, 3) == [0, 1, 2]
    assert group.offset_of(topic) is None


def test_a_stalled_consumer_hands_out_nothing_more(group: Group) -> None:
    topic = group.topic(range(100))
    connector, stream = group.stream(topic, consumer_timeout_ms=3_000, zk_sessiontimeout_ms=2_000)
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


def test_a_seek_is_not_undone_by_what_was_in_hand(group: Group) -> None:
    topic = group.topic(range(5))
    connector, stream = group.stream(topic, autocommit_interval_ms=20)
    assert take(stream, 4) == [0, 1, 2, 3]
    connector.seek(topic, 0, 1)
    time.sleep(0.2)  # several automatic commits
    assert group.offset_of(topic) == 1
    connector.shutdown()
    assert group.offset_of(topic) == 1


@in_real_time
async def test_streams_of_one_group_in_asyncio(group: Group) -> None:
    topic = await asyncio.to_thread(group.topic, range(6), partitions=2)
    properties = {"zk.connect": group.cluster.connect, "groupid": group.name, "autooffset.reset": "smallest"}
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
        async with aio.Producer({"broker.list": group.cluster.bootstrap}, partitioner=ByNumber()) as producer:
            await producer.send(KeyedMessage(topic, b"7", part_key=1))
        assert (await waiting).message == b"7"
        await connector.commit_offsets()
        await connector.seek(topic, 1, 3)
        assert (await anext(two)).message == b"7"
    assert [message async for message in two] == []


def test_an_id_node_that_cannot_be_read_stops_no_other(group: Group) -> None:
    topic = group.topic(partitions=2)
    group.registry.create(
        f"/consumers/{group.name}/ids/poison", b'{"%s":1}' % topic.encode(), ephemeral=True, makepath=True
    )
    connector = group.connect()
    connector.create_message_streams({topic: 1})
    assert len(connector.owned_partitions) == 2


def test_a_claim_waits_until_the_owner_has_left(group: Group) -> None:
    topic = group.topic(partitions=2)
    node = f"/consumers/{group.name}/owners/{topic}/1"
    group.registry.create(node, b"another-0", ephemeral=True, makepath=True)
    connector = group.connect(rebalance_backoff_ms=200)
    connector.create_message_streams({topic: 1})
    assert connector.owned_partitions == frozenset()
    assert group.registry.get_children(f"/consumers/{group.name}/owners/{topic}") == ["1"]  # all or none
    group.registry.delete(node)
    wait_until("it has come to be", lambda: len(connector.owned_partitions) == 2)


def test_an_id_that_is_taken_is_an_error(group: Group) -> None:
    topic = group.topic()
    group.connect(consumer_id="same").create_message_streams({topic: 1})
    with pytest.raises(ConsumerRebalanceFailedException, match="another session"):
        group.connect(consumer_id="same").create_message_streams({topic: 1})


def test_the_first_fetch_beyond_the_end_is_out_of_range(group: Group) -> None:
    """The broker has the controller's word by then, although the client does not ask again."""
    host, _, port = group.cluster.bootstrap.rpartition(":")
    with SimpleConsumer(host, int(port)) as consumer:
        topic = group.topic(range(3))
        found = consumer.multifetch([FetchRequest(topic, 0, 4)])
        with pytest.raises(OutOfRangeException):
            list(found[0])


def test_what_a_connector_needs_is_said(cluster: Cluster) -> None:
    with pytest.raises(InvalidConfigException, match=r"group.id is missing"):
        ConsumerConnector({"zk.connect": cluster.connect})
    with pytest.raises(InvalidConfigException, match=r"zookeeper.connect is missing"):
        ConsumerConnector({"groupid": "g"})


def test_a_stream_reports_its_progress(group: Group) -> None:
    topic = group.topic(range(3))
    group.write(topic, range(3, 7))
    seen: list[Progress] = []
    (stream,) = group.connect().create_message_streams({topic: 1}, on_progress=seen.append)[topic]
    assert take(stream, 3) == [0, 1, 2]
    assert seen == [Progress(topic, 0, 0, 7)]
    assert take(stream, 4) == [3, 4, 5, 6]
    assert seen == [Progress(topic, 0, 0, 7), Progress(topic, 0, 3, 7)]


def test_the_group_is_shown_with_its_owners_and_lag(group: Group) -> None:
    topic = group.topic(range(10), partitions=2)
    connector, stream = group.stream(topic)
    take(stream, 10)
    connector.commit_offsets()
    group.write(topic, range(10, 14))

    def shown(*command: str) -> Any:
        arguments = ["-b", group.cluster.bootstrap, "--output", "json"]
        done = subprocess.run(
            [sys.executable, "-m", "odradek", "groups", *command, *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr

    rows = [row for row in shown("list", "--type", "zookeeper") if row["group_id"] == group.name]
    assert [(row["type"], row["state"]) for row in rows] == [("zookeeper", "Stable")]
    (shown_group,) = shown("describe", group.name)
    assert (shown_group["type"], shown_group["state"], shown_group["assignor"]) == (
        "zookeeper",
        "Stable",
        "range",
    )
    assert [member["member_id"] for member in shown_group["members"]] == [connector.consumer_id]
    # What the stream holds ready is not consumed.
    rows = [
        (one["partition"], one["committed"], one["lag"], one["member_id"])
        for one in shown_group["partitions"]
    ]
    assert rows == [(number, 5, 2, connector.consumer_id) for number in range(2)]
    connector.shutdown()
    (shown_group,) = shown("describe", group.name)
    assert (shown_group["state"], shown_group["members"]) == ("Empty", [])
    refused = shown("reset-offsets", group.name, "--all-topics", "--to-earliest", "--execute")
    assert "kept in ZooKeeper" in refused
    assert "kept in ZooKeeper" in shown("delete", group.name, "--execute")
