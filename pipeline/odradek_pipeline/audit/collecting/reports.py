"""The reports of producers, read from the audit topic from where the last collection ended."""

from __future__ import annotations

from collections.abc import Callable

from odradek.client.audit.reports import read_report
from odradek.client.client import Client
from odradek.client.consumer.blocks import RecordBlock
from odradek.foundation.errors import InvalidRecord
from odradek_pipeline.audit.collecting.blocks import list_edges, read_blocks
from odradek_pipeline.audit.state import AuditState
from odradek_pipeline.errors import NotFoundError


async def read_reports(
    client: Client, audit_topic: str, state: AuditState, notice: Callable[[str], None]
) -> int:
    """Take all committed reports into `state`. Returns how many messages were read. Raises NotFoundError.

    A message that is no report is left out with a notice.
    """
    cluster = await client.with_retries(lambda: client.refresh(None))
    if audit_topic not in cluster.topics:
        raise NotFoundError(
            f"there is no topic {audit_topic!r}: no producer with an audit has begun. docs/audit.md says how"
        )
    topic_id = str(cluster.topic(audit_topic).id)
    if topic_id != state.audit_topic_id:
        state.audit_topic_id, state.positions = topic_id, {}
    keys = cluster.partitions(audit_topic)
    starts, ends = await list_edges(client, keys)
    offsets = {key: max(starts[key], state.positions.get(key.partition, 0)) for key in keys}
    count = 0

    def take(block: RecordBlock) -> None:
        nonlocal count
        for record in block.between(0, ends[block.topic_partition]).records():
            count += 1
            if record.value is None:
                continue  # a tombstone: an operator forgot a session
            try:
                state.reports.add(read_report(record.value))
            except InvalidRecord as failure:
                notice(f"{block.topic_partition} offset {record.offset}: {failure}")

    await read_blocks(client, offsets, ends, take)
    for key in keys:
        state.positions[key.partition] = max(ends[key], state.positions.get(key.partition, 0))
    return count
