"""The values that all groups of a broker share: settings, the cluster's image, fences, topic patterns, counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar

from odradek.broker.groups.consumer.patterns import TopicPatterns
from odradek.foundation.clock import Clock
from odradek.foundation.errors import CoordinatorLoadInProgress, UnknownMemberId, UnsupportedVersion
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.tasks import TaskOwner
from odradek.metadata.image.features import SHARE_VERSION, STREAMS_VERSION
from odradek.metadata.image.group_configs import FENCED_UNTIL_KEY, group_value, parse_fenced_until_ms
from odradek.metadata.image.image import ClusterImage, ImageHolder, ResourceKind

if TYPE_CHECKING:
    from odradek.broker.share_states.states import ShareStateRequests

CONSUMER_PROTOCOL = "consumer"
STREAMS_PROTOCOL = "streams"

Result = TypeVar("Result")


class InThread(Protocol):
    """Runs work in a thread; the future has what it returns or raises."""

    def __call__(self, work: Callable[[], Result], /) -> asyncio.Future[Result]: ...


class Fences:
    """The groups that are fenced now, by the cluster's image and the wall clock (`odradek.fenced.until` of a group).

    An administrator fences a group to change its offsets while its consumers run. Its members are removed at once, so
    their commits are refused. A join is answered with CoordinatorLoadInProgress: every client waits and tries again
    then, on the same connection and without giving up. When the fence ends, the members join by themselves and begin
    from the new offsets. A fence has an end, so it also ends when its maker is gone. Commits without a membership are
    accepted, because the administrator makes them: a consumer that manages its partitions itself is not held up.

    Where the offsets topic cannot be written, members cannot be removed. Their heartbeats are refused then, and their
    sessions end.
    """

    def __init__(self, images: ImageHolder, clock: Clock) -> None:
        self._images = images
        self._clock = clock

    def is_fenced(self, group_id: str) -> bool:
        texts = self._images.current.config(ResourceKind.GROUP, group_id)
        return FENCED_UNTIL_KEY in texts and parse_fenced_until_ms(texts) > self._clock.wall_ms()

    def check_may_join(self, group_id: str) -> None:
        """Raises CoordinatorLoadInProgress, after which clients wait, while the group is fenced."""
        if self.is_fenced(group_id):
            raise CoordinatorLoadInProgress(
                f"the group {group_id!r} is fenced ({FENCED_UNTIL_KEY}) while its offsets are changed; try again until "
                "it is not"
            )

    def check_may_stay(self, group_id: str) -> None:
        """Raises UnknownMemberId, after which members join again, while the group is fenced."""
        if self.is_fenced(group_id):
            raise UnknownMemberId(
                f"the group {group_id!r} is fenced ({FENCED_UNTIL_KEY}) and has no members now; join again"
            )

    def list_fenced_groups(self) -> Iterator[str]:
        """Every group that is fenced now."""
        for kind, group_id in self._images.current.configs:
            if kind is ResourceKind.GROUP and self.is_fenced(group_id):
                yield group_id

    def find_changed_groups(self, old: ClusterImage, new: ClusterImage) -> Iterator[str]:
        """The groups that are fenced now and whose settings differ between the two images."""
        if old.configs is new.configs:
            return
        for (kind, group_id), texts in new.configs.items():
            if kind is not ResourceKind.GROUP or texts is old.config(ResourceKind.GROUP, group_id):
                continue
            if self.is_fenced(group_id):
                yield group_id


class GroupContext:
    """`images` holds the current cluster image, `new_id` makes unique member ids.

    `settings` are those that the broker started with, `current_settings` gives those of now (without it, the same).
    `in_thread` runs long work in a thread; without it the event loop does that too.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        settings: Settings,
        images: ImageHolder,
        new_id: Callable[[], str],
        in_thread: InThread | None = None,
        current_settings: Callable[[], Settings] | None = None,
        new_share_states: Callable[[], ShareStateRequests] | None = None,
    ) -> None:
        self._new_share_states = new_share_states
        self.tasks: TaskOwner | None = None
        """Of the coordinator, while it runs."""
        self.clock = clock
        self.settings = settings
        self._current_settings = current_settings or (lambda: settings)
        self.images = images
        self.new_id = new_id
        self.in_thread = in_thread
        self.fences = Fences(images, clock)
        self.patterns = TopicPatterns()
        self.commits = 0
        self.rebalances = 0  # of classic groups, that have ended
        self.streams_rebalances = 0  # new epochs of Streams groups
        self.share_rebalances = 0  # new epochs of share groups

    @cached_property
    def share_states(self) -> ShareStateRequests:
        """What keeps the states of share-partitions."""
        assert self._new_share_states is not None, "only asked for by share groups, which a broker serves"
        return self._new_share_states()

    def session_timeout_ms(self, group_id: str) -> int:
        """The time that a member of a consumer group may send no heartbeat."""
        return self.consumer_value("session.timeout.ms", group_id)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """The time between heartbeats that members of a consumer group are asked for."""
        return self.consumer_value("heartbeat.interval.ms", group_id)

    def consumer_value(self, name: str, group_id: str) -> int:
        """A setting of a consumer group: `consumer.` and `name` of the group, else the broker's."""
        return self._group_value(f"consumer.{name}", group_id)

    def share_value(self, name: str, group_id: str) -> int:
        """A setting of a share group: `share.` and `name` of the group, else the broker's."""
        return self._group_value(f"share.{name}", group_id)

    def streams_value(self, name: str, group_id: str) -> int:
        """A setting of a Streams group: `streams.` and `name` of the group, else the broker's."""
        return self._group_value(f"streams.{name}", group_id)

    def streams_rack_tags(self, group_id: str) -> tuple[str, ...]:
        """The tags of clients that standby tasks are to be spread by, where an assignor does that."""
        texts = self.images.current.config(ResourceKind.GROUP, group_id)
        text = texts.get("streams.rack.aware.assignment.tags")
        if text is None:
            tags: tuple[str, ...] = self.settings.group_streams_rack_aware_assignment_tags
            return tags
        return tuple(tag.strip() for tag in text.split(",") if tag.strip())

    def _group_value(self, key: str, group_id: str) -> int:
        texts = self.images.current.config(ResourceKind.GROUP, group_id)
        return group_value(key, texts, settings=self._current_settings())

    def check_consumer_protocol(self) -> None:
        """Raises UnsupportedVersion when group.coordinator.rebalance.protocols leaves consumer groups out."""
        if CONSUMER_PROTOCOL not in self.settings.group_coordinator_rebalance_protocols:
            raise UnsupportedVersion(
                "this broker does not serve the consumer protocol: group.coordinator.rebalance.protocols is "
                f"{','.join(self.settings.group_coordinator_rebalance_protocols)}; use group.protocol=classic"
            )

    def check_streams_protocol(self) -> None:
        """Raises UnsupportedVersion where Streams groups are not served, or streams.version is 0."""
        if STREAMS_PROTOCOL not in self.settings.group_coordinator_rebalance_protocols:
            raise UnsupportedVersion(
                "this broker does not serve the streams protocol: group.coordinator.rebalance.protocols is "
                f"{','.join(self.settings.group_coordinator_rebalance_protocols)}; use group.protocol=classic"
            )
        if self.images.current.features.level(STREAMS_VERSION) < 1:
            raise UnsupportedVersion(
                "this cluster does not serve the streams protocol yet: its feature level streams.version is 0; raise "
                "it to 1, or use group.protocol=classic"
            )

    def check_share_protocol(self) -> None:
        """Raises UnsupportedVersion while share.version is 0, which alone decides, as in Kafka."""
        if self.images.current.features.level(SHARE_VERSION) < 1:
            raise UnsupportedVersion(
                "this cluster does not serve the share protocol yet: its feature level share.version is 0; raise it, "
                "or use a consumer group"
            )
