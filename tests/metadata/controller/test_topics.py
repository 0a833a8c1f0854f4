"""Topics are created, grow, and are found again after a restart, by Kafka's rules."""

import asyncio
import random
import uuid
from pathlib import Path

import pytest

from odradek.foundation import errors, registry_errors
from odradek.foundation.ids import TopicPartition
from odradek.metadata.controller.requests import NewPartitions, NewTopic, TopicMetadataAndConfig
from odradek.metadata.controller.topic_plans import new_topic_id
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.image import ClusterImage, ResourceKind
from odradek.metadata.image.topic_names import SHARE_GROUP_STATE, TRANSACTION_STATE
from odradek.metadata.registry.sqlite_store import SqliteStore
from odradek.wire.protocol.group_partitions import OFFSETS_TOPIC
from tests.support.lone_controller import LoneController
from tests.support.memory_registry import MemoryRegistry, MemoryStore


async def test_a_topic_is_made_with_what_was_asked_or_the_brokers_defaults() -> None:
    broker = await LoneController.start({"num.partitions": "3"})
    asked = [
        NewTopic(name="plain"),
        NewTopic(name="wide", partition_count=5, replication_factor=1, config={"retention.ms": "99"}),
        NewTopic(name="placed", assignment={1: [1], 0: [1]}),
    ]
    made = await broker.controller.create_topics(asked)
    assert [outcome.partition_count for outcome in made if isinstance(outcome, TopicMetadataAndConfig)] == [
        3,
        5,
        2,
    ]
    image = broker.images.current
    assert list(image.topics) == ["plain", "wide", "placed"]
    wide = image.topics["wide"]
    assert image.topics_by_id[wide.id] is wide
    assert [partition.partition for partition in wide.partitions] == [0, 1, 2, 3, 4]
    assert {(p.leader, p.leader_epoch, p.replicas, p.isr) for p in wide.partitions} == {(1, 0, (1,), (1,))}
    assert image.config(ResourceKind.TOPIC, "wide") == {"retention.ms": "99"}
    assert image.config(ResourceKind.TOPIC, "plain") == {}


