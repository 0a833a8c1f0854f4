"""What the pages are made of, as plain values for JSON: pure functions of the facts. Tables have pages of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from odradek.client.admin.disks import volumes
from odradek.client.admin.groups import SHARE
from odradek.client.admin.health import BrokerHealth, ClusterHealth
from odradek.client.admin.partition_states import PartitionState, Problem, state_of
from odradek.client.metadata import NO_LEADER, PartitionInfo, TopicInfo
from odradek.client.results import ConfigEntry, ConfigSource, GroupMember
from odradek.console.cluster_facts import DoctorFindings, GroupDetail, GroupLag, GroupsFact, TopicsFact
from odradek.console.shared_facts import Known
from odradek.foundation.console_limits import (
    CONSOLE_ASSIGNMENT_SHOWN_MAX,
    CONSOLE_MEMBERS_SHOWN_MAX,
    CONSOLE_TROUBLED_SHOWN_MAX,
)
from odradek.foundation.ids import TopicPartition

T = TypeVar("T")
Document = dict[str, object]

# Groups that a row of a topic names, and topics that one of a group names; the others are counted.
_GROUPS_OF_ROW_MAX = 5
_TOPICS_OF_ROW_MAX = 5


@dataclass(frozen=True, slots=True)
class RowsWanted:
    """Which rows of a table: those whose name has `text` in it, in an order, from `first` on."""

    first: int
    count: int
    text: str = ""
    order: str = ""


def page_of(rows: Sequence[T], wanted: RowsWanted, make: Callable[[T], Document]) -> Document:
    """The rows of one page, how many there are, and where this page begins."""
    shown = rows[wanted.first : wanted.first + wanted.count]
    return {"rows": [make(row) for row in shown], "total": len(rows), "first": wanted.first}


# --- overview --------------------------------------------------------------------------------------------------------


def overview_document(known: Known[ClusterHealth]) -> Document:
    """Brokers, problems of partitions, moves and groups."""
    health = known.value
    return {
        "asked_ms": known.asked_ms,
        "cluster_id": health.cluster_id,
        "controller_id": health.controller_id,
        "is_forwarded": health.is_forwarded,
        "verdict": health.verdict.name.lower(),
        "brokers": [_broker(one, health) for one in health.brokers],
        "topics": health.topics,
        "partitions": health.partitions,
        "problems": {problem.value: number for problem, number in health.problems.items()},
        "moves": None if health.moves is None else len(health.moves),
        "groups": dict(health.groups),
        "troubled": [
            _describe_trouble(one) for one in _worst_first(health.troubled)[:CONSOLE_TROUBLED_SHOWN_MAX]
        ],
        "troubled_total": len(health.troubled),
    }


def _broker(broker: BrokerHealth, health: ClusterHealth) -> Document:
    total, usable = volumes(broker.directories) or (None, None)
    return {
        "id": broker.id,
        "status": broker.status.value,
        "address": broker.address,
        "rack": broker.rack,
        "replicas": broker.replicas,
        "leaders": broker.leaders,
        "is_controller": broker.id == health.controller_id,
        "total_bytes": total,
        "usable_bytes": usable,
        "error": broker.error,
    }


def _worst_first(states: Iterable[PartitionState]) -> list[PartitionState]:
    order = list(Problem)
    return sorted(states, key=lambda one: (order.index(one.problems[0]), one.where))


def _describe_trouble(state: PartitionState) -> Document:
    return {
        "topic": state.where.topic,
        "partition": state.where.partition,
        "problems": [problem.value for problem in state.problems],
        **_placement(state.info),
    }


def _placement(partition: PartitionInfo) -> Document:
    return {
        "leader": None if partition.leader == NO_LEADER else partition.leader,
        "replicas": partition.replicas,
        "in_sync": partition.in_sync_replicas,
        "offline": partition.offline_replicas,
    }


def findings_document(known: Known[DoctorFindings]) -> Document:
    """What the doctor's rules say, the worst first."""
    return {
        "asked_ms": known.asked_ms,
        "findings": [
            {
                "severity": one.severity.name.lower(),
                "check": one.check,
                "words": one.words,
                "advice": one.advice,
            }
            for one in known.value.found
        ],
        "passed": known.value.passed,
        "unasked": [{"what": what, "why": why} for what, why in known.value.unasked.items()],
    }


