"""The offsets of `groups reset-offsets --from-mirror`: what a mirror translated for groups of another cluster.

They are the newest checkpoints in `SOURCE.checkpoints.internal` of this cluster, written by `odradek mirror` or by
MirrorMaker 2. As its `RemoteClusterUtils.translateOffsets`, and for several groups at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.cli.groups.saved_offsets import SavedOffset
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.foundation.errors import GroupIdNotFound, InvalidRequest, UnknownTopicOrPartition
from odradek.mirror.formats import Checkpoint, parse_checkpoint
from odradek.mirror.naming import ReplicationPolicy
from odradek.mirror.topic_tail import tail

_SUFFIX: Final = "internal"
_ALL: Final = 2**63 - 1


async def translate_offsets(
    client: Client, source: str, group_ids: Sequence[str]
) -> dict[str, list[SavedOffset]]:
    """The translated offsets by group: of the groups named, or of all. `source` is an alias, or the topic's name.

    Raises UnknownTopicOrPartition where nothing is mirrored from there, GroupIdNotFound for a group without offsets.
    """
    topic = source if source.endswith(_SUFFIX) else ReplicationPolicy().checkpoints_topic(source)
    newest = await _newest(client, topic)
    there = {one.name for one in await TopicAdmin(client).list()}
    by_group: dict[str, list[SavedOffset]] = {}
    for one in newest:
        if one.partition.topic not in there:
            continue  # deleted since
        by_group.setdefault(one.group_id, []).append(
            SavedOffset(one.group_id, *one.partition, one.target_offset, metadata=one.metadata)
        )
    missing = [group_id for group_id in group_ids if group_id not in by_group]
    if missing:
        known = ", ".join(sorted(by_group)) or "no group"
        raise GroupIdNotFound(
            f"topic {topic!r} has no offsets of group {missing[0]!r}, but of {known}; a mirror writes them "
            "once the group has committed, and looks every emit.checkpoints.interval.seconds"
        )
    return {group_id: by_group[group_id] for group_id in (group_ids or sorted(by_group))}


async def _newest(client: Client, topic: str) -> list[Checkpoint]:
    found: dict[tuple[object, ...], Checkpoint] = {}
    try:
        async for records in tail(client, topic, offsets_max=_ALL):
            for record in records:
                try:
                    one = parse_checkpoint(record.key or b"", record.value or b"")
                except InvalidRequest:
                    continue
                found[one.group_id, one.partition] = one
    except UnknownTopicOrPartition as failure:
        there = [
            one.name for one in await TopicAdmin(client).list() if one.name.endswith(f"checkpoints.{_SUFFIX}")
        ]
        raise UnknownTopicOrPartition(
            f"there is no topic {topic!r}: no mirror writes checkpoints of that cluster here; "
            f"topics of checkpoints are: {', '.join(there) or 'none'}"
        ) from failure
    return [found[key] for key in sorted(found, key=str)]