REFUSED: list[tuple[NewTopic, type[errors.RequestError], str]] = [
    (NewTopic(name=""), errors.InvalidTopic, "empty"),
    (NewTopic(name="."), errors.InvalidTopic, "directory"),
    (NewTopic(name=".."), errors.InvalidTopic, "directory"),
    (NewTopic(name="x" * 250), errors.InvalidTopic, "249"),
    (NewTopic(name="a/b"), errors.InvalidTopic, "letters"),
    (NewTopic(name="ä"), errors.InvalidTopic, "letters"),
    (NewTopic(name="there"), errors.TopicAlreadyExists, "already exists"),
    (NewTopic(name="dotted_name"), errors.InvalidTopic, "collides with existing topic: dotted.name"),
    (NewTopic(name="n", partition_count=0), errors.InvalidPartitions, "at least 1"),
    (NewTopic(name="n", partition_count=-2), errors.InvalidPartitions, "at least 1"),
    (NewTopic(name="n", partition_count=2**31 - 1), errors.PolicyViolation, "10000"),
    (NewTopic(name="n", replication_factor=0), errors.InvalidReplicationFactor, "larger than 0"),
    (NewTopic(name="n", replication_factor=2), errors.InvalidReplicationFactor, "only 1 broker"),
    (NewTopic(name="n", assignment={0: [1]}, partition_count=1), errors.InvalidRequest, "numPartitions"),
    (
        NewTopic(name="n", assignment={0: [1]}, replication_factor=1),
        errors.InvalidRequest,
        "replication factor",
    ),
    (NewTopic(name="n", assignment={1: [1]}), errors.InvalidReplicaAssignment, "without gaps"),
    (NewTopic(name="n", assignment={0: []}), errors.InvalidReplicaAssignment, "no broker"),
    (NewTopic(name="n", assignment={0: [1, 1]}), errors.InvalidReplicaAssignment, "twice"),
    (NewTopic(name="n", assignment={0: [9]}), errors.InvalidReplicaAssignment, r"\[9\] are not registered"),
    (NewTopic(name="n", config={"retention.m": "1"}), errors.InvalidConfig, "did you mean retention.ms"),
    (NewTopic(name="n", config={"retention.ms": "-2"}), errors.InvalidConfig, "retention.ms.*at least -1"),
    (NewTopic(name="n", config={"retention.ms": None}), errors.InvalidConfig, "Null value"),
    (NewTopic(name="n", config={"remote.storage.enable": "true"}), errors.InvalidConfig, "tiered"),
    (
        NewTopic(
            name="n",
            config={"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "5"},
        ),
        errors.InvalidConfig,
        "conflict",
    ),
]


@pytest.mark.parametrize(("asked", "error", "words"), REFUSED)
async def test_what_may_not_be_is_refused_and_the_rest_of_the_request_is_done(
    asked: NewTopic, error: type[errors.RequestError], words: str
) -> None:
    broker = await LoneController.start()
    await broker.controller.create_topics([NewTopic(name="there"), NewTopic(name="dotted.name")])
    refused, made = await broker.controller.create_topics([asked, NewTopic(name="other")])
    assert type(refused) is error
    with pytest.raises(error, match=words):
        raise refused
    assert isinstance(made, TopicMetadataAndConfig)
    assert set(broker.images.current.topics) == {"there", "dotted.name", "other"}
    assert await broker.store.children(paths.TOPICS) == ["dotted.name", "other", "there"]


async def test_names_that_collide_within_one_request_collide() -> None:
    broker = await LoneController.start()
    first, second = await broker.controller.create_topics([NewTopic(name="a.b"), NewTopic(name="a_b")])
    assert isinstance(first, TopicMetadataAndConfig)
    assert isinstance(second, errors.InvalidTopic)
    await broker.controller.delete_topics(["a.b"])
    (third,) = await broker.controller.create_topics([NewTopic(name="a_b")])
    assert isinstance(third, TopicMetadataAndConfig)


async def test_too_many_partitions_in_one_request_make_none() -> None:
    broker = await LoneController.start()
    asked = [NewTopic(name=f"t{number}", partition_count=4000) for number in range(3)]
    with pytest.raises(errors.PolicyViolation):
        await broker.controller.create_topics(asked)
    assert broker.images.current.topics == {}


async def test_of_many_creations_of_one_topic_one_wins() -> None:
    broker = await LoneController.start()
    results = await asyncio.gather(
        *(broker.controller.create_topics([NewTopic(name="t", partition_count=n + 1)]) for n in range(8))
    )
    outcomes = [outcome for (outcome,) in results]
    (winner,) = [outcome for outcome in outcomes if isinstance(outcome, TopicMetadataAndConfig)]
    assert sum(isinstance(outcome, errors.TopicAlreadyExists) for outcome in outcomes) == 7
    topic = broker.images.current.topics["t"]
    assert (topic.id, len(topic.partitions)) == (winner.id, winner.partition_count)


async def test_a_cancelled_caller_leaves_registry_and_image_equal(tmp_path: Path) -> None:
    broker = await LoneController.start(store=SqliteStore.open(str(tmp_path / "registry.db")))
    for steps in range(6):
        name = f"t{steps}"
        task = asyncio.ensure_future(broker.controller.create_topics([NewTopic(name=name)]))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        # This waits for its end, whether it succeeded or failed.
        (outcome,) = await broker.controller.create_topics([NewTopic(name=name)])
        assert isinstance(outcome, TopicMetadataAndConfig | errors.TopicAlreadyExists)
        assert name in broker.images.current.topics
    assert await broker.store.children(paths.TOPICS) == sorted(broker.images.current.topics)
    await broker.store.close()


async def test_validating_makes_nothing() -> None:
    broker = await LoneController.start()
    before = broker.images.current
    made, refused = await broker.controller.create_topics(
        [NewTopic(name="t"), NewTopic(name="!")], validate_only=True
    )
    assert isinstance(made, TopicMetadataAndConfig)
    assert isinstance(refused, errors.InvalidTopic)
    assert broker.images.current is before
    assert await broker.store.children(paths.TOPICS) == []


async def test_a_registry_that_fails_leaves_the_image_as_it_was() -> None:
    store = MemoryStore()
    broker = await LoneController.start(store=store)
    store.sever()
    with pytest.raises(registry_errors.StoreConnectionLost):
        await broker.controller.create_topics([NewTopic(name="t")])
    store.mend()
    assert broker.images.current.topics == {}
    (made,) = await broker.controller.create_topics([NewTopic(name="t")])
    assert isinstance(made, TopicMetadataAndConfig)


async def test_topics_survive_a_restart_in_kafkas_registry_layout() -> None:
    registry = MemoryRegistry()
    first = await LoneController.start(store=MemoryStore(registry))
    await first.controller.create_topics(
        [NewTopic(name="t", partition_count=3, config={"retention.ms": "5"}), NewTopic(name="u")]
    )
    await first.controller.ensure_topic(OFFSETS_TOPIC)
    await first.controller.create_partitions([NewPartitions(topic="u", total_count=2)])
    before = first.images.current
    node = nodes.read_json("", (await first.store.get("/brokers/topics/t")).data)
    assert node["partitions"] == {"0": [1], "1": [1], "2": [1]}
    state = nodes.read_json("", (await first.store.get("/brokers/topics/t/partitions/2/state")).data)
    assert state == {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1]}
    await first.controller.stop()
    await first.store.close()

    second = await LoneController.start(store=MemoryStore(registry))
    after = second.images.current
    assert after.topics == before.topics
    assert after.topics_by_id == before.topics_by_id
    assert after.configs == before.configs
    assert after.cluster_id == before.cluster_id != ""
    assert after.brokers[1].epoch > before.brokers[1].epoch
    assert after.topics[OFFSETS_TOPIC].is_internal
    (outcome,) = await second.controller.create_topics([NewTopic(name="t")])
    assert isinstance(outcome, errors.TopicAlreadyExists)


