"""Builds the image from the registry's nodes, and each image from the one before.

No other code reads nodes into an image: the controller's start, a broker that follows it, and a snapshot all use
`apply`. Changes are applied in their order, so that a topic deleted and created again within one batch is the new one.
Topics that no change names stay the same objects.

A topic with the mark of deletion is not in the image, nor are its settings, also while nodes of it remain. A partition
without a state was never led (the controller died between two writes), and has no leader in the image. Other nodes are
ignored, so that older brokers can follow newer controllers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.ids import TopicId
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.turn_limits import NODE_CHANGES_PER_TURN_MAX
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.change_log import NodeChange
from odradek.metadata.image.features import FinalizedFeatures
from odradek.metadata.image.image import (
    NO_LEADER,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    ResourceKind,
    TopicImage,
)
from odradek.metadata.image.topic_names import is_internal_topic

if TYPE_CHECKING:
    from odradek.foundation.delegation_tokens import DelegationToken
    from odradek.security.authorization.index import AclIndex

Key = TypeVar("Key")

_NOBODY: Final = nodes.ReplicaAssignment(())
_KINDS: Final = {str(kind): kind for kind in ResourceKind}


class _TopicDraft:
    """A topic while changes are applied: the content of its node, and its partitions' states."""

    __slots__ = ("id", "is_doomed", "partitions", "replicas")

    def __init__(self, before: TopicImage | None) -> None:
        self.id: TopicId | None = None if before is None else before.id
        self.replicas: Mapping[int, nodes.ReplicaAssignment] = (
            {}
            if before is None
            else {
                one.partition: nodes.ReplicaAssignment(one.replicas, one.adding, one.removing)
                for one in before.partitions
            }
        )
        self.partitions: dict[int, PartitionImage] = (
            {} if before is None else {one.partition: one for one in before.partitions}
        )
        self.is_doomed = False

    def finished(self, name: str) -> TopicImage | None:
        """The topic, or None when it has no node or is being deleted."""
        if self.id is None or self.is_doomed:
            return None
        partitions = tuple(self._partition(number) for number in sorted(self.replicas))
        return TopicImage(name, self.id, partitions, is_internal_topic(name))

    def _partition(self, number: int) -> PartitionImage:
        replicas, adding, removing = assignment = self.replicas[number]
        known = self.partitions.get(number)
        if known is None:
            return PartitionImage(number, NO_LEADER, -1, replicas, (), -1, adding, removing)
        if (known.replicas, known.adding, known.removing) == assignment:
            return known
        return known._replace(replicas=replicas, adding=adding, removing=removing)


class _Drafts(NamedTuple):
    """Everything that differs from the image before the changes."""

    image: ClusterImage
    topics: dict[str, _TopicDraft]
    brokers: dict[int, BrokerImage]
    configs: dict[tuple[ResourceKind, str], Mapping[str, str]]
    client_configs: dict[ClientEntity, Mapping[str, str]]

    def topic(self, name: str) -> _TopicDraft:
        draft = self.topics.get(name)
        if draft is None:
            draft = self.topics[name] = _TopicDraft(self.image.topics.get(name))
        return draft


def apply(image: ClusterImage, changes: Iterable[NodeChange]) -> ClusterImage:
    """The image after the changes; the same object when they change nothing of it.

    Raises StoreError for a node that cannot be read.
    """
    drafts = _Drafts(image, {}, dict(image.brokers), dict(image.configs), dict(image.client_configs))
    cluster_id, controller_id, features = image.cluster_id, image.controller_id, image.features
    login_secret = image.login_secret
    acl_changes: list[NodeChange] = []
    token_changes: list[NodeChange] = []
    for change in changes:
        path, data = change.path, change.data
        if path.startswith(paths.TOPICS + "/"):
            _apply_topic(drafts, change)
        elif path.startswith(paths.BROKER_IDS + "/"):
            _apply_broker(drafts, change)
        elif path.startswith(paths.CONFIG + "/"):
            _apply_config(drafts, change)
        elif path.startswith(paths.DELETE_TOPICS + "/"):
            drafts.topic(path.rpartition("/")[2]).is_doomed = data is not None
        elif path.startswith(paths.ACLS):
            acl_changes.append(change)
        elif path.startswith(paths.TOKENS + "/"):
            token_changes.append(change)
        elif path == paths.FEATURES:
            features = FinalizedFeatures() if data is None else nodes.read_features(path, data)
        elif path == paths.CONTROLLER:
            controller_id = -1 if data is None else nodes.read_controller(path, data)
        elif path == paths.CLUSTER_ID and data is not None:
            cluster_id = nodes.read_cluster_id(path, data)
        elif path == paths.LOGIN_SECRET and data is not None:
            login_secret = nodes.read_login_secret(path, data)
    topics, topics_by_id = _topics(drafts)
    for name, draft in drafts.topics.items():
        if draft.is_doomed:
            drafts.configs.pop((ResourceKind.TOPIC, name), None)
    after = replace(
        image,
        cluster_id=cluster_id,
        controller_id=controller_id,
        brokers=drafts.brokers if drafts.brokers != image.brokers else image.brokers,
        configs=drafts.configs if drafts.configs != image.configs else image.configs,
        topics=topics,
        topics_by_id=topics_by_id,
        features=features,
        client_configs=(
            drafts.client_configs if drafts.client_configs != image.client_configs else image.client_configs
        ),
        acls=_with_acls(image.acls, acl_changes) if acl_changes else image.acls,
        tokens=_with_tokens(image.tokens, token_changes) if token_changes else image.tokens,
        login_secret=login_secret,
    )
    return image if after.is_same_as(image) else after


