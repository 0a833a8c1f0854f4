"""The beginning of a controller's term, and what the last one left half done.

A term has an epoch, one higher than any before. The first term of a registry also creates its skeleton and the
cluster's id. A single node begins its term here by itself (`begin`, one write for a quick start). Controllers of a
cluster are elected (`controller_election`) and then begin (`begin_elected`). Both hold `/controller`, and the version
of `/controller_epoch` fences both, so a registry may change from the one kind to the other.
"""

from __future__ import annotations

import base64
import random
import uuid
from typing import Final

from odradek.foundation.errors import DuplicateBrokerRegistration, InconsistentClusterId, NotController
from odradek.foundation.ids import TopicId
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.registry_errors import NodeExists, VersionConflict
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.foundation.turns import Turn
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.features import OF_NEW_CLUSTERS, FinalizedFeatures
from odradek.metadata.image.image import ResourceKind
from odradek.metadata.registry.store import (
    Check,
    Create,
    Delete,
    Operation,
    Put,
    Store,
    children_or_none,
    get_or_none,
    missing,
)

_LOGIN_SECRET_BYTES: Final = 32


class ControllerTerm(NamedTuple):
    """One term of one controller.

    `epoch_version` is the version of `/controller_epoch`: while it is the same, so is the term. `broker_epoch` is the
    epoch of brokers that this controller registers itself, -1 where brokers register by themselves.
    """

    controller_id: int
    epoch: int
    epoch_version: int
    broker_epoch: int = -1

    @property
    def fence(self) -> Check:
        """The check in every write of this term: it fails with VersionConflict once another term has begun."""
        return Check(paths.CONTROLLER_EPOCH, self.epoch_version)


async def begin_elected(store: Store, term: ControllerTerm, *, rng: random.Random) -> None:
    """Create what a registry must have, as the controller that was elected for `term`.

    Brokers create some of it too while they register, so existing nodes are no error. Raises NotController when the
    next term has begun already, StoreError.
    """
    while True:
        operations = await missing(store, paths.SKELETON)
        operations += await _cluster_id_operations(store, None, rng)
        operations += await _login_secret_operations(store, rng)
        try:
            await store.multi([term.fence, *operations])
        except NodeExists:
            continue
        except VersionConflict as conflict:
            raise NotController(f"another controller's term began after term {term.epoch}") from conflict
        return


async def begin(
    store: Store, *, broker_id: int, cluster_id: str | None, wall_ms: int, rng: random.Random
) -> ControllerTerm:
    """Become the controller: one write, most of it on the first start only.

    `cluster_id` is the one that the log directories know, if any. Raises InconsistentClusterId when the registry has
    another, DuplicateBrokerRegistration when another controller is active.
    """
    operations = await missing(store, paths.SKELETON)
    operations += await _cluster_id_operations(store, cluster_id, rng)
    operations += await _login_secret_operations(store, rng)
    epoch = await get_or_none(store, paths.CONTROLLER_EPOCH)
    number = 1 if epoch is None else int(epoch.data) + 1
    text = str(number).encode()
    operations += [
        Create(paths.CONTROLLER_EPOCH, text)
        if epoch is None
        else Put(paths.CONTROLLER_EPOCH, text, epoch.version),
        # Its version is the brokers' epoch, and rises at every start.
        Put(paths.BROKER_EPOCHS, b""),
        Create(paths.CONTROLLER, nodes.write_controller(broker_id, wall_ms=wall_ms), ephemeral=True),
    ]
    try:
        await store.multi(operations)
    except NodeExists as error:
        raise DuplicateBrokerRegistration(f"another controller is active: {error}") from error
    version = 0 if epoch is None else epoch.version + 1
    broker_epoch = (await store.get(paths.BROKER_EPOCHS)).version
    return ControllerTerm(broker_id, number, version, broker_epoch)


async def _cluster_id_operations(store: Store, cluster_id: str | None, rng: random.Random) -> list[Operation]:
    stored = await get_or_none(store, paths.CLUSTER_ID)
    if stored is None:
        # 22 characters of URL-safe base64, as Kafka's.
        made = base64.urlsafe_b64encode(uuid.UUID(int=rng.getrandbits(128), version=4).bytes)
        text = cluster_id or made.decode().rstrip("=")
        operations: list[Operation] = [Create(paths.CLUSTER_ID, nodes.write_cluster_id(text))]
        if not await store.exists(paths.FEATURES):
            features = FinalizedFeatures(1, OF_NEW_CLUSTERS)
            operations.append(Create(paths.FEATURES, nodes.write_features(features)))
        return operations
    there = nodes.read_cluster_id(paths.CLUSTER_ID, stored.data)
    if cluster_id not in (None, there):
        raise InconsistentClusterId(
            f"the log directories belong to the cluster {cluster_id} and the registry to {there}; "
            "point the broker at the directories and the registry of one cluster"
        )
    return []


async def _login_secret_operations(store: Store, rng: random.Random) -> list[Operation]:
    """The creation of the secret, which no later term changes. With `rng` of the system it is as good as a key."""
    if await store.exists(paths.LOGIN_SECRET):
        return []
    return [Create(paths.LOGIN_SECRET, nodes.write_login_secret(rng.randbytes(_LOGIN_SECRET_BYTES)))]


async def find_unfinished_deletions(store: Store) -> dict[str, TopicId]:
    """Topics with the mark of deletion, whose nodes are still there in whole or in part."""
    deletions: dict[str, TopicId] = {}
    for name in await children_or_none(store, paths.DELETE_TOPICS):
        node = await get_or_none(store, paths.topic(name))
        deletions[name] = (
            uuid.UUID(int=0) if node is None else nodes.read_topic(paths.topic(name), node.data).id
        )
    return deletions


async def topic_removal(store: Store, name: str) -> list[list[Operation]]:
    """The writes that remove a topic's nodes, in groups that may be written one after the other. The last group removes
    the topic and its mark of deletion.
    """
    turn = Turn()
    groups: list[list[Operation]] = []
    numbers = list(await children_or_none(store, paths.topic_partitions(name)))
    for start in range(0, len(numbers), REQUEST_ELEMENTS_PER_TURN_MAX):
        if turn.is_over(REQUEST_ELEMENTS_PER_TURN_MAX):
            await turn.next()
        some = [int(number) for number in numbers[start : start + REQUEST_ELEMENTS_PER_TURN_MAX]]
        groups += await _removals(
            store, [[paths.partition_state(name, one), paths.partition(name, one)] for one in some]
        )
    topic = [
        paths.topic_partitions(name),
        paths.topic(name),
        paths.config(ResourceKind.TOPIC, name),
        paths.deletion(name),
    ]
    return groups + await _removals(store, [topic])


async def _removals(store: Store, groups: list[list[str]]) -> list[list[Operation]]:
    """The deletions of the nodes that are there."""
    found = iter(await store.get_many([path for group in groups for path in group]))
    return [[Delete(path) for path in group if next(found) is not None] for group in groups]