async def test_a_second_controller_or_broker_of_one_id_is_refused() -> None:
    registry = MemoryRegistry()
    first = await LoneController.start(store=MemoryStore(registry))
    other = LoneController(MemoryStore(registry), {})
    with pytest.raises(errors.DuplicateBrokerRegistration, match="another controller"):
        await other.controller.start()
    with pytest.raises(errors.DuplicateBrokerRegistration, match=r"node\.id"):
        await first.controller.register_broker(endpoints={})


async def test_the_cluster_id_of_the_log_directories_counts() -> None:
    registry = MemoryRegistry()
    first = LoneController(MemoryStore(registry), {})
    await first.controller.start(cluster_id="as-the-logs-say")
    assert first.images.current.cluster_id == "as-the-logs-say"
    await first.store.close()
    second = LoneController(MemoryStore(registry), {})
    with pytest.raises(errors.InconsistentClusterId, match="as-the-logs-say"):
        await second.controller.start(cluster_id="other")


async def test_partitions_are_added_and_never_taken_away() -> None:
    broker = await LoneController.start()
    await broker.controller.create_topics([NewTopic(name="t", partition_count=2)])
    topic = broker.images.current.topics["t"]
    grow = broker.controller.create_partitions
    for request, error, words in (
        (NewPartitions(topic="t", total_count=2), errors.InvalidPartitions, "already has 2"),
        (NewPartitions(topic="t", total_count=1), errors.InvalidPartitions, "would not be an increase"),
        (NewPartitions(topic="x", total_count=9), errors.UnknownTopicOrPartition, "x"),
        (NewPartitions(topic="t", total_count=2**31 - 1), errors.PolicyViolation, "10000"),
        (
            NewPartitions(topic="t", total_count=4, assignments=[[1]]),
            errors.InvalidReplicaAssignment,
            "2 add",
        ),
        (NewPartitions(topic="t", total_count=3, assignments=[[4]]), errors.InvalidReplicaAssignment, "4"),
    ):
        (outcome,) = await grow([request])
        with pytest.raises(error, match=words):
            raise outcome or AssertionError("not refused")
    assert await grow([NewPartitions(topic="t", total_count=4)], validate_only=True) == [None]
    assert broker.images.current.topics["t"] is topic
    assert await grow([NewPartitions(topic="t", total_count=4, assignments=[[1], [1]])]) == [None]
    grown = broker.images.current.topics["t"]
    assert grown.id == topic.id
    assert grown.partitions[:2] == topic.partitions
    assert [partition.partition for partition in grown.partitions] == [0, 1, 2, 3]


