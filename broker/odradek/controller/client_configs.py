"""Changes to the configs of users, client ids and addresses: the only writer of their nodes.

A user's node has quotas and credentials. A change names keys, and all other keys of the node stay. Only what decides
for the cluster may use it, within a decision of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.cluster import nodes, paths
from odradek.cluster.image import ImageHolder
from odradek.controller.registry_writer import RegistryWriter
from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.named_tuple import NamedTuple
from odradek.registry.store import Create, Delete, Operation, Put, Store, children_or_none


class ClientConfigChange(NamedTuple):
    """New texts of an entity by key; None removes a key."""

    entity: ClientEntity
    texts: Mapping[str, str | None]


class ClientConfigChanges:
    """Keeps nothing of its own."""

    def __init__(self, store: Store, images: ImageHolder, writer: RegistryWriter) -> None:
        self._store = store
        self._images = images
        self._writer = writer

    async def make(self, changes: Sequence[ClientConfigChange]) -> None:
        """Make the changes in their order. Raises StoreError when the registry fails; those before are done."""
        for change in changes:
            operations = await self._operations(change)
            if operations:
                await self._writer.write(operations)

    async def _operations(self, change: ClientConfigChange) -> list[Operation]:
        before = self._images.current.client_configs.get(change.entity, {})
        merged = {**before, **change.texts}
        after = {key: text for key, text in merged.items() if text is not None}
        if after == before:
            return []
        path = paths.client_config(change.entity)
        if not after and not await children_or_none(self._store, path):
            return [Delete(path)]
        data = nodes.write_config(after)
        if await self._store.exists(path):
            return [Put(path, data)]
        return [*await self._parents(change.entity), Create(path, data)]

    async def _parents(self, entity: ClientEntity) -> list[Operation]:
        """Creates what a user's client id needs above it."""
        if entity.user is None or entity.client_id is None:
            return []
        user = paths.client_config(ClientEntity(user=entity.user))
        return [Create(path) for path in (user, f"{user}/clients") if not await self._store.exists(path)]
