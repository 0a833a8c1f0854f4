"""The content of `topics describe`, from metadata, offsets and settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from odradek.cli.shared.output import Document
from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.admin.partition_states import PartitionState, Problem, partition_states
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.metadata import TopicInfo
from odradek.client.results import ConfigSource, ResourceType
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition

_FILTERS: Mapping[str, Callable[[PartitionState], bool]] = {
    "under_replicated": lambda state: Problem.UNDER_REPLICATED in state.problems,
    "unavailable": lambda state: not state.has_leader,
    # As in kafka-topics: a partition without a leader refuses writes too.
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
) -> list[Document]:
    """One object for each topic. Raises UnknownTopicOrPartition for an unknown name. `only` are names of `_FILTERS`:
    then only partitions that one of them accepts, and topics that have any.
    """
    admin = TopicAdmin(client)
    found = [await admin.describe(name) for name in names] if names else await admin.list()
    states: dict[str, list[PartitionState]] = {topic.name: [] for topic in found}
    for state in await partition_states(client, found):
        if not only or any(_FILTERS[name](state) for name in only):
            states[state.where.topic].append(state)
    shown = [topic for topic in found if states[topic.name] or not only]
    names = [topic.name for topic in shown]
    warnings = await ConfigAdmin(client).topic_warnings(names)
    described = [_document(topic, states[topic.name], warnings.get(topic.name)) for topic in shown]
    if with_configs:
        await _add_configs(client, described)
    if with_offsets:
        await _add_offsets(client, described, [state.where for name in names for state in states[name]])
    return described


def _document(topic: TopicInfo, states: Sequence[PartitionState], warning: str | None) -> Document:
    return {
        "name": topic.name,
        "id": str(topic.id),
        "is_internal": topic.is_internal,
        "warnings": [] if warning is None else [warning],
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


async def _add_configs(client: Client, described: Sequence[Document]) -> None:
    names = [topic["name"] for topic in described]
    found = await ConfigAdmin(client).describe_many(ResourceType.TOPIC, names)
    for topic in described:
        entries = found[topic["name"]]
        if isinstance(entries, OdradekError):
            raise entries
        topic["configs"] = {
            entry.name: entry.value
            for entry in sorted(entries, key=lambda entry: entry.name)
            if entry.source is ConfigSource.TOPIC
        }


async def _add_offsets(client: Client, described: Sequence[Document], keys: Sequence[TopicPartition]) -> None:
    """The first and the next offset; None if the partition has no leader to answer."""
    logs = LogAdmin(client)
    first, end = await logs.known_offsets_at(keys, EARLIEST), await logs.known_offsets_at(keys, LATEST)
    for topic in described:
        for row in topic["partitions"]:
            key = TopicPartition(topic["name"], row["partition"])
            row["first_offset"], row["next_offset"] = first.get(key), end.get(key)