async def test_internal_topics_have_their_settings_and_all_replicas() -> None:
    broker = await LoneController.start({"offsets.topic.num.partitions": "7"})
    topic = await broker.controller.ensure_topic(OFFSETS_TOPIC)
    assert topic is await broker.controller.ensure_topic(OFFSETS_TOPIC)
    assert (len(topic.partitions), topic.partitions[0].replicas, topic.is_internal) == (7, (1,), True)
    config = broker.images.current.config(ResourceKind.TOPIC, OFFSETS_TOPIC)
    assert config["cleanup.policy"] == "compact"
    assert config["segment.bytes"] == "104857600"
    await broker.controller.ensure_topic(TRANSACTION_STATE)
    config = broker.images.current.config(ResourceKind.TOPIC, TRANSACTION_STATE)
    assert config["min.insync.replicas"] == "1"
    await broker.controller.ensure_topic(SHARE_GROUP_STATE)
    config = broker.images.current.config(ResourceKind.TOPIC, SHARE_GROUP_STATE)
    # Kafka's: an update does not replace the one before it, so it is not compacted.
    assert (config["cleanup.policy"], config["retention.ms"]) == ("delete", "-1")


async def test_topics_found_on_disk_are_taken_in_above_their_last_epoch() -> None:
    broker = await LoneController.start()
    known = uuid.uuid4()
    topic = await broker.controller.register_existing(
        "old", topic_id=known, partition_count=3, leader_epochs={0: 4, 2: 0}
    )
    assert topic.id == known
    assert [partition.leader_epoch for partition in topic.partitions] == [5, 0, 1]
    assert broker.images.current.topics["old"] is topic
    unnamed = await broker.controller.register_existing("older", topic_id=None, partition_count=1)
    assert unnamed.id.version == 4
    with pytest.raises(errors.TopicAlreadyExists):
        await broker.controller.register_existing("old", topic_id=None, partition_count=1)
    with pytest.raises(errors.InvalidTopic):
        await broker.controller.register_existing("!", topic_id=None, partition_count=1)


async def test_a_log_that_may_have_lost_its_end_gets_a_new_epoch() -> None:
    registry = MemoryRegistry()
    broker = await LoneController.start(store=MemoryStore(registry))
    await broker.controller.create_topics([NewTopic(name="t", partition_count=3), NewTopic(name="u")])
    await broker.controller.bump_leader_epochs(
        [
            TopicPartition("t", 0),
            TopicPartition("t", 2),
            TopicPartition("gone", 0),
            TopicPartition("t", 9),
        ]
    )
    await broker.controller.bump_leader_epochs([TopicPartition("t", 2)])
    image: ClusterImage = broker.images.current
    assert [partition.leader_epoch for partition in image.topics["t"].partitions] == [1, 0, 2]
    assert [partition.partition_epoch for partition in image.topics["t"].partitions] == [1, 0, 2]
    await broker.store.close()
    again = await LoneController.start(store=MemoryStore(registry))
    assert again.images.current.topics == image.topics


async def test_producer_ids_are_never_given_twice() -> None:
    registry = MemoryRegistry()
    given: list[int] = []
    for _ in range(2):
        broker = await LoneController.start(store=MemoryStore(registry))
        for _ in range(2):
            first, count = await broker.controller.allocate_producer_ids()
            given.extend(range(first, first + count))
        await broker.store.close()
    assert given == list(range(4000))


def test_topic_ids_are_none_of_kafkas_reserved_ones() -> None:
    class Loaded(random.Random):
        """Dice that fall on an id which prints with a dash in front."""

        def __init__(self) -> None:
            super().__init__(1)
            self.throws = [0xF8 << 120, 0xFB << 120]

        def getrandbits(self, k: int, /) -> int:
            return self.throws.pop() if self.throws else super().getrandbits(k)

    assert not nodes.topic_id_text(new_topic_id(Loaded())).startswith("-")
    rng = random.Random(3)
    ids = {new_topic_id(rng) for _ in range(1000)}
    assert len(ids) == 1000
    assert not any(nodes.topic_id_text(topic_id).startswith("-") for topic_id in ids)
    for topic_id in ids:
        assert nodes.parse_topic_id(nodes.topic_id_text(topic_id)) == topic_id
