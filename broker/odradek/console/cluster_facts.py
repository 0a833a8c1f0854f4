"""The facts of one cluster that pages and `odradek top` show, asked through the client.

They are its health and findings, topics with sizes, groups with lags, and details of one topic or group.

A part that cannot be asked is named, and the others are shown: a broker that does not answer hides no other's groups.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from odradek.client.addresses import parse_addresses
from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.diagnosis import Diagnosis, diagnose, find_passed
from odradek.client.admin.diagnosis_probes import find_facts
from odradek.client.admin.disks import directories
from odradek.client.admin.group_offsets import fetch_offsets_of_groups
from odradek.client.admin.groups import SHARE, ZOOKEEPER, GroupAdmin
from odradek.client.admin.health import ClusterHealth
from odradek.client.admin.health_probes import cluster_health
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.admin.queues import QueueAdmin
from odradek.client.client import Client
from odradek.client.consumer.oldest import timestamps_at
from odradek.client.metadata import ClusterInfo, TopicInfo
from odradek.client.results import ConfigEntry, GroupDescription, GroupListing, ResourceType
from odradek.console.shared_facts import SharedDetails, SharedFact
from odradek.foundation.client_limits import BROKER_ANSWER_SECONDS_MAX
from odradek.foundation.console_limits import (
    CONSOLE_FACTS_SECONDS_MIN,
    CONSOLE_FINDINGS_SECONDS_MIN,
    CONSOLE_GROUPS_ASKED_MAX,
    CONSOLE_GROUPS_AT_ONCE_MAX,
    CONSOLE_WAITS_ASKED_MAX,
)
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.security_errors import TopicAuthorizationFailed
from odradek.foundation.tasks import TaskOwner


@dataclass(frozen=True, slots=True)
class DoctorFindings:
    """What the doctor's rules say: what is wrong, the checks without a finding, and what could not be asked."""

    found: Sequence[Diagnosis]
    passed: Sequence[str]
    unasked: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicsFact:
    """All topics, by name, and the bytes of their replicas by partition and broker."""

    topics: Mapping[str, TopicInfo]
    sizes: Mapping[TopicPartition, Mapping[int, int]]
    live: frozenset[int]
    silent: Mapping[int, str]
    """Brokers without an answer about their disks, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """A group, the partitions with a committed offset, their topics, and its lag. `error` is why they are not known."""

    listing: GroupListing
    partitions: int = 0
    topics: Sequence[str] = ()
    lag_by_topic: Mapping[str, int] = field(default_factory=dict)
    """Records that are not read yet. A topic whose ends are not known is missing."""
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where it is in each partition: the records below are read, or done."""
    error: str | None = None

    @property
    def lag(self) -> int | None:
        """Records that are not read yet of all topics; None where none is known."""
        return sum(self.lag_by_topic.values()) if self.lag_by_topic else None


@dataclass(frozen=True, slots=True)
class GroupsFact:
    """All groups, by id, and those that read or have read a topic."""

    groups: Mapping[str, GroupLag]
    of_topic: Mapping[str, Sequence[GroupLag]]
    silent: Mapping[int, str]
    """Brokers that did not list their groups, and why."""
    coordinators: Mapping[str, int] = field(default_factory=dict)
    """The broker that listed each group."""


class GroupPlaces(NamedTuple):
    """Where a group is in each partition. `lags` are what its broker counts: a queue leaves out what is done."""

    offsets: Mapping[TopicPartition, int]
    lags: Mapping[TopicPartition, int]

    def find_lag(self, key: TopicPartition, ends: Mapping[TopicPartition, int]) -> int | None:
        """Records that are not read yet; None where the end is not known."""
        if key in self.lags:
            return self.lags[key]
        return max(ends[key] - self.offsets[key], 0) if key in ends else None


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """One group as its coordinator describes it, with its partitions. `waits_ms` has the time of the oldest record that
    is not read yet.
    """

    group: GroupDescription
    places: GroupPlaces
    ends: Mapping[TopicPartition, int]
    waits_ms: Mapping[TopicPartition, int]