async def apply_in_turns(image: ClusterImage, changes: Sequence[NodeChange]) -> ClusterImage:
    """As `apply`, some changes in each turn of the event loop. Each turn copies the image's tables."""
    for start in range(0, len(changes), NODE_CHANGES_PER_TURN_MAX):
        image = apply(image, changes[start : start + NODE_CHANGES_PER_TURN_MAX])
        await asyncio.sleep(0)
    return image


def _topics(drafts: _Drafts) -> tuple[Mapping[str, TopicImage], Mapping[TopicId, TopicImage]]:
    image = drafts.image
    differing: dict[str, tuple[TopicImage | None, TopicImage | None]] = {}
    for name, draft in drafts.topics.items():
        before, after = image.topics.get(name), draft.finished(name)
        if before != after:
            differing[name] = before, after
    if not differing:
        return image.topics, image.topics_by_id
    by_name, by_id = dict(image.topics), dict(image.topics_by_id)
    for name, (before, after) in differing.items():
        if before is not None:
            del by_id[before.id]
        if after is None:
            del by_name[name]
        else:
            by_name[name] = by_id[after.id] = after
    return by_name, by_id


def _apply_topic(drafts: _Drafts, change: NodeChange) -> None:
    path, data = change.path, change.data
    steps = path.removeprefix(paths.TOPICS + "/").split("/")
    draft = drafts.topic(steps[0])
    if len(steps) == 1:
        if data is None:
            draft.id, draft.replicas = None, {}
            draft.partitions.clear()
            return
        node = nodes.read_topic(path, data)
        if node.id != draft.id:
            # Another topic of the same name: no state of the old one is kept.
            draft.partitions = {number: one for number, one in draft.partitions.items() if draft.id is None}
        draft.id, draft.replicas = node.id, node.replicas
    elif len(steps) == 4 and steps[1] == "partitions" and steps[3] == "state":
        number = int(steps[2])
        if data is None:
            draft.partitions.pop(number, None)
        else:
            draft.partitions[number] = nodes.read_partition_state(
                path,
                data,
                number=number,
                assignment=draft.replicas.get(number, _NOBODY),
                version=change.version,
            )


def _apply_broker(drafts: _Drafts, change: NodeChange) -> None:
    broker_id = int(change.path.rpartition("/")[2])
    if change.data is None:
        drafts.brokers.pop(broker_id, None)
    else:
        drafts.brokers[broker_id] = nodes.read_broker(change.path, change.data)


def _apply_config(drafts: _Drafts, change: NodeChange) -> None:
    steps = change.path.removeprefix(paths.CONFIG + "/").split("/")
    entity = paths.client_entity(change.path)
    if entity is not None:
        # A user whose client ids alone have configs has an empty node.
        _set(
            drafts.client_configs, entity, nodes.read_config(change.path, change.data) if change.data else {}
        )
    elif len(steps) == 2 and steps[0] in _KINDS:
        key = _KINDS[steps[0]], paths.unescape(steps[1])
        _set(drafts.configs, key, {} if change.data is None else nodes.read_config(change.path, change.data))


def _set(configs: dict[Key, Mapping[str, str]], key: Key, values: Mapping[str, str]) -> None:
    if values:
        configs[key] = values
    else:
        configs.pop(key, None)


def _with_acls(before: AclIndex | None, changes: Iterable[NodeChange]) -> AclIndex:
    """The ACLs after changes of their nodes."""
    # Most clusters have no ACLs, and their brokers need not load this.
    from odradek.metadata.image import acl_nodes
    from odradek.security.authorization.index import AclIndex

    entries = {
        pattern: acl_nodes.read_acls(change)
        for change in changes
        if (pattern := acl_nodes.pattern_at(change.path)) is not None
    }
    index = AclIndex() if before is None else before
    return index.changed(entries) if entries else index


def _with_tokens(
    before: Mapping[str, DelegationToken], changes: Iterable[NodeChange]
) -> Mapping[str, DelegationToken]:
    # Most brokers have no tokens and need not load the module.
    from odradek.metadata.image import token_nodes

    tokens = dict(before)
    for path, data in ((change.path, change.data) for change in changes):
        if data is None:
            tokens.pop(path.rpartition("/")[2], None)
        else:
            tokens[path.rpartition("/")[2]] = token_nodes.read_token(path, data)
    return tokens
