"""The values of a decision about a Topic: desired, actual, the steps, and the status of what was seen. Pure.

Offsets and sizes that were not measured this time stay as they were. So a topic that takes records does not cause a
write to the API server in every run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from odradek_operator.gateways.topic_values import ActualPartition, ActualTopic, Measures, OnBrokers
from odradek_operator.reconcilers.decisions import (
    ActualOf,
    DecisionOf,
    DesiredOf,
    RemoveFinalizer,
)
from odradek_operator.resources.topic import (
    PARTITIONS_SHOWN_MAX,
    WELL_LENGTH_MAX,
    PartitionStatus,
    ReplicasChange,
    TopicResourceSpec,
    TopicStatus,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredTopic(DesiredOf[TopicResourceSpec, TopicStatus]):
    """A Topic resource as it was read."""

    @property
    def topic(self) -> str:
        return self.spec.name or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualTopicState(ActualOf):
    """The actual state of a Topic. `brokers` has racks by broker id; `measures` is None unless they were asked for.
    `machines` are those of brokers that share one, asked for where replicas are to move.

    `made_now`: this run has made the topic. `noted_now`: this run has noted in the status that it would.
    """

    topic: ActualTopic | None = None
    brokers: Mapping[int, str | None] = field(default_factory=dict)
    machines: Mapping[int, str] = field(default_factory=dict)
    measures: Mapping[int, Measures] | None = None
    made_now: bool = False
    noted_now: bool = False


# --- decisions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NoteCreating:
    """Note in the status that the topic is about to be made."""


Action = OnBrokers | RemoveFinalizer | NoteCreating


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDecision(DecisionOf[Action, TopicStatus]):
    """A decision about a Topic. After steps on brokers another decision follows, and only the last is written."""

    @property
    def touches_brokers(self) -> bool:
        return any(isinstance(action, OnBrokers) for action in self.actions)


# --- the status of a topic that was seen ------------------------------------------------------------------------------


def topic_status(desired: DesiredTopic, actual: ActualTopicState) -> TopicStatus:
    """The status of the topic, which belongs to the resource from here on."""
    topic = actual.topic
    assert topic is not None
    before = desired.status
    ill = [partition for partition in topic.partitions if not _is_well(partition)]
    states = tuple(_partition(partition, actual, before) for partition in ill[:PARTITIONS_SHOWN_MAX])
    sums = _sum_measures(actual.measures)
    return replace(
        before,
        topic_name=topic.name,
        topic_id=str(topic.id),
        owner_uid=desired.uid,
        creating=None,
        partitions=len(topic.partitions),
        replicas=min((len(partition.lasting) for partition in topic.partitions), default=0),
        under_replicated=sum(
            not set(partition.lasting) <= set(partition.in_sync) for partition in topic.partitions
        ),
        offline=sum(partition.leader < 0 for partition in topic.partitions),
        records=before.records if sums is None else sums[0],
        size_bytes=before.size_bytes if sums is None else sums[1],
        replicas_change=_replicas_change(desired, topic.partitions),
        well_partitions=_format_ranges(
            partition.number for partition in topic.partitions if _is_well(partition)
        ),
        partition_states=states,
    )


def _is_well(partition: ActualPartition) -> bool:
    is_whole = set(partition.lasting) <= set(partition.in_sync)
    return partition.leader >= 0 and is_whole and not partition.is_moving


def _format_ranges(numbers: Iterable[int]) -> str | None:
    """Numbers in short, as 0-5,7; None for no numbers. What is too long for the status is shortened."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    if len(text) > WELL_LENGTH_MAX:
        text = text[: WELL_LENGTH_MAX - 2].rpartition(",")[0] + ",…"
    return text or None


def _partition(partition: ActualPartition, actual: ActualTopicState, before: TopicStatus) -> PartitionStatus:
    start_offset = end_offset = size_bytes = None
    measured = (actual.measures or {}).get(partition.number)
    if measured is not None:
        start_offset, end_offset = measured.start_offset, measured.end_offset
        size_bytes = measured.size_bytes
    elif before.topic_id == (str(actual.topic.id) if actual.topic else None):
        known = next((one for one in before.partition_states if one.partition == partition.number), None)
        if known is not None:
            start_offset, end_offset, size_bytes = known.start_offset, known.end_offset, known.size_bytes
    return PartitionStatus(
        partition=partition.number,
        leader=partition.leader,
        replicas=partition.replicas,
        in_sync=tuple(sorted(partition.in_sync)),
        start_offset=start_offset,
        end_offset=end_offset,
        size_bytes=size_bytes,
    )


def _sum_measures(measures: Mapping[int, Measures] | None) -> tuple[int, int | None] | None:
    if measures is None:
        return None
    sizes = [found.size_bytes for found in measures.values() if found.size_bytes is not None]
    return sum(found.end_offset - found.start_offset for found in measures.values()), sum(
        sizes
    ) if sizes else None


def _replicas_change(desired: DesiredTopic, partitions: tuple[ActualPartition, ...]) -> ReplicasChange | None:
    moving = sum(partition.is_moving for partition in partitions)
    if not moving:
        return None
    wanted = desired.spec.replicas or max(len(partition.lasting) for partition in partitions)
    done = sum(not partition.is_moving and len(partition.replicas) == wanted for partition in partitions)
    return ReplicasChange(wanted=wanted, partitions_done=done, partitions_moving=moving)
