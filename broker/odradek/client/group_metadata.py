"""Which member of which group an offset is committed for: what a consumer gives to a transactional producer."""

from __future__ import annotations

from typing import NamedTuple


class GroupMetadata(NamedTuple):
    """A group, and the member that reads. Without a member, the coordinator cannot refuse one that lost its partitions.

    `generation` is -1 and `member_id` empty where there is no member.
    """

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None