class ConsoleFacts:
    """The facts of the cluster that `client` is connected to."""

    def __init__(self, client: Client, *, bootstrap: str, security_protocol: str) -> None:
        self._tasks = TaskOwner("console")
        often, rarely = CONSOLE_FACTS_SECONDS_MIN, CONSOLE_FINDINGS_SECONDS_MIN
        tasks = self._tasks
        self.health: SharedFact[ClusterHealth] = SharedFact(
            "health", lambda: cluster_health(client), tasks=tasks, seconds_min=often
        )
        self.findings: SharedFact[DoctorFindings] = SharedFact(
            "findings",
            lambda: find_findings(client, bootstrap=bootstrap, security_protocol=security_protocol),
            tasks=tasks,
            seconds_min=rarely,
        )
        self.topics: SharedFact[TopicsFact] = SharedFact(
            "topics", lambda: list_topics(client), tasks=tasks, seconds_min=often
        )
        self.groups: SharedFact[GroupsFact] = SharedFact(
            "groups", lambda: list_groups(client), tasks=tasks, seconds_min=often
        )
        self.settings: SharedDetails[Sequence[ConfigEntry]] = SharedDetails(
            "settings", partial(_describe_topic, client), tasks=tasks, seconds_min=often
        )
        self.offsets: SharedDetails[Mapping[TopicPartition, tuple[int, int]]] = SharedDetails(
            "offsets", partial(_list_offsets, client), tasks=tasks, seconds_min=often
        )
        self.group: SharedDetails[GroupDetail] = SharedDetails(
            "group", partial(describe_group, client), tasks=tasks, seconds_min=often
        )

    async def close(self) -> None:
        """End the questions under way."""
        await self._tasks.close()

    def forget(self) -> None:
        """Ask again for all: a viewer has changed the cluster."""
        for fact in (self.health, self.topics, self.groups, self.settings, self.offsets, self.group):
            fact.forget()


async def find_findings(client: Client, *, bootstrap: str, security_protocol: str) -> DoctorFindings:
    """What the doctor's rules say now. Raises ConnectionFailed or ClientTimeout when no broker answers."""
    facts = await find_facts(
        client, bootstrap=parse_addresses(bootstrap), security_protocol=security_protocol, now_ms=_now_ms
    )
    found = diagnose(facts)
    return DoctorFindings(found, find_passed(facts, found), facts.unasked)


# --- topics ----------------------------------------------------------------------------------------------------------


async def list_topics(client: Client, cluster: ClusterInfo | None = None) -> TopicsFact:
    """All topics with their bytes. `cluster` has them where they were just asked for. Raises ConnectionFailed, …"""
    if cluster is None:
        cluster = await client.with_retries(lambda: client.refresh(None))
    sizes: dict[TopicPartition, dict[int, int]] = {}
    silent: dict[int, str] = {}
    for broker, answer in (await directories(client, cluster.brokers)).items():
        if isinstance(answer, OdradekError):
            silent[broker] = str(answer)
            continue
        for directory in answer:
            for key, replica in directory.replicas.items():
                sizes.setdefault(key, {})[broker] = replica.size_bytes
    topics = {name: cluster.topics[name] for name in sorted(cluster.topics)}
    return TopicsFact(topics, sizes, frozenset(cluster.brokers), silent)


async def _describe_topic(client: Client, name: str) -> Sequence[ConfigEntry]:
    return await ConfigAdmin(client).describe(ResourceType.TOPIC, name, include_documentation=True)


async def _list_offsets(client: Client, topic: str) -> Mapping[TopicPartition, tuple[int, int]]:
    """The first offset and the end of each partition that has a leader."""
    cluster = await client.with_retries(lambda: client.refresh((topic,)))
    keys, logs = cluster.partitions(topic), LogAdmin(client)
    starts = await logs.known_offsets_at(keys, EARLIEST)
    ends = await logs.known_offsets_at(keys, LATEST)
    return {key: (starts[key], ends[key]) for key in keys if key in starts and key in ends}


# --- groups ----------------------------------------------------------------------------------------------------------


async def list_groups(
    client: Client,
    *,
    brokers: Collection[int] | None = None,
    ends: Mapping[TopicPartition, int] | None = None,
) -> GroupsFact:
    """All groups with their lag. `brokers` and `ends` are given where they were just asked for; a partition without an
    end has no lag. Raises OdradekError when no broker lists its groups.
    """
    if brokers is None:
        brokers = (await client.with_retries(lambda: client.refresh(()))).brokers
    coordinators, listed, silent = await _ask_brokers_for_groups(client, sorted(brokers))
    asked = [one for one in listed.values() if one.type != ZOOKEEPER][:CONSOLE_GROUPS_ASKED_MAX]
    places = await _ask_for_all_places(client, asked, coordinators)
    if ends is None:
        keys = {key for found in places.values() if not isinstance(found, str) for key in found.offsets}
        ends = await LogAdmin(client).known_offsets_at(keys, LATEST)
    groups: dict[str, GroupLag] = {}
    of_topic: dict[str, list[GroupLag]] = {}
    for group_id in sorted(listed):
        found = places.get(group_id, "its offsets are not asked for")
        groups[group_id] = progress = _compare(listed[group_id], found, ends)
        for topic in progress.topics:
            of_topic.setdefault(topic, []).append(progress)
    return GroupsFact(groups, of_topic, silent, coordinators)


