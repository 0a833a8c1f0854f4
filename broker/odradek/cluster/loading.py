"""The image as the registry tells it, read at the start.

Topics that are being deleted are left out: the mark in `/admin/delete_topics` is the moment of a topic's death,
whatever of it is still there. A partition without a state was never led (the controller died between two writes);
it is shown without a leader.
"""

from __future__ import annotations

from odradek.cluster import nodes, paths
from odradek.cluster.image import (
    NO_LEADER,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    ResourceKind,
    TopicImage,
)
from odradek.cluster.store import Store, children_or_none, get_or_none
from odradek.cluster.topic_names import is_internal_topic


async def load_image(store: Store) -> ClusterImage:
    """Everything the registry says. Raises StoreError for a node that cannot be read."""
    cluster_id = await get_or_none(store, paths.CLUSTER_ID)
    controller = await get_or_none(store, paths.CONTROLLER)
    deleted = set(await children_or_none(store, paths.DELETE_TOPICS))
    topics: dict[str, TopicImage] = {}
    for name in await children_or_none(store, paths.TOPICS):
        if name not in deleted:
            topics[name] = await load_topic(store, name)
    return ClusterImage(
        cluster_id="" if cluster_id is None else nodes.read_cluster_id(paths.CLUSTER_ID, cluster_id.data),
        controller_id=-1 if controller is None else nodes.read_controller(paths.CONTROLLER, controller.data),
        brokers=await _load_brokers(store),
        topics=topics,
        topics_by_id={topic.id: topic for topic in topics.values()},
        configs=await _load_configs(store),
    )


async def load_topic(store: Store, name: str) -> TopicImage:
    """One topic. Raises NoNode when it is not there."""
    path = paths.topic(name)
    node = nodes.read_topic(path, (await store.get(path)).data)
    partitions: list[PartitionImage] = []
    for number in range(len(node.replicas)):
        replicas = node.replicas[number]
        state_path = paths.partition_state(name, number)
        state = await get_or_none(store, state_path)
        if state is None:
            partitions.append(PartitionImage(number, NO_LEADER, -1, replicas, (), -1))
        else:
            partitions.append(
                nodes.read_partition_state(
                    state_path, state.data, number=number, replicas=replicas, version=state.version
                )
            )
    return TopicImage(name, node.id, tuple(partitions), is_internal_topic(name))


async def _load_brokers(store: Store) -> dict[int, BrokerImage]:
    brokers: dict[int, BrokerImage] = {}
    for name in await children_or_none(store, paths.BROKER_IDS):
        node = await get_or_none(store, paths.broker(int(name)))
        # Ephemeral: it may go between the two reads.
        if node is not None:
            brokers[int(name)] = nodes.read_broker(paths.broker(int(name)), node.data)
    return brokers


async def _load_configs(store: Store) -> dict[tuple[ResourceKind, str], dict[str, str]]:
    configs: dict[tuple[ResourceKind, str], dict[str, str]] = {}
    for kind in ResourceKind:
        for step in await children_or_none(store, f"{paths.CONFIG}/{kind}"):
            path = f"{paths.CONFIG}/{kind}/{step}"
            values = nodes.read_config(path, (await store.get(path)).data)
            if values:
                configs[kind, paths.unescape(step)] = values
    return configs
