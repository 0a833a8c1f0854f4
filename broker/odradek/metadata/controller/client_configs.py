"""Changes to the configs of users, client ids and addresses: the only writer of their nodes.

A user's node has quotas and credentials. A change names keys, and all other keys of the node stay. Only what decides
for the cluster may use it, within a decision of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.named_tuple import NamedTuple
from odradek.metadata.image import nodes, paths
from odradek.metadata.registry.store import Create, Delete, Operation, Put, Store, children_or_none


class ClientConfigChange(NamedTuple):
    """New texts of an entity by key; None removes a key."""

    entity: ClientEntity
    texts: Mapping[str, str | None]


async def operations_of(
    store: Store, change: ClientConfigChange, before: Mapping[str, str], *, made: set[str], deleted: set[str]
) -> list[Operation]:
    """The writes of a change of an entity that has the texts `before`; none where it changes nothing.

    `made` and `deleted` are the nodes that changes written together with this one make and delete; its own are added.
    """
    after = {key: text for key, text in {**before, **change.texts}.items() if text is not None}
    if after == before:
        return []
    path = paths.client_config(change.entity)
    if not after and f"{path}/clients" not in made and not await children_or_none(store, path):
        deleted.add(path)
        return [Delete(path)]
    data = nodes.write_config(after)
    if path in made or await store.exists(path):
        return [Put(path, data)]
    parents: list[Create] = []
    if change.entity.user is not None and change.entity.client_id is not None:
        user = paths.client_config(ClientEntity(user=change.entity.user))
        above = [node for node in (user, f"{user}/clients") if node not in made]
        parents = [Create(node) for node in above if node in deleted or not await store.exists(node)]
    creations = [*parents, Create(path, data)]
    made.update(one.path for one in creations)
    return [*creations]
