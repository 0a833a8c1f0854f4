"""The member of a group for which offsets are committed, as a consumer gives it to a producer; and the commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from odradek.client.connection import BrokerConnection
from odradek.client.partition_rows import build_commit_rows
from odradek.client.results import CommittedOffset
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey

if TYPE_CHECKING:
    from odradek.wire.protocol.responses.groups import OffsetCommitResponse

COMMIT_VERSIONS = (2, 9)


class GroupMetadata(NamedTuple):
    """A group, and the member that reads. Without a member, the coordinator cannot refuse one that lost its partitions.

    `generation` is -1 and `member_id` empty where there is no member.
    """

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


async def commit(
    connection: BrokerConnection, group: GroupMetadata, offsets: Mapping[TopicPartition, CommittedOffset]
) -> OffsetCommitResponse:
    """Ask the group's coordinator to commit offsets. The answer has an error code for each partition."""
    response: OffsetCommitResponse = await connection.request(
        ApiKey.OFFSET_COMMIT,
        versions=COMMIT_VERSIONS,
        group_id=group.group_id,
        generation_id_or_member_epoch=group.generation,
        member_id=group.member_id,
        group_instance_id=group.instance_id,
        retention_time=-1,
        topics=build_commit_rows(offsets),
    )
    return response
