"""A stream's positions as the committed offsets of a consumer group, so that its lag shows wherever groups are shown.

They are for display alone: the table's own record says where a stream continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from odradek.client.admin.groups import GroupAdmin
from odradek.client.results import CommittedOffset
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek_pipeline.connection.clients import make_client
from odradek_pipeline.errors import PipelineError
from odradek_pipeline.runs.ranges import OffsetRange

# A batch does not wait longer than this for its display.
_SECONDS_MAX: Final = 10.0


def show_positions(
    settings: Mapping[str, str], group_id: str, held: Iterable[OffsetRange], about: str
) -> None:
    """Commit the ends of `held` to a group that has no members, with `about` as their metadata.

    Raises PipelineError when the group cannot have them.
    """
    offsets = {
        TopicPartition(one.key.topic, one.key.partition): CommittedOffset(one.end, metadata=about)
        for one in held
    }
    if not offsets:
        return
    try:
        asyncio.run(asyncio.wait_for(_commit_offsets(settings, group_id, offsets), _SECONDS_MAX))
    except TimeoutError as failure:
        raise PipelineError(f"group {group_id!r} has no answer within {_SECONDS_MAX:g} s") from failure
    except OdradekError as failure:
        raise PipelineError(f"group {group_id!r} does not take the positions: {failure}") from failure


async def _commit_offsets(
    settings: Mapping[str, str], group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> None:
    async with make_client(settings) as client:
        await GroupAdmin(client).alter_offsets(group_id, offsets)