# --- topics ----------------------------------------------------------------------------------------------------------


def topics_document(known: Known[TopicsFact], groups: GroupsFact | None, wanted: RowsWanted) -> Document:
    """A page of the list of topics. `groups` are None where they could not be asked."""
    fact = known.value
    found = [topic for name, topic in fact.topics.items() if wanted.text.lower() in name.lower()]
    if wanted.order == "size":
        found.sort(key=lambda topic: -_topic_bytes(topic, fact)[0])
    elif wanted.order == "partitions":
        found.sort(key=lambda topic: -len(topic.partitions))
    elif wanted.order == "lag" and groups is not None:
        found.sort(key=lambda topic: -_largest_lag(topic.name, groups))
    return {
        "asked_ms": known.asked_ms,
        "silent": _silent(fact.silent),
        "brokers": sorted(fact.live),
        "are_groups_known": groups is not None,
        **page_of(found, wanted, lambda topic: topic_row(topic, fact, groups)),
    }


def topic_row(topic: TopicInfo, fact: TopicsFact, groups: GroupsFact | None) -> Document:
    """One topic: its size, problems, leaders, and the groups that read it with their lag."""
    states = [state_of(topic.name, one, live=fact.live, min_in_sync=None) for one in topic.partitions]
    problems = [problem for state in states for problem in state.problems]
    leads: dict[int, int] = {}
    follows: dict[int, int] = {}
    for one in topic.partitions:
        for replica in one.replicas:
            counted = leads if replica == one.leader else follows
            counted[replica] = counted.get(replica, 0) + 1
    size, on_disks = _topic_bytes(topic, fact)
    readers = [] if groups is None else groups.of_topic.get(topic.name, [])
    by_lag = sorted(readers, key=lambda one: (-(one.lag_by_topic.get(topic.name, 0)), one.listing.group_id))
    error = topic.error()
    return {
        "name": topic.name,
        "error": None if error is None else str(error),
        "is_internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "copies": max((len(one.replicas) for one in topic.partitions), default=0),
        "size_bytes": size,
        "disk_bytes": on_disks,
        "without_leader": problems.count(Problem.OFFLINE) + problems.count(Problem.LEADERLESS),
        "under_replicated": problems.count(Problem.UNDER_REPLICATED),
        "leads": leads,
        "follows": follows,
        "groups": [_reader(one, topic.name) for one in by_lag[:_GROUPS_OF_ROW_MAX]],
        "groups_total": len(readers),
    }


def _reader(progress: GroupLag, topic: str) -> Document:
    return {
        "group": progress.listing.group_id,
        "state": progress.listing.state,
        "type": progress.listing.type,
        "lag": progress.lag_by_topic.get(topic),
    }


def _largest_lag(topic: str, groups: GroupsFact) -> int:
    return max((one.lag_by_topic.get(topic, 0) for one in groups.of_topic.get(topic, ())), default=-1)


def _topic_bytes(topic: TopicInfo, fact: TopicsFact) -> tuple[int, int]:
    """The bytes of the topic's records once, and those of all their copies."""
    found = [fact.sizes.get(TopicPartition(topic.name, one.partition), {}) for one in topic.partitions]
    return sum(max(one.values(), default=0) for one in found), sum(sum(one.values()) for one in found)


def _silent(silent: Mapping[int, str]) -> list[Document]:
    return [{"broker": broker, "why": why} for broker, why in sorted(silent.items())]


def topic_document(
    topic: TopicInfo,
    fact: TopicsFact,
    groups: GroupsFact | None,
    offsets: Mapping[TopicPartition, tuple[int, int]],
    wanted: RowsWanted,
) -> Document:
    """One topic with a page of its partitions, and all groups that read it."""
    readers = [] if groups is None else groups.of_topic.get(topic.name, [])

    def make(partition: PartitionInfo) -> Document:
        key = TopicPartition(topic.name, partition.partition)
        start, end = offsets.get(key, (None, None))
        state = state_of(topic.name, partition, live=fact.live, min_in_sync=None)
        return {
            "partition": partition.partition,
            "start": start,
            "end": end,
            "size_bytes": max(fact.sizes.get(key, {}).values(), default=None),
            "problems": [problem.value for problem in state.problems],
            **_placement(partition),
        }

    return {
        **topic_row(topic, fact, groups),
        "id": str(topic.id),
        "readers": [_reader(one, topic.name) for one in readers],
        "page": page_of(topic.partitions, wanted, make),
    }


