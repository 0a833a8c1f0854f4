"""Plans which committed offsets `groups delete-offsets` deletes.

The partitions are those with committed offsets, so that offsets of a deleted topic can be deleted too.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.cli.group_resets import ResetPlan
from odradek.cli.options import parse_partitions
from odradek.client.admin.groups import GroupAdmin
from odradek.client.client import Client
from odradek.foundation.errors import GroupSubscribedToTopic, UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition


async def plan_deletions(client: Client, group_id: str, topics: Sequence[str]) -> list[ResetPlan]:
    """A plan for each partition named that has an offset.

    Raises GroupIdNotFound, GroupSubscribedToTopic, UnknownTopicOrPartition for a partition without an offset, and
    InvalidRequest for a group in ZooKeeper.
    """
    admin = GroupAdmin(client)
    await admin.check_changeable(group_id)
    group = await admin.describe(group_id)
    committed = await admin.offsets(group_id)
    keys: dict[TopicPartition, None] = {}
    for text in topics:
        topic, colon, numbers = text.partition(":")
        readers = [
            m for m in group.members if topic in m.topics or any(k.topic == topic for k in m.assignment)
        ]
        if readers:
            clients = ", ".join(sorted({f"{m.client_id} ({m.client_host})" for m in readers}))
            raise GroupSubscribedToTopic(
                f"group {group_id!r} has members that subscribe to topic {topic!r}: {clients}; "
                "stop these consumers first"
            )
        there = {key.partition: key for key in sorted(committed) if key.topic == topic}
        wanted = parse_partitions(numbers) if colon else tuple(there)
        missing = [number for number in wanted if number not in there]
        if missing or not wanted:
            what = f"partition {topic}-{missing[0]}" if missing else f"topic {topic!r}"
            known = ", ".join(sorted({key.topic for key in committed})) or "no topic"
            raise UnknownTopicOrPartition(
                f"group {group_id!r} has no committed offset for {what}; it has offsets for {known}"
            )
        keys.update(dict.fromkeys(there[number] for number in wanted))
    return [ResetPlan(group_id, key, committed[key], None) for key in keys]
