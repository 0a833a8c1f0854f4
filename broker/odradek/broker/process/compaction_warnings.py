"""Warns in the log of topics that ask for compaction, on a broker with log.cleaner.enable=false.

It warns at the start, when a topic is created, and when its settings or the broker's default change. Each topic is
named once for each policy.

In a cluster the broker with the topic's first replica warns. Internal topics are left out: they are compacted by
design, and their owner chose it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from odradek.foundation.compaction import compaction_warning
from odradek.foundation.settings import Settings
from odradek.metadata.image.changes import config_changes, topic_changes
from odradek.metadata.image.configs import topic_value
from odradek.metadata.image.dynamic_settings import DynamicSettings
from odradek.metadata.image.image import ClusterImage, ImageHolder, ResourceKind, TopicImage

logger = logging.getLogger(__name__)

_NAMES_PER_LINE_MAX: Final = 20


class CompactionWarnings:
    """Follows `images` and `settings` for as long as they live; `broker_id` is this broker's."""

    def __init__(self, images: ImageHolder, settings: DynamicSettings, *, broker_id: int) -> None:
        self._images = images
        self._settings = settings
        self._broker_id = broker_id
        self._reported: dict[str, str] = {}
        """The warning that each topic was named in."""
        images.subscribe(self._follow)
        settings.subscribe(self._follow_default)

    def _follow(self, old: ClusterImage, new: ClusterImage) -> None:
        changes = topic_changes(old, new)
        for topic in changes.deleted:
            self._reported.pop(topic.name, None)
        names = {topic.name for topic in changes.created}
        names |= {name for _, name in config_changes(old, new, kind=ResourceKind.TOPIC)}
        self._warn(new, (new.topics[name] for name in sorted(names) if name in new.topics))

    def _follow_default(self, old: Settings, new: Settings) -> None:
        if old.log_cleanup_policy != new.log_cleanup_policy:
            image = self._images.current
            self._warn(image, image.topics.values())

    def _warn(self, image: ClusterImage, topics: Iterable[TopicImage]) -> None:
        named: dict[str, list[str]] = {}
        for topic in topics:
            if topic.is_internal or topic.partitions[0].replicas[0] != self._broker_id:
                continue
            texts = image.config(ResourceKind.TOPIC, topic.name)
            policy = topic_value("cleanup.policy", texts, settings=self._settings.current)
            warning = compaction_warning(policy, is_enabled=self._settings.current.log_cleaner_enable)
            if warning is None:
                self._reported.pop(topic.name, None)
            elif self._reported.get(topic.name) != warning:
                self._reported[topic.name] = warning
                named.setdefault(warning, []).append(topic.name)
        for warning, names in named.items():
            more = len(names) - _NAMES_PER_LINE_MAX
            and_more = f" and {more} more" if more > 0 else ""
            logger.warning(
                "topic%s %s%s: %s",
                "" if len(names) == 1 else "s",
                ", ".join(names[:_NAMES_PER_LINE_MAX]),
                and_more,
                warning,
            )
