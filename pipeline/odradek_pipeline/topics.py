"""The present state of a topic's log, by the project's own client: ids, log starts, ends, and offsets at a time.

Spark's connector knows neither the id of a topic nor that of its cluster, so a topic made again would go unnoticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from odradek.client.admin.admin import Admin
from odradek.client.admin.logs import EARLIEST, LATEST
from odradek.client.admin.results import ResourceType
from odradek.client.client import Client
from odradek.client.errors import ClientTimeout, ConnectionFailed
from odradek.client.metadata import ClusterInfo
from odradek.client.properties import (
    API_TIMEOUT_MS,
    BOOTSTRAP_SERVERS,
    CONNECT_TIMEOUT_MS,
    REQUEST_TIMEOUT_MS,
    read_client_properties,
)
from odradek.foundation.errors import DependencyError, OdradekError, UnknownTopicOrPartition
from odradek.foundation.errors import SettingError as ClientSettingError
from odradek_pipeline.connector.secured import make_network
from odradek_pipeline.errors import (
    AnswerTimeoutError,
    NotFoundError,
    PipelineError,
    PipelineSettingError,
    UnreachableError,
)
from odradek_pipeline.runs.plans import LogFacts
from odradek_pipeline.runs.positions import RunPosition
from odradek_pipeline.runs.snapshots import Cleaning

_CLEANUP_POLICY: Final = "cleanup.policy"
_DELETE_RETENTION_MS: Final = "delete.retention.ms"
_CLIENT_ID: Final = "odradek-pipeline"


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
    with _translate_errors(settings, topics):
        async with make_client(settings) as client:
            cluster = await client.with_retries(lambda: client.refresh(topics))
            return [
                await _read_topic_facts(client, cluster, name, start, stop, is_read_committed)
                for name in topics
            ]


async def _describe_cleaning(settings: Mapping[str, str], topics: Sequence[str]) -> dict[str, Cleaning]:
    with _translate_errors(settings, topics):
        async with make_client(settings) as client:
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


@contextmanager
def _translate_errors(settings: Mapping[str, str], topics: Sequence[str]) -> Iterator[None]:
    """Errors of the client as those of the pipeline."""
    try:
        yield
    except UnknownTopicOrPartition as failure:
        raise NotFoundError(f"{failure}. The brokers are {settings[BOOTSTRAP_SERVERS]}") from failure
    except ClientTimeout as failure:
        raise AnswerTimeoutError(str(failure)) from failure
    except ConnectionFailed as failure:
        raise UnreachableError(str(failure)) from failure
    except OdradekError as failure:
        raise PipelineError(f"the offsets of {', '.join(topics)} cannot be listed: {failure}") from failure


def make_client(settings: Mapping[str, str]) -> Client:
    """A client for the brokers that `settings` name, not yet connected. Raises PipelineSettingError.

    Settings that only Spark's consumers know have no effect on it.
    """
    try:
        known = read_client_properties(settings, source="the connection").values
        network = make_network(known, client_id=_CLIENT_ID)
    except (ClientSettingError, DependencyError) as failure:
        raise PipelineSettingError(str(failure)) from failure
    return Client(
        known[BOOTSTRAP_SERVERS],
        network=network,
        client_id=_CLIENT_ID,
        request_timeout_ms=int(known.get(REQUEST_TIMEOUT_MS, "30000")),
        api_timeout_ms=int(known.get(API_TIMEOUT_MS, "60000")),
        connect_timeout_ms=int(known.get(CONNECT_TIMEOUT_MS, "10000")),
    )


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
