"""Range: each topic is divided into runs of neighbouring partitions, one for each member in a fixed order.

Members of the same topics get the same partition numbers of each topic of the same size. So one member gets all records
of a key. The order is by instance id for static members, which come first, then by member id.
"""

from __future__ import annotations

from uuid import UUID

from odradek.broker.groups.consumer.assignors.members import Members, PartitionCounts, freeze
from odradek.broker.groups.consumer.schema import Assignment


def assign(members: Members, partition_counts: PartitionCounts) -> dict[str, Assignment]:
    """Divide every topic among the members that subscribe to it."""
    ordered = sorted(members, key=lambda member_id: _order(members, member_id))
    parts: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in ordered}
    for topic_id, count in partition_counts.items():
        subscribers = [member_id for member_id in ordered if topic_id in members[member_id].topics]
        if not subscribers:
            continue
        share, extra = divmod(count, len(subscribers))
        start = 0
        for number, member_id in enumerate(subscribers):
            end = start + share + (number < extra)
            parts[member_id][topic_id] = set(range(start, end))
            start = end
    return {member_id: freeze(part) for member_id, part in parts.items()}


def _order(members: Members, member_id: str) -> tuple[bool, str]:
    instance_id = members[member_id].instance_id
    return (True, member_id) if instance_id is None else (False, instance_id)
