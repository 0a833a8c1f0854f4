"""Builds the image from the registry's nodes, and each image from the one before.

No other code reads nodes into an image: the controller's start, a broker that follows it, and a snapshot all use
`apply`. Changes are applied in their order, so that a topic deleted and created again within one batch is the new one.
Topics that no change names stay the same objects.

A topic with the mark of deletion is not in the image, nor are its settings, also while nodes of it remain. A partition
without a state was never led (the controller died between two writes), and has no leader in the image. Other nodes are
ignored, so that older brokers can follow newer controllers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.ids import TopicId
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.turn_limits import NODE_CHANGES_PER_TURN_MAX
from odradek.foundation.turns import Turn
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
    from odradek.security.authentication.delegation_tokens import DelegationToken
    from odradek.security.authorization.acl_matching import AclIndex

Key = TypeVar("Key")

# Of a topic's node, for each of its partitions.
_PARTITION_BYTES: Final = 64
_NOBODY: Final = nodes.ReplicaAssignment(())
# One change of these is about all partitions of a topic, or of all topics.
_ABOUT_TOPICS: Final = (f"{paths.DELETE_TOPICS}/", f"{paths.CONFIG}/{ResourceKind.TOPIC}/")
_ABOUT_BROKERS: Final = f"{paths.CONFIG}/{ResourceKind.BROKER}/"
_KINDS: Final = {str(kind): kind for kind in ResourceKind}


class _TopicDraft:
    """A topic while changes are applied: the content of its node, and its partitions' states.

    It has only what changes: a topic may have many thousand partitions, and most changes are of a few.
    """

    __slots__ = ("_before", "_replicas", "_states", "id", "is_doomed", "made")

    def __init__(self, before: TopicImage | None) -> None:
        self.id: TopicId | None = None if before is None else before.id
        self.is_doomed = False
        self.made: list[PartitionImage] = []
        """The partitions of the next image, as far as `steps` has made them."""
        # None once the changes are of another topic, or of none.
        self._before = before
        # Of the topic's node, where that changes.
        self._replicas: Mapping[int, nodes.ReplicaAssignment] | None = {} if before is None else None
        self._states: dict[int, PartitionImage | None] = {}

    @property
    def partition_count(self) -> int:
        if self._replicas is not None:
            return len(self._replicas)
        return 0 if self._before is None else len(self._before.partitions)

    def remove(self) -> None:
        """The topic's node is gone."""
        self.id, self._before, self._replicas = None, None, {}
        self._states.clear()

    def set_node(self, node: nodes.TopicNode) -> None:
        if node.id != self.id and self.id is not None:
            # Another topic of the same name: no state of the old one is kept.
            self._before = None
            self._states.clear()
        self.id, self._replicas = node.id, node.replicas

    def set_state(self, number: int, state: PartitionImage | None) -> None:
        """The state of a partition; None where its node is gone."""
        self._states[number] = state

    def assignment(self, number: int) -> nodes.ReplicaAssignment:
        """The replicas of a partition as they are now."""
        if self._replicas is not None:
            return self._replicas.get(number, _NOBODY)
        known = self._find_known(number)
        return _NOBODY if known is None else _assignment(known)

    def steps(self) -> Iterator[None]:
        """Make the partitions of the next image, some in each step."""
        if self.id is None or self.is_doomed:
            return
        if self._replicas is None:
            assert self._before is not None, "a topic has an id, from before or from its node"
            self.made = list(self._before.partitions)
            for number in self._states.keys() & range(len(self.made)):
                assignment = _assignment(self.made[number])
                self.made[number] = _partition(number, self._states[number], assignment)
            return
        for number in range(len(self._replicas)):
            state = self._states[number] if number in self._states else self._find_known(number)
            self.made.append(_partition(number, state, self._replicas[number]))
            if len(self.made) % NODE_CHANGES_PER_TURN_MAX == 0:
                yield

    def finish_topic(self, name: str) -> TopicImage | None:
        """The topic, once all steps are done; None when it has no node or is being deleted."""
        if self.id is None or self.is_doomed:
            return None
        return TopicImage(name, self.id, tuple(self.made), is_internal_topic(name))

    def _find_known(self, number: int) -> PartitionImage | None:
        if self._before is None or number >= len(self._before.partitions):
            return None
        return self._before.partitions[number]


