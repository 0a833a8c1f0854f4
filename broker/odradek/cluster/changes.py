"""What differs between two images, and the making of the next image from the last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from odradek.cluster.image import BrokerImage, ClusterImage, ResourceKind, TopicImage


class TopicChanges(NamedTuple):
    """Topics that differ. A topic deleted and made anew is in both `deleted` (the old one) and `created`."""

    created: tuple[TopicImage, ...]
    deleted: tuple[TopicImage, ...]
    changed: tuple[tuple[TopicImage, TopicImage], ...]


def topic_changes(old: ClusterImage, new: ClusterImage) -> TopicChanges:
    """What happened to topics; nothing at all when both images share their mapping of topics."""
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


def config_changes(old: ClusterImage, new: ClusterImage) -> frozenset[tuple[ResourceKind, str]]:
    """The resources whose settings differ."""
    if old.configs is new.configs:
        return frozenset()
    keys = old.configs.keys() | new.configs.keys()
    return frozenset(key for key in keys if old.configs.get(key) != new.configs.get(key))


def with_topics(
    image: ClusterImage, topics: Iterable[TopicImage] = (), *, without: Iterable[str] = ()
) -> ClusterImage:
    """The image with some topics new or other, and some gone."""
    by_name = dict(image.topics)
    by_id = dict(image.topics_by_id)
    for name in without:
        gone = by_name.pop(name, None)
        if gone is not None:
            by_id.pop(gone.id, None)
    for topic in topics:
        before = by_name.get(topic.name)
        if before is not None and before.id != topic.id:
            by_id.pop(before.id, None)
        by_name[topic.name] = topic
        by_id[topic.id] = topic
    return replace(image, topics=by_name, topics_by_id=by_id)


def with_configs(
    image: ClusterImage, configs: Mapping[tuple[ResourceKind, str], Mapping[str, str] | None]
) -> ClusterImage:
    """The image with some resources' settings replaced; None or an empty mapping takes them away."""
    merged = dict(image.configs)
    for key, values in configs.items():
        if values:
            merged[key] = dict(values)
        else:
            merged.pop(key, None)
    return replace(image, configs=merged)


def with_broker(image: ClusterImage, broker: BrokerImage) -> ClusterImage:
    """The image with one broker new or other."""
    return replace(image, brokers={**image.brokers, broker.id: broker})
