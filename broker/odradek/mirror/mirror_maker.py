"""Positions that MirrorMaker 2 left at the target, from which a mirror continues in its place.

MirrorMaker keeps them as the source offsets of Kafka Connect, in JSON. As a process of its own it has them in the topic
`mm2-offsets.SOURCE.internal`, of 25 partitions, compacted:

    key    ["MirrorSourceConnector",{"cluster":"a","partition":0,"topic":"orders"}]
    value  {"offset":249}     the last record that it copied; empty where the position was deleted

In a cluster of Connect the topic and the connector have other names, and other connectors have their positions there
too. The newest position counts where two connectors have one.

Nothing is guessed. A missing topic, a topic without any position of this source, and a MirrorMaker that still runs are
errors, after which the mirror tries again. A position that cannot be read stops its partition.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from odradek.client.admin.groups import GroupAdmin
from odradek.client.client import Client
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.foundation.errors import GroupIdNotFound, UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition
from odradek.mirror.errors import PositionsNotTakenOver
from odradek.mirror.positions import Mismatch
from odradek.mirror.source_batches import Position
from odradek.mirror.topic_tail import tail

KEY: Final = "mirror.maker.offsets.topic"
"""The setting with the topic's name."""
_CLUSTERS_NAMED_MAX: Final = 5


class _Stored(NamedTuple):
    """The newest record of one key."""

    partition: TopicPartition
    timestamp_ms: int
    value: bytes | None


class StoredPositions:
    """The positions of some partitions of a source, from the records of the topic."""

    def __init__(self, source_alias: str, wanted: Collection[TopicPartition]) -> None:
        self._source_alias = source_alias
        self._wanted = wanted
        self._newest: dict[bytes, _Stored] = {}
        self.clusters: set[str] = set()
        """Some of the sources that the topic has positions of."""

    def add(self, records: Iterable[ConsumerRecord]) -> None:
        """Take records in the order of their offsets."""
        for record in records:
            cluster, partition = _parse_key(record.key)
            if partition is None:
                continue
            if len(self.clusters) < _CLUSTERS_NAMED_MAX or cluster == self._source_alias:
                self.clusters.add(cluster)
            if record.key is not None and cluster == self._source_alias and partition in self._wanted:
                self._newest[record.key] = _Stored(partition, record.timestamp_ms, record.value)

    def list_found(self) -> dict[TopicPartition, Position | Mismatch]:
        """Where to continue, or why that cannot be read; nothing for partitions without a position."""
        found: dict[TopicPartition, Position | Mismatch] = {}
        for stored in sorted(self._newest.values(), key=lambda one: one.timestamp_ms):
            if stored.value is not None:
                position = _position(stored.value)
                if position is not None:
                    found[stored.partition] = position
        return found


async def positions_of_mirror_maker(
    target: Client,
    topic: str,
    wanted: Collection[TopicPartition],
    *,
    source_alias: str,
    target_alias: str,
) -> dict[TopicPartition, Position | Mismatch]:
    """Where MirrorMaker stopped, for those of the wanted partitions of the source that it copied.

    Raises PositionsNotTakenOver, and UnknownTopicOrPartition where there is no such topic.
    """
    await _refuse_running(target, source_alias=source_alias, target_alias=target_alias)
    stored = StoredPositions(source_alias, wanted)
    try:
        async for records in tail(target, topic):
            stored.add(records)
    except UnknownTopicOrPartition as failure:
        raise UnknownTopicOrPartition(
            f"there is no topic {topic!r} at cluster {target_alias!r} with the positions of MirrorMaker 2; correct "
            f"{KEY}, or remove it to begin at consumer.auto.offset.reset"
        ) from failure
    if source_alias not in stored.clusters:
        others = ", ".join(sorted(stored.clusters))
        raise PositionsNotTakenOver(
            f"topic {topic!r} of cluster {target_alias!r} has no positions of MirrorMaker 2 for source {source_alias!r}"
            f"{f' (it has some for {others})' if others else ''}; correct "
            f"{KEY} or the alias, or remove {KEY} to begin at consumer.auto.offset.reset"
        )
    return stored.list_found()


async def _refuse_running(target: Client, *, source_alias: str, target_alias: str) -> None:
    """Two that copy the same records would double them."""
    group_id = f"{source_alias}-mm2"
    try:
        members = (await GroupAdmin(target).describe(group_id)).members
    except GroupIdNotFound:
        return
    if members:
        raise PositionsNotTakenOver(
            f"MirrorMaker 2 still copies {source_alias}->{target_alias}: its group {group_id!r} of cluster "
            f"{target_alias!r} has {len(members)} members; stop it, and the mirror continues in its place. One that "
            f"mirrors to {source_alias} alone is started with --clusters {source_alias}"
        )


def _parse_key(key: bytes | None) -> tuple[str, TopicPartition | None]:
    """The source and its partition in a record's key; no partition where another connector has something there."""
    try:
        _, named = json.loads(key or b"")
        return str(named["cluster"]), TopicPartition(str(named["topic"]), int(named["partition"]))
    except (ValueError, KeyError, TypeError):
        return "", None


def _position(value: bytes) -> Position | Mismatch | None:
    """The position behind the last record that was copied; None where MirrorMaker has copied nothing yet."""
    try:
        last = json.loads(value)["offset"]
    except (ValueError, KeyError, TypeError):
        last = None
    if not isinstance(last, int) or isinstance(last, bool):
        shown = value[:80].decode(errors="replace")
        return Mismatch(
            "mirror-maker-position", f"the position that MirrorMaker 2 left cannot be read: {shown!r}"
        )
    return None if last < 0 else Position(last + 1)