def _assignment(partition: PartitionImage) -> nodes.ReplicaAssignment:
    return nodes.ReplicaAssignment(partition.replicas, partition.adding, partition.removing)


def _partition(
    number: int, known: PartitionImage | None, assignment: nodes.ReplicaAssignment
) -> PartitionImage:
    replicas, adding, removing = assignment
    if known is None:
        return PartitionImage(number, NO_LEADER, -1, replicas, (), -1, adding, removing)
    if known.replicas == replicas and known.adding == adding and known.removing == removing:
        return known
    return known._replace(replicas=replicas, adding=adding, removing=removing)


class _Drafts(NamedTuple):
    """Everything that differs from the image before the changes."""

    image: ClusterImage
    topics: dict[str, _TopicDraft]
    brokers: dict[int, BrokerImage]
    registrations: dict[int, BrokerImage]
    configs: dict[tuple[ResourceKind, str], Mapping[str, str]]
    client_configs: dict[ClientEntity, Mapping[str, str]]

    def topic(self, name: str) -> _TopicDraft:
        draft = self.topics.get(name)
        if draft is None:
            draft = self.topics[name] = _TopicDraft(self.image.topics.get(name))
        return draft


class _Building:
    """An image while changes are applied."""

    def __init__(self, image: ClusterImage) -> None:
        self.drafts = _Drafts(
            image,
            {},
            dict(image.brokers),
            dict(image.registrations),
            dict(image.configs),
            dict(image.client_configs),
        )
        self.acl_changes: list[NodeChange] = []
        self.acls = image.acls
        self._image = image
        self._token_changes: list[NodeChange] = []
        self._cluster_id, self._controller_id = image.cluster_id, image.controller_id
        self._features, self._login_secret = image.features, image.login_secret
        self._differing: dict[str, tuple[TopicImage | None, TopicImage | None]] = {}

    def add(self, change: NodeChange) -> None:
        """Apply one change. Raises StoreError for a node that cannot be read."""
        path, data = change.path, change.data
        if path.startswith(paths.TOPICS + "/"):
            _apply_topic(self.drafts, change)
        elif path.startswith(paths.BROKER_IDS + "/"):
            _apply_broker(self.drafts.brokers, change)
        elif path.startswith(paths.REGISTRATIONS + "/"):
            _apply_broker(self.drafts.registrations, change)
        elif path.startswith(paths.CONFIG + "/"):
            _apply_config(self.drafts, change)
        elif path.startswith(paths.DELETE_TOPICS + "/"):
            self.drafts.topic(path.rpartition("/")[2]).is_doomed = data is not None
        elif path.startswith(paths.ACLS):
            self.acl_changes.append(change)
        elif path.startswith(paths.TOKENS + "/"):
            self._token_changes.append(change)
        elif path == paths.FEATURES:
            self._features = FinalizedFeatures() if data is None else nodes.read_features(path, data)
        elif path == paths.CONTROLLER:
            self._controller_id = -1 if data is None else nodes.read_controller(path, data)
        elif path == paths.CLUSTER_ID and data is not None:
            self._cluster_id = nodes.read_cluster_id(path, data)
        elif path == paths.LOGIN_SECRET and data is not None:
            self._login_secret = nodes.read_login_secret(path, data)

    def finish_topic(self, name: str, draft: _TopicDraft) -> None:
        """Make the image of one topic that changes have named."""
        before, after = self._image.topics.get(name), draft.finish_topic(name)
        if before != after:
            self._differing[name] = before, after
        if draft.is_doomed:
            self.drafts.configs.pop((ResourceKind.TOPIC, name), None)

    def finish_acls(self, changes: Sequence[NodeChange]) -> None:
        if changes:
            self.acls = _with_acls(self.acls, changes)

    def finish_image(self) -> ClusterImage:
        """The image, once all topics and ACLs are finished; the one before when the changes change nothing of it."""
        image, drafts = self._image, self.drafts
        topics, topics_by_id = self._topics()
        is_same_client = drafts.client_configs == image.client_configs
        after = replace(
            image,
            cluster_id=self._cluster_id,
            controller_id=self._controller_id,
            brokers=drafts.brokers if drafts.brokers != image.brokers else image.brokers,
            registrations=(
                drafts.registrations if drafts.registrations != image.registrations else image.registrations
            ),
            configs=drafts.configs if drafts.configs != image.configs else image.configs,
            topics=topics,
            topics_by_id=topics_by_id,
            features=self._features,
            client_configs=image.client_configs if is_same_client else drafts.client_configs,
            acls=self.acls,
            tokens=_with_tokens(image.tokens, self._token_changes) if self._token_changes else image.tokens,
            login_secret=self._login_secret,
        )
        return image if after.is_same_as(image) else after

    def _topics(self) -> tuple[Mapping[str, TopicImage], Mapping[TopicId, TopicImage]]:
        image = self._image
        if not self._differing:
            return image.topics, image.topics_by_id
        by_name, by_id = dict(image.topics), dict(image.topics_by_id)
        for name, (before, after) in self._differing.items():
            if before is not None:
                del by_id[before.id]
            if after is None:
                del by_name[name]
            else:
                by_name[name] = by_id[after.id] = after
        return by_name, by_id


