"""The values that all groups of a broker share: settings, the cluster's image, fences, topic patterns, counts."""

from __future__ import annotations

from collections.abc import Callable

from odradek.cluster.group_configs import group_value
from odradek.cluster.image import ImageHolder, ResourceKind
from odradek.foundation.clock import Clock
from odradek.foundation.errors import UnsupportedVersion
from odradek.foundation.settings import Settings
from odradek.groups.consumer.patterns import TopicPatterns
from odradek.groups.fencing import Fences

CONSUMER_PROTOCOL = "consumer"


class GroupContext:
    """`settings` are the broker's, `images` holds the current cluster image, `new_id` makes unique member ids."""

    def __init__(
        self, *, clock: Clock, settings: Settings, images: ImageHolder, new_id: Callable[[], str]
    ) -> None:
        self.clock = clock
        self.settings = settings
        self.images = images
        self.new_id = new_id
        self.fences = Fences(images, clock)
        self.patterns = TopicPatterns()
        self.commits = 0
        self.rebalances = 0  # of classic groups, that have ended

    def session_timeout_ms(self, group_id: str) -> int:
        """The time that a member of a consumer group may send no heartbeat."""
        return self._group_value("consumer.session.timeout.ms", group_id)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """The time between heartbeats that members of a consumer group are asked for."""
        return self._group_value("consumer.heartbeat.interval.ms", group_id)

    def _group_value(self, key: str, group_id: str) -> int:
        texts = self.images.current.config(ResourceKind.GROUP, group_id)
        return group_value(key, texts, settings=self.settings)

    def check_consumer_protocol(self) -> None:
        """Raises UnsupportedVersion when group.coordinator.rebalance.protocols leaves consumer groups out."""
        if CONSUMER_PROTOCOL not in self.settings.group_coordinator_rebalance_protocols:
            raise UnsupportedVersion(
                "this broker does not serve the consumer protocol: group.coordinator.rebalance.protocols is "
                f"{','.join(self.settings.group_coordinator_rebalance_protocols)}; use group.protocol=classic"
            )
