"""Checkpoints: where each group of the source can continue at the target.

Once in `emit.checkpoints.interval.seconds` the offsets of all selected groups are read at the source and translated. A
checkpoint is written where the result changed. It is written outside the mirror's transactions, after they ended:
`RemoteClusterUtils` reads uncommitted records, and would believe an aborted one.

A group that moves forward never gets an earlier offset at the target than before, even if less is known after a
restart. One that was sent back at the source is sent back here too. Without a mapping there is no checkpoint, never the
literal offset (KAFKA-12635). A deleted group keeps its last checkpoint and gets no new one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from odradek.client.admin.groups import CONSUMER_PROTOCOL, GroupAdmin
from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from odradek.client.results import CommittedOffset
from odradek.foundation.errors import GroupIdNotFound
from odradek.foundation.ids import TopicPartition
from odradek.mirror.formats import Checkpoint, TopicIds, checkpoint_key, checkpoint_value, topics_header
from odradek.mirror.settings import GROUP_PREFIX

logger = logging.getLogger(__name__)

# Offsets of one group at the target, with the metadata that its consumer committed.
Translated = dict[TopicPartition, Checkpoint]


def next_checkpoint(translated: Checkpoint, last: Checkpoint | None) -> Checkpoint | None:
    """The checkpoint to write for a group now, or None if what was written last still holds."""
    if last is None:
        return translated
    if translated.source_offset >= last.source_offset and translated.target_offset < last.target_offset:
        # Less is known than before, and what was written is not ahead of the group.
        translated = translated._replace(target_offset=last.target_offset)
    return None if translated == last else translated


class GroupTranslator:
    """Reads the offsets of the source's groups and translates them for the partitions of this worker."""

    def __init__(
        self,
        source: Client,
        *,
        is_selected: Callable[[str], bool],
        translate: Callable[[TopicPartition, int], int | None],
        targets: Mapping[TopicPartition, TopicPartition],
    ) -> None:
        """`targets` has this worker's partitions of the source, with their names at the target. It may change."""
        self._groups = GroupAdmin(source)
        self._is_selected = is_selected
        self._translate = translate
        self._targets = targets
        self.group_ids: tuple[str, ...] = ()

    async def refresh(self) -> None:
        """Look for groups. Kinds without offsets of partitions are left out."""
        self.group_ids = tuple(
            group.group_id
            for group in await self._groups.list()
            if group.protocol_type in ("", CONSUMER_PROTOCOL)
            and group.type in ("classic", "consumer")
            and not group.group_id.startswith(GROUP_PREFIX)
            and self._is_selected(group.group_id)
        )

    async def translate_group(self, group_id: str) -> Translated:
        """The group's offsets at the target, by partition there; nothing for a group that was deleted."""
        try:
            offsets = await self._groups.offsets(group_id)
        except GroupIdNotFound:
            return {}
        return translate_offsets(group_id, offsets, translate=self._translate, targets=self._targets)


def translate_offsets(
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    translate: Callable[[TopicPartition, int], int | None],
    targets: Mapping[TopicPartition, TopicPartition],
) -> Translated:
    """A group's offsets at the target. Partitions that are mirrored elsewhere, or without a mapping, are left out."""
    found: Translated = {}
    for partition, committed in offsets.items():
        target = targets.get(partition)
        offset = None if target is None else translate(partition, committed.offset)
        if target is not None and offset is not None:
            found[target] = Checkpoint(group_id, target, committed.offset, offset, committed.metadata)
    return found


class CheckpointWriter:
    """Writes the checkpoints of one flow to `SOURCE.checkpoints.internal` at the target."""

    def __init__(
        self, producer: Producer, topic: str, *, ids: Callable[[TopicPartition], TopicIds | None]
    ) -> None:
        """`ids` returns the ids of a topic by its partition at the target, if they are known."""
        self._producer = producer
        self._topic = topic
        self._ids = ids
        self._last: dict[tuple[str, TopicPartition], Checkpoint] = {}
        self.written = 0

    def restore(self, stored: Mapping[tuple[str, TopicPartition], Checkpoint]) -> None:
        """Note what is stored already. What was written here since is newer."""
        self._last = {**stored, **self._last}

    def keep(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions of the target that other workers mirror now."""
        kept = set(partitions)
        self._last = {key: last for key, last in self._last.items() if key[1] in kept}

    async def write(self, translated: Translated) -> Translated:
        """Write what changed for one group and wait for it. Returns what holds now for all its partitions."""
        holding: Translated = {}
        changed: Translated = {}
        for partition, checkpoint in translated.items():
            key = (checkpoint.group_id, partition)
            news = next_checkpoint(checkpoint, self._last.get(key))
            holding[partition] = news or self._last[key]
            if news is not None:
                changed[partition] = news
        for partition, checkpoint in changed.items():
            ids = self._ids(partition)
            await self._producer.send(
                self._topic,
                checkpoint_value(checkpoint),
                key=checkpoint_key(checkpoint),
                headers=[topics_header(ids)] if ids is not None else [],
                partition=0,
            )
        if changed:
            await self._producer.flush()
        for partition, checkpoint in changed.items():
            self._last[checkpoint.group_id, partition] = checkpoint
        self.written += len(changed)
        return holding