def apply(image: ClusterImage, changes: Iterable[NodeChange]) -> ClusterImage:
    """The image after the changes; the same object when they change nothing of it.

    Raises StoreError for a node that cannot be read.
    """
    building = _Building(image)
    for change in changes:
        building.add(change)
    for name, draft in building.drafts.topics.items():
        for _ in draft.steps():
            pass
        building.finish_topic(name, draft)
    building.finish_acls(building.acl_changes)
    return building.finish_image()


async def apply_in_turns(image: ClusterImage, changes: Sequence[NodeChange]) -> ClusterImage:
    """As `apply`, some changes in each turn of the event loop, and then some topics and ACLs."""
    building = _Building(image)
    turn = Turn(NODE_CHANGES_PER_TURN_MAX)
    for change in changes:
        if turn.is_over(1 + len(change.data or b"") // _PARTITION_BYTES):
            await turn.next()
        building.add(change)
    for name, draft in building.drafts.topics.items():
        for _ in draft.steps():
            await turn.next()
        if turn.is_over(1 + draft.partition_count):
            await turn.next()
        building.finish_topic(name, draft)
    acl_changes = building.acl_changes
    for start in range(0, len(acl_changes), NODE_CHANGES_PER_TURN_MAX):
        await turn.next()
        building.finish_acls(acl_changes[start : start + NODE_CHANGES_PER_TURN_MAX])
    await turn.next()
    return building.finish_image()


def weight_of(image: ClusterImage, changes: Sequence[NodeChange]) -> int:
    """What changes are for those that follow the image: each counts, and each partition that it is about.

    The deletion of a topic is one change, and so are settings of a topic or the defaults of all.
    """
    weight = len(changes)
    if weight > NODE_CHANGES_PER_TURN_MAX:
        return weight
    topics = image.topics
    named: set[str] = set()
    for path in (change.path for change in changes):
        if path.startswith(_ABOUT_TOPICS):
            named.add(path.rpartition("/")[2])
        elif path.startswith(_ABOUT_BROKERS):
            return weight + sum(len(topic.partitions) for topic in topics.values())
    return weight + sum(len(topics[name].partitions) for name in named if name in topics)


def _apply_topic(drafts: _Drafts, change: NodeChange) -> None:
    path, data = change.path, change.data
    steps = path.removeprefix(paths.TOPICS + "/").split("/")
    draft = drafts.topic(steps[0])
    if len(steps) == 1:
        if data is None:
            draft.remove()
        else:
            draft.set_node(nodes.read_topic(path, data))
    elif len(steps) == 4 and steps[1] == "partitions" and steps[3] == "state":
        number = int(steps[2])
        if data is None:
            draft.set_state(number, None)
        else:
            draft.set_state(
                number,
                nodes.read_partition_state(
                    path,
                    data,
                    number=number,
                    assignment=draft.assignment(number),
                    version=change.version,
                ),
            )


def _apply_broker(brokers: dict[int, BrokerImage], change: NodeChange) -> None:
    broker_id = int(change.path.rpartition("/")[2])
    if change.data is None:
        brokers.pop(broker_id, None)
    else:
        brokers[broker_id] = nodes.read_broker(change.path, change.data)


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
    from odradek.security.authorization.acl_matching import AclIndex

    entries = {
        pattern: acl_nodes.read_acls(change)
        for change in changes
        if (pattern := acl_nodes.pattern_at(change.path)) is not None
    }
    index = AclIndex() if before is None else before
    return index.with_changes(entries) if entries else index


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
