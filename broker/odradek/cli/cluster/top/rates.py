"""What one look of `odradek top` found, and the rates that two looks say. Pure functions of the looks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from odradek.client.admin.health import ClusterHealth
from odradek.console.cluster_facts import DoctorFindings, GroupsFact, TopicsFact
from odradek.foundation.ids import TopicPartition

NO_TOPICS: Final = TopicsFact({}, {}, frozenset(), {})
NO_GROUPS: Final = GroupsFact({}, {}, {})
_COUNTED: Final = re.compile(
    r'^odradek_topic_bytes_(in|out)_total\{topic="((?:[^"\\]|\\.)*)"\} (\S+)', re.MULTILINE
)


class TopicBytes(NamedTuple):
    """What brokers have counted of one topic since they started."""

    bytes_in: float
    bytes_out: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLook:
    """A cluster at one moment. Times of `ends_at`, `groups_at` and `counted_at` are monotonic, in seconds."""

    asked_ms: int
    """Since 1970."""
    took_seconds: float
    health: ClusterHealth
    topics: TopicsFact = NO_TOPICS
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends_at: float = 0.0
    groups: GroupsFact = NO_GROUPS
    groups_at: float = 0.0
    members: Mapping[str, int] = field(default_factory=dict)
    counted: Mapping[str, TopicBytes] | None = None
    """By topic, over all brokers whose --admin was given; None where one of them did not answer, or none was given."""
    counted_at: float = 0.0
    unasked: Mapping[str, str] = field(default_factory=dict)
    """What could not be asked, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRates:
    """A second of one topic. None where two looks do not say it."""

    records_in: float | None = None
    records_out: float | None = None
    """Records that groups have committed, or that queues are done with."""
    bytes_in: float | None = None
    bytes_out: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRates:
    """A second of one group: how its lag changes, and how many records it has read or is done with."""

    lag_change: float | None = None
    records: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A look, and what follows from the one before it. `seconds` lie between the two; 0 where there is one alone."""

    look: ClusterLook
    findings: DoctorFindings | None = None
    seconds: float = 0.0
    topics: Mapping[str, TopicRates] = field(default_factory=dict)
    groups: Mapping[str, GroupRates] = field(default_factory=dict)

    @property
    def total(self) -> TopicRates:
        """A second of all topics."""
        rates = self.topics.values()
        return TopicRates(
            records_in=_add(one.records_in for one in rates),
            records_out=_add(one.records_out for one in rates),
            bytes_in=_add(one.bytes_in for one in rates),
            bytes_out=_add(one.bytes_out for one in rates),
        )

    def with_findings(self, findings: DoctorFindings | None) -> Comparison:
        """The same looks with what the doctor has found since."""
        return replace(self, findings=findings)


def _add(values: Iterable[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return sum(known) if known else None


# --- rates -----------------------------------------------------------------------------------------------------------


def compare(
    before: ClusterLook | None, now: ClusterLook, findings: DoctorFindings | None = None
) -> Comparison:
    """The rates between two looks. A partition or group that one of them lacks counts in none."""
    if before is None or now.ends_at <= before.ends_at:
        return Comparison(look=now, findings=findings)
    records_in = _records_in(before, now)
    groups, records_out = _group_rates(before, now)
    bytes_in, bytes_out = _bytes(before, now)
    return Comparison(
        look=now,
        findings=findings,
        seconds=now.ends_at - before.ends_at,
        topics={
            name: TopicRates(
                records_in=records_in.get(name),
                records_out=records_out.get(name),
                bytes_in=bytes_in.get(name),
                bytes_out=bytes_out.get(name),
            )
            for name in now.topics.topics
        },
        groups=groups,
    )


def _records_in(before: ClusterLook, now: ClusterLook) -> dict[str, float]:
    return _grow_by_topic(before.ends, now.ends, now.ends_at - before.ends_at)


def _grow_by_topic(
    before: Mapping[TopicPartition, float], now: Mapping[TopicPartition, float], seconds: float
) -> dict[str, float]:
    """How fast the numbers of partitions grow, by topic. One that is smaller than before is another log: it counts as
    none.
    """
    grown: dict[str, float] = {}
    if seconds <= 0:
        return grown
    for key, number in now.items():
        if key in before:
            grown[key.topic] = grown.get(key.topic, 0.0) + max(number - before[key], 0.0)
    return {topic: number / seconds for topic, number in grown.items()}


def _group_rates(before: ClusterLook, now: ClusterLook) -> tuple[dict[str, GroupRates], dict[str, float]]:
    """Those of groups, and the records that all groups have read of each topic."""
    seconds = now.groups_at - before.groups_at
    rates: dict[str, GroupRates] = {}
    of_topics: dict[str, float] = {}
    if seconds <= 0:
        return rates, of_topics
    for name, group in now.groups.groups.items():
        earlier = before.groups.groups.get(name)
        if earlier is None:
            continue
        read = _grow_by_topic(earlier.offsets, group.offsets, seconds)
        for topic, number in read.items():
            of_topics[topic] = of_topics.get(topic, 0.0) + number
        change = None
        if group.lag is not None and earlier.lag is not None:
            change = (group.lag - earlier.lag) / seconds
        rates[name] = GroupRates(lag_change=change, records=sum(read.values()) if read else None)
    return rates, of_topics


def _bytes(before: ClusterLook, now: ClusterLook) -> tuple[dict[str, float], dict[str, float]]:
    """Bytes a second in and out, by topic: as brokers count them, else by which logs grow."""
    if before.counted is not None and now.counted is not None:
        seconds = now.counted_at - before.counted_at
        if seconds <= 0:
            return {}, {}
        both = [
            (topic, before.counted[topic], one)
            for topic, one in now.counted.items()
            if topic in before.counted
        ]
        # A broker that started again counts from 0.
        return (
            {topic: max(one.bytes_in - old.bytes_in, 0.0) / seconds for topic, old, one in both},
            {topic: max(one.bytes_out - old.bytes_out, 0.0) / seconds for topic, old, one in both},
        )
    sizes = _grow_by_topic(_largest(before), _largest(now), now.ends_at - before.ends_at)
    return sizes, {}


def _largest(look: ClusterLook) -> dict[TopicPartition, float]:
    """The bytes of each partition's largest replica."""
    return {key: float(max(sizes.values())) for key, sizes in look.topics.sizes.items() if sizes}


def sum_bytes(pages: Sequence[str]) -> dict[str, TopicBytes]:
    """The bytes of each topic over the metrics of all brokers."""
    found: dict[str, TopicBytes] = {}
    for page in pages:
        for way, name, number in _COUNTED.findall(page):
            topic = name.replace('\\"', '"').replace("\\\\", "\\")
            known, counted = found.get(topic, TopicBytes(0.0, 0.0)), float(number)
            found[topic] = (
                known._replace(bytes_in=known.bytes_in + counted)
                if way == "in"
                else known._replace(bytes_out=known.bytes_out + counted)
            )
    return found
