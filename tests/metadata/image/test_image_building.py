"""Images are made of the registry's nodes, all at once or change by change, with the same result."""

import random
import uuid

from hypothesis import given
from hypothesis import strategies as st

from odradek.metadata.controller.requests import NewTopic
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.change_log import NodeChange
from odradek.metadata.image.image import NO_LEADER, BrokerImage, ClusterImage, PartitionImage, ResourceKind
from odradek.metadata.image.image_building import apply
from odradek.metadata.image.loading import load_nodes
from tests.support.lone_controller import LoneController
from tests.support.memory_registry import MemoryRegistry, MemoryStore, load_image

FIRST, SECOND = uuid.UUID(int=7), uuid.UUID(int=8)


def topic(name: str, topic_id: uuid.UUID, *replicas: tuple[int, ...]) -> NodeChange:
    partitions = [PartitionImage(number, 0, 0, each, (), 0) for number, each in enumerate(replicas)]
    return NodeChange(paths.topic(name), nodes.write_topic(topic_id, partitions))


def state(
    name: str, number: int, *, leader: int, epoch: int, isr: tuple[int, ...], version: int = 0
) -> NodeChange:
    image = PartitionImage(number, leader, epoch, (), isr, version)
    data = nodes.write_partition_state(image, controller_epoch=1)
    return NodeChange(paths.partition_state(name, number), data, version)


def test_a_topic_and_its_states_make_an_image_in_any_order() -> None:
    changes = [
        topic("t", FIRST, (1, 2), (2, 1)),
        state("t", 0, leader=1, epoch=3, isr=(1, 2), version=5),
        state("t", 1, leader=2, epoch=0, isr=(2,)),
    ]
    image = apply(ClusterImage(), changes)
    assert image.topics["t"].partitions == (
        PartitionImage(0, 1, 3, (1, 2), (1, 2), 5),
        PartitionImage(1, 2, 0, (2, 1), (2,), 0),
    )
    assert image.topics_by_id[FIRST] is image.topics["t"]
    assert apply(ClusterImage(), reversed(changes)).topics == image.topics


def test_a_partition_without_a_state_has_no_leader() -> None:
    image = apply(ClusterImage(), [topic("t", FIRST, (1,))])
    assert image.topics["t"].partitions == (PartitionImage(0, NO_LEADER, -1, (1,), (), -1),)


def test_what_no_change_names_stays_the_same_object() -> None:
    image = apply(ClusterImage(), [topic("a", FIRST, (1,)), topic("b", SECOND, (1,))])
    later = apply(image, [state("a", 0, leader=1, epoch=0, isr=(1,))])
    assert later.topics["b"] is image.topics["b"]
    assert later.topics["a"] is not image.topics["a"]
    assert later.brokers is image.brokers
    assert apply(later, []).topics is later.topics
    assert list(later.topics) == ["a", "b"]


def test_a_topic_dies_with_its_mark_and_is_another_one_afterwards() -> None:
    image = apply(ClusterImage(), [topic("t", FIRST, (1,)), state("t", 0, leader=1, epoch=4, isr=(1,))])
    marked = apply(image, [NodeChange(paths.deletion("t"), b"")])
    assert (dict(marked.topics), dict(marked.topics_by_id)) == ({}, {})
    removal = [
        NodeChange(paths.partition_state("t", 0), None),
        NodeChange(paths.topic("t"), None),
        NodeChange(paths.deletion("t"), None),
    ]
    remade = [topic("t", SECOND, (2,)), state("t", 0, leader=2, epoch=0, isr=(2,))]
    for start in (image, marked):
        before = [NodeChange(paths.deletion("t"), b"")] if start is image else []
        again = apply(start, [*before, *removal, *remade])
        assert again.topics["t"].partitions == (PartitionImage(0, 2, 0, (2,), (2,), 0),)
        assert list(again.topics_by_id) == [SECOND]


def test_brokers_settings_and_the_controller_come_and_go() -> None:
    broker = BrokerImage(3, {"PLAINTEXT": ("h", 9092)}, "r1", 9)
    there = [
        NodeChange(
            paths.broker(3), nodes.write_broker(broker, protocols={"PLAINTEXT": "PLAINTEXT"}, wall_ms=0)
        ),
        NodeChange(paths.config("groups", "a/b"), nodes.write_config({"k": "v"})),
        NodeChange(paths.CONTROLLER, nodes.write_controller(5, wall_ms=0)),
        NodeChange(paths.CLUSTER_ID, nodes.write_cluster_id("abc")),
        NodeChange("/config/unheard-of/x", b"{}"),
        NodeChange("/something/else", b"?"),
    ]
    image = apply(ClusterImage(), there)
    assert image.brokers == {3: broker}
    assert image.config(ResourceKind.GROUP, "a/b") == {"k": "v"}
    assert (image.controller_id, image.cluster_id) == (5, "abc")
    image = apply(image, [NodeChange(change.path, None) for change in there])
    assert (dict(image.brokers), dict(image.configs), image.controller_id) == ({}, {}, -1)
    assert image.cluster_id == "abc"


@given(seed=st.integers(0, 2**32), cuts=st.integers(1, 6))
def test_change_by_change_leads_where_all_at_once_does(seed: int, cuts: int) -> None:
    """Random lives of topics, applied in pieces, end in the image of the last state of every node."""
    rng = random.Random(seed)
    tree: dict[str, NodeChange] = {}
    told: list[NodeChange] = []

    def tell(change: NodeChange) -> None:
        told.append(change)
        if change.data is None:
            tree.pop(change.path, None)
        else:
            tree[change.path] = change

    for step in range(40):
        name = rng.choice("ab")
        if paths.topic(name) not in tree:
            tell(topic(name, uuid.UUID(int=1000 + step), *[(1, 2)] * rng.randint(1, 3)))
        elif rng.random() < 0.15:
            tell(NodeChange(paths.deletion(name), b""))
            for path in sorted(path for path in tree if path.startswith(paths.topic(name) + "/")):
                tell(NodeChange(path, None))
            tell(NodeChange(paths.topic(name), None))
            tell(NodeChange(paths.deletion(name), None))
        else:
            count = len(nodes.read_topic("", tree[paths.topic(name)].data or b"").replicas)
            number = rng.randrange(count)
            tell(state(name, number, leader=rng.choice((-1, 1, 2)), epoch=step, isr=(1,), version=step))
    image = ClusterImage()
    edges = sorted(rng.randrange(len(told) + 1) for _ in range(cuts))
    for start, end in zip([0, *edges], [*edges, len(told)], strict=True):
        image = apply(image, told[start:end])
    whole = apply(ClusterImage(), tree.values())
    assert dict(image.topics) == dict(whole.topics)
    assert dict(image.topics_by_id) == dict(whole.topics_by_id)


async def test_the_registry_read_is_the_image_that_the_controller_has() -> None:
    registry = MemoryRegistry()
    broker = await LoneController.start({"num.partitions": "3"}, store=MemoryStore(registry))
    await broker.controller.create_topics(
        [NewTopic(name="a", config={"retention.ms": "5"}), NewTopic(name="b")]
    )
    await broker.controller.delete_topics(["b"])
    reader = MemoryStore(registry)
    image = await load_image(reader)
    assert dict(image.topics) == dict(broker.images.current.topics)
    assert dict(image.configs) == dict(broker.images.current.configs)
    paths_read = {node.path for node in await load_nodes(reader)}
    assert paths.partition_state("a", 2) in paths_read