def settings_document(entries: Sequence[ConfigEntry]) -> Document:
    """The settings of a topic, those of its own first. A value that is secret is no text."""
    ordered = sorted(
        entries, key=lambda one: (one.source is not ConfigSource.TOPIC, one.is_default, one.name)
    )
    return {
        "settings": [
            {
                "name": one.name,
                "value": one.value,
                "source": one.source.name.lower().replace("_", " "),
                "is_default": one.is_default,
                "is_read_only": one.is_read_only,
                "is_secret": one.is_sensitive,
                "meaning": one.documentation,
            }
            for one in ordered
        ]
    }


# --- groups ----------------------------------------------------------------------------------------------------------


def groups_document(known: Known[GroupsFact], wanted: RowsWanted) -> Document:
    """A page of the list of groups."""
    fact = known.value
    found = [one for name, one in fact.groups.items() if wanted.text.lower() in name.lower()]
    if wanted.order == "lag":
        found.sort(key=lambda one: -(one.lag or 0))
    elif wanted.order == "state":
        found.sort(key=lambda one: one.listing.state)
    return {
        "asked_ms": known.asked_ms,
        "silent": _silent(fact.silent),
        **page_of(found, wanted, _group_row),
    }


def _group_row(progress: GroupLag) -> Document:
    return {
        "group": progress.listing.group_id,
        "state": progress.listing.state,
        "type": progress.listing.type,
        "protocol": progress.listing.protocol_type,
        "topics": progress.topics[:_TOPICS_OF_ROW_MAX],
        "topics_total": len(progress.topics),
        "partitions": progress.partitions,
        "lag": progress.lag,
        "error": progress.error,
    }


def group_document(known: Known[GroupDetail], wanted: RowsWanted) -> Document:
    """One group: members and what each owns, and a page of its partitions with their lag, the largest first."""
    detail = known.value
    group = detail.group
    # Every member of a queue may read any of its partitions.
    owned = () if group.type == SHARE else group.members
    owners = {key: member for member in owned for key in member.assignment}
    committed = detail.places.offsets
    found = {key: detail.places.find_lag(key, detail.ends) for key in committed}
    lags = {key: lag for key, lag in found.items() if lag is not None}
    keys = sorted({*committed, *owners}, key=lambda key: (-lags.get(key, -1), key))

    def make(key: TopicPartition) -> Document:
        owner, unread_ms = owners.get(key), detail.waits_ms.get(key)
        return {
            "topic": key.topic,
            "partition": key.partition,
            "committed": committed.get(key),
            "end": detail.ends.get(key),
            "lag": lags.get(key),
            "lag_ms": None if unread_ms is None else max(known.asked_ms - unread_ms, 0),
            "member": None if owner is None else owner.member_id,
            "client": None if owner is None else owner.client_id,
            "host": None if owner is None else owner.client_host,
        }

    return {
        "asked_ms": known.asked_ms,
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "lag": sum(lags.values()) if lags else None,
        "members": [_member(one) for one in group.members[:CONSOLE_MEMBERS_SHOWN_MAX]],
        "members_total": len(group.members),
        "page": page_of(keys, wanted, make),
    }


def _member(member: GroupMember) -> Document:
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.client_host,
        "topics": member.topics,
        "pattern": member.pattern,
        "epoch": member.epoch,
        "owns": [str(key) for key in member.assignment[:CONSOLE_ASSIGNMENT_SHOWN_MAX]],
        "owns_total": len(member.assignment),
        "waits_for": []
        if member.target is None
        else [str(key) for key in sorted({*member.target} - {*member.assignment})][
            :CONSOLE_ASSIGNMENT_SHOWN_MAX
        ],
    }
