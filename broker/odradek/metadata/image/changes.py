"""The differences between two images."""

from __future__ import annotations

from odradek.foundation.named_tuple import NamedTuple
from odradek.metadata.image.image import ClusterImage, ResourceKind, TopicImage


class TopicChanges(NamedTuple):
    """Topics that differ. A topic deleted and created again is in both `deleted` (the old one) and `created`."""

    created: tuple[TopicImage, ...]
    deleted: tuple[TopicImage, ...]
    changed: tuple[tuple[TopicImage, TopicImage], ...]


def topic_changes(old: ClusterImage, new: ClusterImage) -> TopicChanges:
    """The changes of topics; none when both images share their mapping of topics."""
    if old.topics is new.topics:
        return TopicChanges((), (), ())
    created: list[TopicImage] = []
    deleted: list[TopicImage] = []
    changed: list[tuple[TopicImage, TopicImage]] = []
    for name, topic in new.topics.items():
        before = old.topics.get(name)
        if before is topic:
            continue
        if before is None or before.id != topic.id:
            created.append(topic)
        else:
            changed.append((before, topic))
    for name, topic in old.topics.items():
        after = new.topics.get(name)
        if after is None or after.id != topic.id:
            deleted.append(topic)
    return TopicChanges(tuple(created), tuple(deleted), tuple(changed))


def config_changes(
    old: ClusterImage, new: ClusterImage, *, kind: ResourceKind | None = None
) -> frozenset[tuple[ResourceKind, str]]:
    """The resources whose settings differ, of one kind or of all."""
    if old.configs is new.configs:
        return frozenset()
    keys = old.configs.keys() | new.configs.keys()
    return frozenset(
        key
        for key in keys
        if (kind is None or key[0] is kind) and old.configs.get(key) != new.configs.get(key)
    )
