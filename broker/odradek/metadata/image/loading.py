"""Reads the image from the registry at the start."""

from __future__ import annotations

import asyncio

from odradek.foundation.limits import USERS_LISTED_TOGETHER_MAX
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.change_log import NodeChange
from odradek.metadata.image.image import ResourceKind
from odradek.metadata.registry.store import Store, children_or_none


async def load_nodes(store: Store) -> list[NodeChange]:
    """The present nodes for an image. A node that is deleted during the read is left out. Raises StoreError.

    A topic's node has the number of its partitions, so ten thousand states need no list of names for each topic.
    """
    found = [paths.CLUSTER_ID, paths.LOGIN_SECRET, paths.CONTROLLER, paths.FEATURES]
    found += await _children(store, paths.BROKER_IDS)
    found += await _children(store, paths.REGISTRATIONS)
    for kind in ResourceKind:
        found += await _children(store, f"{paths.CONFIG}/{kind}")
    found += await _client_configs(store)
    for home in (paths.ACLS, f"{paths.EXTENDED_ACLS}/prefixed"):
        for of_type in await _children(store, home):
            found += await _children(store, of_type)
    found += await _children(store, paths.TOKENS)
    topics = await _read(store, await _children(store, paths.TOPICS))
    states = [
        paths.partition_state(topic.path.rpartition("/")[2], number)
        for topic in topics
        for number in nodes.read_topic(topic.path, topic.data or b"").replicas
    ]
    # The marks of deletion last: a topic that is marked during the read counts as deleted.
    return [
        *await _read(store, found),
        *topics,
        *await _read(store, states),
        *await _read(store, await _children(store, paths.DELETE_TOPICS)),
    ]


async def _client_configs(store: Store) -> list[str]:
    """The nodes of users, their client ids, client ids and addresses."""
    users = await _children(store, paths.USERS)
    found = [*users, *await _children(store, paths.CLIENTS), *await _children(store, paths.IPS)]
    for start in range(0, len(users), USERS_LISTED_TOGETHER_MAX):
        some = users[start : start + USERS_LISTED_TOGETHER_MAX]
        for listed in await asyncio.gather(*(_children(store, f"{user}/clients") for user in some)):
            found += listed
    return found


async def _read(store: Store, wanted: list[str]) -> list[NodeChange]:
    return [
        NodeChange(path, node.data, node.version)
        for path, node in zip(wanted, await store.get_many(wanted), strict=True)
        if node is not None
    ]


async def _children(store: Store, path: str) -> list[str]:
    return [f"{path}/{name}" for name in await children_or_none(store, path)]
