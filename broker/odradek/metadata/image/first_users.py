"""The first user of SCRAM, written into the registry before any broker runs.

Brokers that log in to each other with SCRAM need a user before the first of them starts (in Kafka: KIP-900). All later
changes are the controller's.
"""

from __future__ import annotations

from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.registry_errors import StoreError
from odradek.metadata.image import nodes, paths
from odradek.metadata.registry.store import Create, Store, children_or_none, get_or_none, missing


async def write_first_user(store: Store, name: str, credentials: dict[str, str]) -> bool:
    """Add the `credentials` of a user, texts by mechanism; whether there was one of these before.

    Other keys of the user's node stay. Raises StoreError, also when brokers are registered, since then the controller
    decides.
    """
    if await children_or_none(store, paths.BROKER_IDS):
        raise StoreError(
            "brokers run on this registry; set the password through them, with `odradek users set`"
        )
    path = paths.client_config(ClientEntity(user=name))
    node = await get_or_none(store, path)
    before: dict[str, str] = {}
    if node is None:
        parents = await missing(store, (paths.CONFIG, paths.USERS))
        await store.multi([*parents, Create(path, nodes.write_config(credentials))])
    else:
        before = nodes.read_config(path, node.data)
        await store.put(path, nodes.write_config({**before, **credentials}), version=node.version)
    await store.protect((paths.CONFIG, paths.USERS, path))
    return any(mechanism in before for mechanism in credentials)