async def _ask_brokers_for_groups(
    client: Client, brokers: Sequence[int]
) -> tuple[dict[str, int], dict[str, GroupListing], dict[int, str]]:
    answers = await asyncio.gather(*(_ask_broker_for_groups(client, number) for number in brokers))
    coordinators: dict[str, int] = {}
    listed: dict[str, GroupListing] = {}
    silent: dict[int, str] = {}
    for number, answer in zip(brokers, answers, strict=True):
        if isinstance(answer, str):
            silent[number] = answer
        else:
            listed |= {one.group_id: one for one in answer}
            coordinators |= {one.group_id: number for one in answer}
    if silent and not listed and len(silent) == len(brokers):
        raise OdradekError(f"no broker lists its groups: {silent[brokers[0]]}")
    return coordinators, listed, silent


async def _ask_broker_for_groups(client: Client, number: int) -> Sequence[GroupListing] | str:
    try:
        async with asyncio.timeout(BROKER_ANSWER_SECONDS_MAX):
            return await GroupAdmin(client).list_of(number)
    except TimeoutError:
        return f"no answer within {BROKER_ANSWER_SECONDS_MAX:g} s"
    except OdradekError as failure:
        return str(failure)


async def _ask_for_all_places(
    client: Client, asked: Sequence[GroupListing], coordinators: Mapping[str, int]
) -> dict[str, GroupPlaces | str]:
    """Where these groups are, or why it is not known: many in a request, and alone what such a request did not have."""
    several: dict[int, list[str]] = {}
    for one in asked:
        if one.type != SHARE:
            several.setdefault(coordinators[one.group_id], []).append(one.group_id)
    places: dict[str, GroupPlaces | str] = {
        group_id: GroupPlaces({key: one.offset for key, one in offsets.items()}, {})
        for group_id, offsets in (await fetch_offsets_of_groups(client, several)).items()
    }
    turns = asyncio.Semaphore(CONSOLE_GROUPS_AT_ONCE_MAX)
    alone = [one for one in asked if one.group_id not in places]
    outcomes = await asyncio.gather(*(_ask_for_places(client, one, turns) for one in alone))
    return places | {one.group_id: found for one, found in zip(alone, outcomes, strict=True)}


async def _ask_for_places(
    client: Client, listing: GroupListing, turns: asyncio.Semaphore
) -> GroupPlaces | str:
    async with turns:
        try:
            return await _find_places(client, listing.group_id, listing.type)
        except OdradekError as failure:
            return str(failure)


async def _find_places(client: Client, group_id: str, group_type: str) -> GroupPlaces:
    if group_type == ZOOKEEPER:
        return GroupPlaces({}, {})
    if group_type == SHARE:
        starts = await QueueAdmin(client).offsets(group_id)
        lags = {key: one.lag for key, one in starts.items() if one.lag is not None}
        return GroupPlaces({key: one.start for key, one in starts.items()}, lags)
    offsets = await GroupAdmin(client).offsets(group_id)
    return GroupPlaces({key: one.offset for key, one in offsets.items()}, {})


async def describe_group(client: Client, group_id: str) -> GroupDetail:
    """One group with its partitions. Raises GroupIdNotFound, …"""
    group = await GroupAdmin(client).describe(group_id)
    places = await _find_places(client, group_id, group.type)
    committed = places.offsets
    keys = {*committed, *(key for member in group.members for key in member.assignment)}
    ends = await LogAdmin(client).known_offsets_at(keys, LATEST)
    behind = sorted(
        (key for key in committed if places.find_lag(key, ends)),
        key=lambda key: -(places.find_lag(key, ends) or 0),
    )[:CONSOLE_WAITS_ASKED_MAX]
    starts = await LogAdmin(client).known_offsets_at(behind, EARLIEST)
    unread = {key: max(committed[key], starts[key]) for key in behind if key in starts}
    try:
        waits_ms = await timestamps_at(client, unread)
    except TopicAuthorizationFailed:
        waits_ms = {}  # a user may read the offsets of a topic without the right to read it
    return GroupDetail(group, places, ends, waits_ms)


def _compare(listing: GroupListing, found: GroupPlaces | str, ends: Mapping[TopicPartition, int]) -> GroupLag:
    if isinstance(found, str):
        return GroupLag(listing=listing, error=found)
    lag_by_topic: dict[str, int] = {}
    for key in found.offsets:
        if (lag := found.find_lag(key, ends)) is not None:
            lag_by_topic[key.topic] = lag_by_topic.get(key.topic, 0) + lag
    return GroupLag(
        listing=listing,
        partitions=len(found.offsets),
        offsets=found.offsets,
        topics=sorted({key.topic for key in found.offsets}),
        lag_by_topic=lag_by_topic,
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
