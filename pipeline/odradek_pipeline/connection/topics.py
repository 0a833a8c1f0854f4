"""The present state of a topic's log, by the project's own client: ids, log starts, ends, and offsets at a time.

Spark's connector knows neither the id of a topic nor that of its cluster, so a topic made again would go unnoticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.client.admin.admin import Admin
from odradek.client.admin.logs import EARLIEST, LATEST
from odradek.client.client import Client
from odradek.client.metadata import ClusterInfo
from odradek.client.results import ResourceType
from odradek.foundation.errors import OdradekError
from odradek_pipeline.connection.clients import connect_client
from odradek_pipeline.errors import PipelineError
from odradek_pipeline.runs.plans import LogFacts
from odradek_pipeline.runs.positions import RunPosition
from odradek_pipeline.runs.snapshots import Cleaning

_CLEANUP_POLICY: Final = "cleanup.policy"
_DELETE_RETENTION_MS: Final = "delete.retention.ms"


def read_log_facts(
    settings: Mapping[str, str],
    topics: Sequence[str],
    *,
    start: RunPosition,
    stop: RunPosition,
    is_read_committed: bool,
) -> list[LogFacts]:
    """The facts of `topics`, in their order. `settings` are those of Kafka's clients.

    Raises NotFoundError, UnreachableError, AnswerTimeoutError, PipelineSettingError; PipelineError for what else a
    broker says.
    """
    return asyncio.run(_read_facts(settings, topics, start, stop, is_read_committed))


def read_cleaning(settings: Mapping[str, str], topics: Sequence[str]) -> dict[str, Cleaning]:
    """Return how the topics are cleaned, by name. Raises as `read_log_facts` does."""
    return asyncio.run(_describe_cleaning(settings, topics))


async def _read_facts(
    settings: Mapping[str, str],
    topics: Sequence[str],
    start: RunPosition,
    stop: RunPosition,
    is_read_committed: bool,
) -> list[LogFacts]:
    async with connect_client(settings, _describe_failure(topics)) as client:
        cluster = await client.with_retries(lambda: client.refresh(topics))
        return [
            await _read_topic_facts(client, cluster, name, start, stop, is_read_committed) for name in topics
        ]


def _describe_failure(topics: Sequence[str]) -> str:
    return f"the offsets of {', '.join(topics)} cannot be listed"


async def _describe_cleaning(settings: Mapping[str, str], topics: Sequence[str]) -> dict[str, Cleaning]:
    async with connect_client(settings, _describe_failure(topics)) as client:
        await client.with_retries(lambda: client.refresh(topics))
        keys = (_CLEANUP_POLICY, _DELETE_RETENTION_MS)
        found = await Admin(client).configs.describe_many(ResourceType.TOPIC, topics, keys=keys)
    made = {}
    for topic, entries in found.items():
        if isinstance(entries, OdradekError):
            raise PipelineError(f"the settings of topic {topic!r} cannot be read: {entries}") from entries
        values = {one.name: one.value or "" for one in entries}
        is_compacted = "compact" in values[_CLEANUP_POLICY].split(",")
        made[topic] = Cleaning(is_compacted, int(values[_DELETE_RETENTION_MS]))
    return made


async def _read_topic_facts(
    client: Client,
    cluster: ClusterInfo,
    name: str,
    start: RunPosition,
    stop: RunPosition,
    is_read_committed: bool,
) -> LogFacts:
    topic = cluster.topic(name)
    keys = cluster.partitions(name)
    logs = Admin(client).logs

    async def list_offsets(timestamp_ms: int | None, *, read_committed: bool = False) -> dict[int, int]:
        if timestamp_ms is None:
            return {}
        found = await logs.offsets_at(keys, timestamp_ms, read_committed=read_committed)
        return {key.partition: offset for key, offset in found.items()}

    # The ends before the starts: retention may delete in between, and a start beyond an end would look like damage.
    high_watermarks = await list_offsets(LATEST)
    ends = await list_offsets(LATEST, read_committed=True) if is_read_committed else high_watermarks
    return LogFacts(
        topic=name,
        topic_id=str(topic.id),
        cluster_id=cluster.cluster_id,
        log_starts=await list_offsets(EARLIEST),
        ends=ends,
        high_watermarks=high_watermarks,
        start_offsets=await list_offsets(start.time_ms),
        stop_offsets=await list_offsets(stop.time_ms),
    )
