"""The image of the cluster that every part of a broker reads: immutable, replaced as a whole.

A request reads the current image once and uses it throughout, so that one answer never mixes two states of the
cluster. A cache of derived values compares by identity: a new image is a new object, and unchanged topics stay the
same objects.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.ids import TopicId
from odradek.foundation.named_tuple import NamedTuple
from odradek.metadata.image.features import FinalizedFeatures
from odradek.metadata.image.paths import DEFAULT_BROKER

if TYPE_CHECKING:
    from odradek.security.authentication.delegation_tokens import DelegationToken
    from odradek.security.authorization.acl_matching import AclIndex

logger = logging.getLogger(__name__)

NO_LEADER: Final = -1


class ResourceKind(StrEnum):
    """The kinds of resources with settings of their own; the values are the folders below `/config`."""

    TOPIC = "topics"
    BROKER = "brokers"
    GROUP = "groups"
    CLIENT_METRICS = "client-metrics"


class PartitionImage(NamedTuple):
    """One partition; `partition_epoch` is the version of its state in the registry.

    During a reassignment (KIP-455) `replicas` are the old and the new ones together. `adding` are the new ones.
    `removing` are removed as soon as all others are in sync.

    `elr` are replicas outside the in-sync set that have all acknowledged records (KIP-966). `last_known_elr` had them
    and may have lost some since.
    """

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


class TopicImage(NamedTuple):
    """One topic; `partitions[n]` is the partition n."""

    name: str
    id: TopicId
    partitions: tuple[PartitionImage, ...]
    is_internal: bool


class BrokerImage(NamedTuple):
    """One live broker. `endpoints` are host and port by listener name; `epoch` is new at each registration. A broker
    that has not `stopped_cleanly` may have lost acknowledged records, unless only its process died and the page cache
    survived. `min_in_sync` is min.insync.replicas of its start, for topics without their own value. `features` are the
    highest levels that it supports, by name. Brokers of one `machine` die together; None is a machine of its own.
    """

    id: int
    endpoints: Mapping[str, tuple[str, int]]
    rack: str | None
    epoch: int
    stopped_cleanly: bool = True
    min_in_sync: int = 1
    features: Mapping[str, int] = MappingProxyType({})
    machine: str | None = None


Configs = Mapping[tuple[ResourceKind, str], Mapping[str, str]]
ClientConfigs = Mapping[ClientEntity, Mapping[str, str]]
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class ClusterImage:
    """Brokers, topics and settings at one moment. The mappings are never changed.

    `brokers` are alive. `registrations` are the last ones of all brokers of a cluster, until a broker is removed.
    `client_configs` are the texts of users, client ids and addresses, by key: quotas, and credentials of users.
    """

    cluster_id: str = ""
    controller_id: int = -1
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topics_by_id: Mapping[TopicId, TopicImage] = field(default_factory=dict)
    configs: Configs = field(default_factory=dict)
    features: FinalizedFeatures = field(default_factory=FinalizedFeatures)
    client_configs: ClientConfigs = field(default_factory=dict)
    acls: AclIndex | None = None
    """All ACLs; None while there never was one, so that most brokers need not load their modules."""
    tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
    """Delegation tokens by id, also those that have ended and are not removed yet."""
    login_secret: bytes = field(default=b"", repr=False)
    """What logins show of users that do not exist depends on it; empty before the first term that has one."""
    registrations: Mapping[int, BrokerImage] = field(default_factory=dict)

    def is_same_as(self, other: ClusterImage) -> bool:
        """Whether both have the same parts, so that no subscriber has to be called."""
        return (self.cluster_id, self.controller_id) == (other.cluster_id, other.controller_id) and (
            self.brokers is other.brokers
            and self.registrations is other.registrations
            and self.topics is other.topics
            and self.topics_by_id is other.topics_by_id
            and self.configs is other.configs
            and self.client_configs is other.client_configs
            and self.features == other.features
            and self.acls is other.acls
            and self.tokens is other.tokens
            and self.login_secret == other.login_secret
        )

    @property
    def fenced_brokers(self) -> dict[int, BrokerImage]:
        """The brokers that are known and away, as their last registrations described them."""
        return {number: one for number, one in self.registrations.items() if number not in self.brokers}

    def config(self, kind: ResourceKind, name: str) -> Mapping[str, str]:
        """The texts set for one resource, by key; empty if none are set."""
        return self.configs.get((kind, name), _NOTHING)

    def broker_overrides(self, name: str | None) -> dict[str, str]:
        """The texts that override the settings a broker was started with; without a `name` those for all brokers."""
        own = _NOTHING if name is None else self.config(ResourceKind.BROKER, name)
        return {**self.config(ResourceKind.BROKER, DEFAULT_BROKER), **own}


ImageCallback = Callable[[ClusterImage, ClusterImage], None]
ImagePreparation = Callable[[ClusterImage], Awaitable[None]]
ImageCompletion = Callable[[], Awaitable[None]]


class ImageHolder:
    """The current image, and the subscribers of its changes."""

    def __init__(self, image: ClusterImage | None = None) -> None:
        self.current = image or ClusterImage()
        self._callbacks: list[ImageCallback] = []
        self._preparations: list[ImagePreparation] = []
        self._completions: list[ImageCompletion] = []

    def subscribe(
        self,
        callback: ImageCallback,
        *,
        prepare: ImagePreparation | None = None,
        complete: ImageCompletion | None = None,
    ) -> Callable[[], None]:
        """Call `callback(old, new)` at each change, in the order of subscription; the result ends it.

        `prepare(new)` and `complete()` are for work that would make `callback` slow: see `prepare`.
        """
        self._callbacks.append(callback)
        if prepare is not None:
            self._preparations.append(prepare)
        if complete is not None:
            self._completions.append(complete)

        def unsubscribe() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)
            if prepare in self._preparations:
                self._preparations.remove(prepare)
            if complete in self._completions:
                self._completions.remove(complete)

        return unsubscribe

    async def prepare(self, new: ClusterImage) -> None:
        """Let subscribers do slow work for this image in small steps, before `replace`.

        For callers that can wait between two changes: they call `complete` after `replace`. Without it `replace` only
        takes longer.
        """
        for preparation in list(self._preparations):
            try:
                await preparation(new)
            except Exception:
                logger.exception("%r could not prepare for a change of the cluster", preparation)

    async def complete(self) -> None:
        """Let subscribers end, in small steps, what they have put off for the image that they prepared for."""
        for completion in list(self._completions):
            try:
                await completion()
            except Exception:
                logger.exception("%r could not complete a change of the cluster", completion)

    def replace(self, new: ClusterImage) -> None:
        """Make `new` the current image and call every subscriber before returning.

        The failure of a subscriber is logged, and the others are still called: the cluster has changed nevertheless.
        """
        old = self.current
        self.current = new
        for callback in list(self._callbacks):
            try:
                callback(old, new)
            except Exception:
                logger.exception("%r could not follow a change of the cluster", callback)
