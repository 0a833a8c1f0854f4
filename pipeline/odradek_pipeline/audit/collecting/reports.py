"""The reports of producers, read from the audit topic from where the last collection ended."""

from __future__ import annotations

from collections.abc import Callable

from odradek.client.admin.admin import Admin
from odradek.client.admin.logs import EARLIEST, LATEST
from odradek.client.audit.reports import read_report
from odradek.client.client import Client
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.foundation.errors import InvalidRecord
from odradek.foundation.ids import TopicPartition
from odradek_pipeline.audit.state import AuditState
from odradek_pipeline.errors import AnswerTimeoutError, NotFoundError

# A partition that sends nothing for so long although its end is known.
SILENCE_MS = 60_000


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
    logs = Admin(client).logs
    ends = await logs.offsets_at(keys, LATEST, read_committed=True)
    starts = await logs.offsets_at(keys, EARLIEST)
    offsets = {key: max(starts[key], state.positions.get(key.partition, 0)) for key in keys}
    offsets = {key: offset for key, offset in offsets.items() if offset < ends[key]}
    count = 0
    async with PartitionConsumer(client, is_read_committed=True) as consumer:
        consumer.assign(offsets)
        while list_unread(consumer, ends):
            blocks = await consumer.poll_blocks(timeout_ms=SILENCE_MS)
            if not blocks and list_unread(consumer, ends) == list(offsets):
                raise AnswerTimeoutError(f"{audit_topic} sent nothing for {SILENCE_MS // 1000} s")
            for block in blocks:
                for record in block.between(0, ends[block.topic_partition]).records():
                    count += 1
                    if record.value is None:
                        continue  # a tombstone: an operator forgot a session
                    try:
                        state.reports.add(read_report(record.value))
                    except InvalidRecord as failure:
                        notice(f"{block.topic_partition} offset {record.offset}: {failure}")
    for key in keys:
        state.positions[key.partition] = max(ends[key], state.positions.get(key.partition, 0))
    return count


def list_unread(consumer: PartitionConsumer, ends: dict[TopicPartition, int]) -> list[TopicPartition]:
    """The assigned partitions that were not read up to their ends."""
    return [key for key in consumer.assignment if consumer.position(key) < ends[key]]
