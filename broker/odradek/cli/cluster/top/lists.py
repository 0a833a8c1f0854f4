"""The lists of `odradek top`: rows of plain values, sorted and filtered. Pure functions of what two looks say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from odradek.cli.cluster.top.rates import ClusterLook, Comparison, GroupRates, TopicRates
from odradek.client.admin.disks import volumes
from odradek.client.admin.groups import SHARE
from odradek.client.admin.health import BrokerStatus, DirectoryStatus, directory_status
from odradek.client.admin.partition_states import Problem, state_of
from odradek.client.metadata import NO_LEADER, TopicInfo
from odradek.console.cluster_facts import DoctorFindings, GroupLag
from odradek.foundation.ids import TopicPartition

Value = str | int | float | None
BAD: Final = "bad"
WARNING: Final = "warning"
_SEVERITIES: Final = {"PROBLEM": BAD, "WARNING": WARNING}
_WITHOUT_RECORDS: Final = frozenset((Problem.OFFLINE, Problem.LEADERLESS, Problem.UNDER_MIN_ISR))


class Form(Enum):
    """How a value is shown."""

    NAME = "name"
    """A text that may be shortened in the middle where the screen is narrow."""
    TEXT = "text"
    NUMBER = "number"
    RATE = "rate"
    CHANGE = "change"
    """A rate with its sign."""
    BYTES = "bytes"
    BYTE_RATE = "byte rate"


@dataclass(frozen=True, slots=True)
class TopColumn:
    """A column: its title, its name in JSON, and how its values are shown."""

    title: str
    name: str
    form: Form = Form.NUMBER


@dataclass(frozen=True, slots=True)
class TopRow:
    """A row. `key` names what it shows, and `mark` is BAD, WARNING or none."""

    key: str
    values: tuple[Value, ...]
    mark: str = ""


@dataclass(frozen=True, slots=True)
class TopList:
    """One list of the screen. `order` is the column that sorts it at first, or None for the order of its rows."""

    name: str
    columns: tuple[TopColumn, ...]
    rows: Sequence[TopRow]
    order: str | None = None
    empty: str = ""
    """What is said in place of no row."""


# --- lists -----------------------------------------------------------------------------------------------------------

_BROKERS: Final = (
    TopColumn("BROKER", "id"),
    TopColumn("STATE", "state", Form.TEXT),
    TopColumn("CONTROLLER", "controller", Form.TEXT),
    TopColumn("LEADS", "leaders"),
    TopColumn("REPLICAS", "replicas"),
    TopColumn("BEHIND", "out_of_sync"),
    TopColumn("FREE", "usable_bytes", Form.BYTES),
    TopColumn("DISK", "total_bytes", Form.BYTES),
    TopColumn("ADDRESS", "address", Form.TEXT),
    TopColumn("RACK", "rack", Form.TEXT),
)
_PARTITIONS: Final = (
    TopColumn("PARTITION", "partition", Form.NAME),
    TopColumn("PROBLEMS", "problems", Form.TEXT),
    TopColumn("LEADER", "leader"),
    TopColumn("REPLICAS", "replicas", Form.TEXT),
    TopColumn("IN SYNC", "in_sync", Form.TEXT),
    TopColumn("MIN", "min_in_sync"),
)
_TOPICS: Final = (
    TopColumn("TOPIC", "topic", Form.NAME),
    TopColumn("PARTS", "partitions"),
    TopColumn("BAD", "troubled"),
    TopColumn("IN/S", "records_in_per_second", Form.RATE),
    TopColumn("OUT/S", "records_out_per_second", Form.RATE),
    TopColumn("B IN/S", "bytes_in_per_second", Form.BYTE_RATE),
    TopColumn("B OUT/S", "bytes_out_per_second", Form.BYTE_RATE),
    TopColumn("SIZE", "size_bytes", Form.BYTES),
    TopColumn("COPIES", "copies"),
)
_GROUPS: Final = (
    TopColumn("GROUP", "group", Form.NAME),
    TopColumn("STATE", "state", Form.TEXT),
    TopColumn("MEMBERS", "members"),
    TopColumn("LAG", "lag"),
    TopColumn("LAG/S", "lag_change_per_second", Form.CHANGE),
    TopColumn("READ/S", "records_per_second", Form.RATE),
    TopColumn("TOPICS", "topics"),
    TopColumn("TYPE", "type", Form.TEXT),
)
_QUEUES: Final = (
    TopColumn("QUEUE", "group", Form.NAME),
    TopColumn("STATE", "state", Form.TEXT),
    TopColumn("MEMBERS", "members"),
    TopColumn("LAG", "lag"),
    TopColumn("LAG/S", "lag_change_per_second", Form.CHANGE),
    TopColumn("DONE/S", "records_per_second", Form.RATE),
    TopColumn("TOPICS", "topics"),
)
_FINDINGS: Final = (
    TopColumn("SEVERITY", "severity", Form.TEXT),
    TopColumn("CHECK", "check", Form.TEXT),
    TopColumn("WHAT IS SO", "message", Form.NAME),
)


def list_all(shown: Comparison) -> tuple[TopList, ...]:
    """The lists of the screen, in their order."""
    groups = shown.look.groups.groups.values()
    return (
        TopList("brokers", _BROKERS, _broker_rows(shown.look)),
        TopList("partitions", _PARTITIONS, _partition_rows(shown.look), empty="no partition has a problem"),
        TopList("topics", _TOPICS, _topic_rows(shown), "records_in_per_second", empty="there is no topic"),
        TopList(
            "groups",
            _GROUPS,
            [_group_row(one, shown) for one in groups if one.listing.type != SHARE],
            "lag",
            empty="there is no group",
        ),
        TopList(
            "queues",
            _QUEUES,
            [_queue_row(one, shown) for one in groups if one.listing.type == SHARE],
            "lag",
            empty="there is no queue",
        ),
        TopList("findings", _FINDINGS, _finding_rows(shown.findings), empty=_no_findings(shown.findings)),
    )


def _broker_rows(look: ClusterLook) -> list[TopRow]:
    missing: Counter[int] = Counter()
    for topic in look.topics.topics.values():
        for one in topic.partitions:
            missing.update(set(one.replicas).difference(one.in_sync_replicas))
    rows: list[TopRow] = []
    for broker in look.health.brokers:
        total, usable = volumes(broker.directories) or (None, None)
        states = {directory_status(one) for one in broker.directories}
        mark = WARNING if missing[broker.id] or DirectoryStatus.NEARLY_FULL in states else ""
        if broker.status is not BrokerStatus.LIVE or states & {DirectoryStatus.FULL, DirectoryStatus.FAILED}:
            mark = BAD
        # A broker that only forwards to the controller is the way to it.
        role = "through it" if look.health.is_forwarded else "yes"
        values: tuple[Value, ...] = (
            broker.id,
            broker.status.value,
            role if broker.id == look.health.controller_id else None,
            broker.leaders,
            broker.replicas,
            missing[broker.id],
            usable,
            total,
            broker.address,
            broker.rack,
        )
        rows.append(TopRow(str(broker.id), values, mark))
    return rows


def _partition_rows(look: ClusterLook) -> list[TopRow]:
    """Partitions with a problem, the worst first."""
    order = list(Problem)
    troubled = sorted(look.health.troubled, key=lambda one: (order.index(one.problems[0]), one.where))
    return [
        TopRow(
            str(one.where),
            (
                str(one.where),
                ", ".join(problem.value.replace("_", "-") for problem in one.problems),
                None if one.info.leader == NO_LEADER else one.info.leader,
                ",".join(map(str, one.info.replicas)),
                ",".join(map(str, one.info.in_sync_replicas)),
                one.min_in_sync,
            ),
            BAD
            if _WITHOUT_RECORDS.intersection(one.problems)
            else ("" if one.problems == (Problem.NOT_PREFERRED,) else WARNING),
        )
        for one in troubled
    ]


def _topic_rows(shown: Comparison) -> list[TopRow]:
    return [_topic_row(topic, shown) for topic in shown.look.topics.topics.values()]


def _topic_row(topic: TopicInfo, shown: Comparison) -> TopRow:
    fact, rates = shown.look.topics, shown.topics.get(topic.name, TopicRates())
    states = [state_of(topic.name, one, live=fact.live, min_in_sync=None) for one in topic.partitions]
    troubled = [one for one in states if {*one.problems} - {Problem.NOT_PREFERRED}]
    sizes = [fact.sizes.get(TopicPartition(topic.name, one.partition), {}) for one in topic.partitions]
    mark = BAD if any(not one.has_leader for one in troubled) else WARNING
    return TopRow(
        topic.name,
        (
            topic.name,
            len(topic.partitions),
            len(troubled),
            rates.records_in,
            rates.records_out,
            rates.bytes_in,
            rates.bytes_out,
            sum(max(one.values(), default=0) for one in sizes),
            max((len(one.replicas) for one in topic.partitions), default=0),
        ),
        mark if troubled or topic.error_code else "",
    )


def _group_row(group: GroupLag, shown: Comparison) -> TopRow:
    queue = _queue_row(group, shown)
    return replace(queue, values=(*queue.values, group.listing.type))


def _queue_row(group: GroupLag, shown: Comparison) -> TopRow:
    listing = group.listing
    rates = shown.groups.get(listing.group_id, GroupRates())
    values = (
        listing.group_id,
        listing.state,
        shown.look.members.get(listing.group_id),
        group.lag,
        rates.lag_change,
        rates.records,
        len(group.topics),
    )
    is_unsettled = listing.state in ("PreparingRebalance", "CompletingRebalance", "Dead")
    return TopRow(listing.group_id, values, WARNING if is_unsettled or group.error else "")


def _finding_rows(findings: DoctorFindings | None) -> list[TopRow]:
    return [
        TopRow(
            f"{number}",
            (one.severity.name.lower(), one.check, one.words),
            _SEVERITIES.get(one.severity.name, ""),
        )
        for number, one in enumerate(() if findings is None else findings.found)
    ]


def _no_findings(findings: DoctorFindings | None) -> str:
    return (
        "the doctor has not looked yet"
        if findings is None
        else f"nothing: {', '.join(findings.passed)} are well"
    )


# --- order and filter ------------------------------------------------------------------------------------------------


def choose_rows(
    found: TopList, *, text: str = "", order: str | None = None, is_descending: bool = True
) -> list[TopRow]:
    """The rows with this text in one of their names or words, in the order of a column. Unknown values come last."""
    wanted = text.lower()
    rows = [row for row in found.rows if not wanted or _has_text(row, wanted)]
    numbers = [number for number, column in enumerate(found.columns) if column.name == order]
    if not numbers:
        return rows
    (at,) = numbers
    known = [row for row in rows if row.values[at] is not None]
    unknown = [row for row in rows if row.values[at] is None]

    def rank(row: TopRow) -> tuple[float, str]:
        value = row.values[at]
        return (0.0, value.lower()) if isinstance(value, str) else (float(value or 0), "")

    return sorted(known, key=rank, reverse=is_descending) + unknown


def _has_text(row: TopRow, wanted: str) -> bool:
    return any(isinstance(value, str) and wanted in value.lower() for value in row.values)


def first_order(found: TopList) -> tuple[str | None, bool]:
    """The column that sorts a list at first, and whether its largest values come first."""
    return found.order, is_number(found, found.order)


def is_number(found: TopList, name: str | None) -> bool:
    """Whether a column has numbers. Their largest come first."""
    return any(column.name == name and column.form not in (Form.NAME, Form.TEXT) for column in found.columns)
