"""What `topics describe` shows, gathered from metadata, offsets and settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.admin.partition_states import PartitionState, Problem, partition_states
from odradek.client.admin.results import ConfigSource, ListedOffset, ResourceType
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.metadata import TopicInfo
from odradek.foundation.errors import OdradekError

_FILTERS: Mapping[str, Callable[[PartitionState], bool]] = {
    "under_replicated": lambda state: Problem.UNDER_REPLICATED in state.problems,
    "unavailable": lambda state: not state.has_leader,
    # As kafka-topics has it: a partition without a leader takes no writes either.
    "under_min_isr": lambda state: not state.has_leader or Problem.UNDER_MIN_ISR in state.problems,
    "at_min_isr": lambda state: state.is_at_min_isr,
}


async def describe_topics(
    client: Client,
    names: Sequence[str],
    *,
    with_offsets: bool,
    with_configs: bool,
    only: Collection[str] = (),
) -> list[dict[str, Any]]:
    """One object per topic. Raises UnknownTopicOrPartition for a name that is not there.

    `only` are names of `_FILTERS`: then only partitions that one of them takes, and topics that have any.
    """
    admin = TopicAdmin(client)
    found = [await admin.describe(name) for name in names] if names else await admin.list()
    states: dict[str, list[PartitionState]] = {topic.name: [] for topic in found}
    for state in await partition_states(client, found):
        if not only or any(_FILTERS[name](state) for name in only):
            states[state.where.topic].append(state)
    shown = [topic for topic in found if states[topic.name] or not only]
    warnings = await ConfigAdmin(client).topic_warnings([topic.name for topic in shown])
    described = []
    for topic in shown:
        details = await _describe(client, topic, states[topic.name], with_offsets, with_configs)
        described.append(details | {"warnings": [warnings[topic.name]] if topic.name in warnings else []})
    return described


async def _describe(
    client: Client,
    topic: TopicInfo,
    states: Sequence[PartitionState],
    with_offsets: bool,
    with_configs: bool,
) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": topic.name,
        "id": str(topic.id),
        "is_internal": topic.is_internal,
        "partitions": [
            {
                "partition": state.where.partition,
                "leader": state.info.leader,
                "leader_epoch": state.info.leader_epoch,
                "replicas": list(state.info.replicas),
                "in_sync_replicas": list(state.info.in_sync_replicas),
                "offline_replicas": list(state.info.offline_replicas),
                "min_in_sync_replicas": state.min_in_sync,
                "problems": [problem.value for problem in state.problems],
            }
            for state in states
        ],
    }
    if with_configs:
        entries = await ConfigAdmin(client).describe(ResourceType.TOPIC, topic.name)
        described["configs"] = {
            entry.name: entry.value for entry in entries if entry.source is ConfigSource.TOPIC
        }
    if with_offsets:
        logs = LogAdmin(client)
        keys = [state.where for state in states]
        first = await logs.list_offsets_each(dict.fromkeys(keys, EARLIEST))
        end = await logs.list_offsets_each(dict.fromkeys(keys, LATEST))
        for row, key in zip(described["partitions"], keys, strict=True):
            row["first_offset"] = _offset(first[key])
            row["next_offset"] = _offset(end[key])
    return described


def _offset(found: ListedOffset | OdradekError) -> int | None:
    """None where nobody leads the partition, so that nobody knows."""
    return None if isinstance(found, OdradekError) else found.offset
