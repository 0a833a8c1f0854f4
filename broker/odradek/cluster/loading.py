"""The image as the registry tells it, read at the start."""

from __future__ import annotations

from odradek.cluster import paths
from odradek.cluster.change_log import NodeChange
from odradek.cluster.image import ClusterImage, ResourceKind
from odradek.cluster.image_building import apply
from odradek.cluster.store import Store, children_or_none, get_or_none


async def load_image(store: Store) -> ClusterImage:
    """Everything the registry says. Raises StoreError for a node that cannot be read."""
    return apply(ClusterImage(), await load_nodes(store))


async def load_nodes(store: Store) -> list[NodeChange]:
    """The nodes of which an image is made, as they are now. A node that goes meanwhile is left out."""
    found = [paths.CLUSTER_ID, paths.CONTROLLER]
    found += await _children(store, paths.BROKER_IDS)
    for kind in ResourceKind:
        found += await _children(store, f"{paths.CONFIG}/{kind}")
    for name in await children_or_none(store, paths.TOPICS):
        found.append(paths.topic(name))
        numbers = await children_or_none(store, paths.topic_partitions(name))
        found += [paths.partition_state(name, int(number)) for number in numbers]
    # Last: a topic may be marked while it is read, and is then gone.
    found += await _children(store, paths.DELETE_TOPICS)
    nodes: list[NodeChange] = []
    for path in found:
        node = await get_or_none(store, path)
        if node is not None:
            nodes.append(NodeChange(path, node.data, node.version))
    return nodes


async def _children(store: Store, path: str) -> list[str]:
    return [f"{path}/{name}" for name in await children_or_none(store, path)]
