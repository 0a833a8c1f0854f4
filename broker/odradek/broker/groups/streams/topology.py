"""The topology of a Kafka Streams application, and whether the cluster has the topics that it needs.

A topology is stored as the first member sent it. `configure` compares it with the cluster. The result has the number of
tasks of each subtopology, and the internal topics that are missing. Repartition topics get as many partitions as what
is written to them has, unless the application says how many. Topics that are joined have equally many. A changelog
topic has a partition for each task (Kafka's `InternalTopicManager`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Final, TypeVar

from odradek.foundation.errors import StreamsInvalidTopology
from odradek.foundation.named_tuple import NamedTuple

# The number of a topic's partitions in the cluster; None where there is no such topic.
PartitionCount = Callable[[str], int | None]

T = TypeVar("T")

_NAMES_IN_MESSAGES: Final = 3


class TopicSetting(NamedTuple):
    """One setting of an internal topic."""

    key: str
    value: str


class InternalTopic(NamedTuple):
    """An internal topic: 0 partitions or replicas leave the number to the broker."""

    name: str
    partitions: int
    replication_factor: int
    topic_configs: tuple[TopicSetting, ...] = ()


class CopartitionedTopics(NamedTuple):
    """Source topics that are joined, by their places in the subtopology's lists."""

    source_topics: tuple[int, ...]
    source_topic_regex: tuple[int, ...]
    repartition_source_topics: tuple[int, ...]


class StreamsSubtopology(NamedTuple):
    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    state_changelog_topics: tuple[InternalTopic, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[InternalTopic, ...]
    copartition_groups: tuple[CopartitionedTopics, ...]

    def list_sources(self) -> list[str]:
        """The topics that its tasks read, internal ones included."""
        return [*self.source_topics, *(topic.name for topic in self.repartition_source_topics)]


class StreamsTopology(NamedTuple):
    epoch: int
    subtopologies: tuple[StreamsSubtopology, ...]

    def is_same(self, other: StreamsTopology) -> bool:
        """Whether both are equal; the order of subtopologies does not count."""
        return self.epoch == other.epoch and self._by_id() == other._by_id()

    def _by_id(self) -> dict[str, StreamsSubtopology]:
        return {one.subtopology_id: one for one in self.subtopologies}

    def map_sources(self) -> dict[str, str]:
        """The subtopology that reads each topic."""
        return {topic: one.subtopology_id for one in self.subtopologies for topic in one.list_sources()}

    def list_required_topics(self) -> set[str]:
        """The topics that must exist: what is read, and changelogs."""
        changelogs = (topic.name for one in self.subtopologies for topic in one.state_changelog_topics)
        return {topic for one in self.subtopologies for topic in one.list_sources()}.union(changelogs)


class StatusCode(IntEnum):
    """What an answer says about the group beside the member's tasks. Numbers are those of the wire."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class StreamsStatus(NamedTuple):
    status_code: StatusCode
    status_detail: str


class ConfiguredSubtopology(NamedTuple):
    """A subtopology whose internal topics have numbers of partitions."""

    subtopology_id: str
    tasks: int
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[InternalTopic, ...]
    state_changelog_topics: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        return bool(self.state_changelog_topics)


class ConfiguredTopology(NamedTuple):
    """A topology beside the cluster's topics. `problem` says what is missing; without one it can be run.

    `subtopologies`, by id and sorted, are None where the numbers of partitions cannot be said.
    """

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: tuple[InternalTopic, ...] = ()
    problem: StreamsStatus | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class _ProblemError(Exception):
    """The cluster's topics do not fit the topology."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = StreamsStatus(code, detail)


def configure(topology: StreamsTopology, count_of: PartitionCount) -> ConfiguredTopology:
    """Compare the topology with the cluster. Raises StreamsInvalidTopology for one that can never run."""
    try:
        _check_sources(topology, count_of)
        counts = _decide_counts(topology, count_of)
        subtopologies = {
            one.subtopology_id: _configure_one(one, count_of, counts)
            for one in sorted(topology.subtopologies, key=lambda one: one.subtopology_id)
        }
        missing = _find_missing(subtopologies.values(), count_of)
    except _ProblemError as failure:
        return ConfiguredTopology(topology.epoch, None, problem=failure.status)
    problem = None
    if missing:
        detail = f"Internal topics are missing: {_summarize(topic.name for topic in missing)}"
        problem = StreamsStatus(StatusCode.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(topology.epoch, subtopologies, missing, problem)


def _check_sources(topology: StreamsTopology, count_of: PartitionCount) -> None:
    missing = {
        topic for one in topology.subtopologies for topic in one.source_topics if count_of(topic) is None
    }
    if missing:
        detail = f"Source topics {_summarize(sorted(missing))} are missing."
        raise _ProblemError(StatusCode.MISSING_SOURCE_TOPICS, detail)


def _decide_counts(topology: StreamsTopology, count_of: PartitionCount) -> dict[str, int]:
    """The numbers of partitions of internal topics by name."""
    counts: dict[str, int] = {}

    def count(topic: str) -> int | None:
        known = count_of(topic)
        return counts.get(topic) if known is None else known

    counts |= _count_repartition_topics(topology, count)
    repartition_topics = [topic for one in topology.subtopologies for topic in one.repartition_source_topics]
    fixed = {topic.name for topic in repartition_topics if topic.partitions}
    flexible = {topic.name for topic in repartition_topics if not topic.partitions}
    for one in topology.subtopologies:
        for group in one.copartition_groups:
            counts |= _align(_name_copartitioned(one, group), fixed, flexible, count)
    for one in topology.subtopologies:
        sources = [count(topic) for topic in one.list_sources()]
        if not sources:
            raise StreamsInvalidTopology(f"No source topics found for subtopology {one.subtopology_id}")
        tasks = max(number or 0 for number in sources)
        counts |= {topic.name: tasks for topic in one.state_changelog_topics}
    return counts


def _count_repartition_topics(topology: StreamsTopology, count: PartitionCount) -> dict[str, int]:
    """Each gets what the application says, or the most that is read by a subtopology that writes to it."""
    counts = {
        topic.name: topic.partitions
        for one in topology.subtopologies
        for topic in one.repartition_source_topics
        if topic.partitions
    }
    # Each round follows one more step from repartition topic to repartition topic. Readers go by what they wait for.
    waiting = [(one, sink) for one in topology.subtopologies for sink in one.repartition_sink_topics]
    while waiting := [(one, sink) for one, sink in waiting if sink not in counts]:
        before = len(counts)
        for one, sink in waiting:
            known = [counts.get(topic.name) for topic in one.repartition_source_topics]
            known += [count(topic) for topic in one.source_topics]
            numbers = [number for number in known if number is not None]
            if numbers:
                counts.setdefault(sink, max(numbers))
        if len(counts) == before:
            raise StreamsInvalidTopology(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the "
                "topology that cannot be resolved."
            )
    if any(
        topic.name not in counts for one in topology.subtopologies for topic in one.repartition_source_topics
    ):
        raise StreamsInvalidTopology(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic "
            "is never used as a sink topic."
        )
    return counts


def _name_copartitioned(one: StreamsSubtopology, group: CopartitionedTopics) -> list[str]:
    try:
        return [
            *(_at(one.source_topics, place) for place in group.source_topics),
            *(_at(one.repartition_source_topics, place).name for place in group.repartition_source_topics),
        ]
    except IndexError:
        raise StreamsInvalidTopology(
            f"A copartition group of subtopology {one.subtopology_id} names a topic that it does not have."
        ) from None


def _at(values: tuple[T, ...], place: int) -> T:
    if place < 0:
        raise IndexError(place)
    return values[place]


def _align(names: list[str], fixed: set[str], flexible: set[str], count: PartitionCount) -> dict[str, int]:
    """The numbers of partitions of the repartition topics among topics that are joined."""
    counts = {name: count(name) or 0 for name in names}
    internal = {name: number for name, number in counts.items() if name in fixed or name in flexible}
    others = {name: number for name, number in counts.items() if name not in internal}
    if not counts:
        return {}
    if others:
        number = _check_equal(others)
    elif fixed & internal.keys():
        _check_equal({name: number for name, number in internal.items() if name in fixed}, shown=internal)
        number = next(number for name, number in internal.items() if name in fixed)
    else:
        number = max(internal.values())
    for name, own in internal.items():
        if name in fixed and own != number:
            raise _ProblemError(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{own}] of repartition topic [{name}] doesn't match number of partitions "
                f"[{number}] of the source topic.",
            )
    return dict.fromkeys(internal, number)


def _check_equal(counts: Mapping[str, int], *, shown: Mapping[str, int] | None = None) -> int:
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}={number}" for name, number in sorted((shown or counts).items()))
        raise _ProblemError(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )
    return next(iter(counts.values()))


def _configure_one(
    one: StreamsSubtopology, count_of: PartitionCount, counts: Mapping[str, int]
) -> ConfiguredSubtopology:
    def count(topic: str) -> int:
        return count_of(topic) or counts.get(topic, 0)

    def with_count(topics: Iterable[InternalTopic]) -> tuple[InternalTopic, ...]:
        return tuple(topic._replace(partitions=topic.partitions or counts[topic.name]) for topic in topics)

    return ConfiguredSubtopology(
        one.subtopology_id,
        tasks=max(count(topic) for topic in one.list_sources()),
        source_topics=one.source_topics,
        repartition_sink_topics=one.repartition_sink_topics,
        repartition_source_topics=with_count(one.repartition_source_topics),
        state_changelog_topics=with_count(one.state_changelog_topics),
    )


def _find_missing(
    subtopologies: Iterable[ConfiguredSubtopology], count_of: PartitionCount
) -> tuple[InternalTopic, ...]:
    missing: dict[str, InternalTopic] = {}
    for topic in _list_internal(subtopologies):
        there = count_of(topic.name)
        if there is None:
            missing[topic.name] = topic
        elif there != topic.partitions:
            raise _ProblemError(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {topic.name} has different number of partitions: expected {topic.partitions}, "
                f"found {there}",
            )
    return tuple(missing.values())


def _list_internal(subtopologies: Iterable[ConfiguredSubtopology]) -> Iterator[InternalTopic]:
    for one in subtopologies:
        yield from one.repartition_source_topics
        yield from one.state_changelog_topics


def _summarize(names: Iterable[str]) -> str:
    listed = list(names)
    text = ", ".join(listed[:_NAMES_IN_MESSAGES])
    left = len(listed) - _NAMES_IN_MESSAGES
    return f"{text} and {left} additional topics" if left > 0 else text
