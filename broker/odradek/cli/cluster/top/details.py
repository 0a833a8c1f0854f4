"""All about one row of `odradek top`: lines of text. Pure functions of what was found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.cli.cluster.top.lists import Form, TopList, TopRow
from odradek.cli.cluster.top.printing import format_cell, format_rate
from odradek.cli.cluster.top.rates import ClusterLook, Comparison, GroupRates
from odradek.cli.shared.disk_words import disk_words
from odradek.cli.shared.output import count, format_bytes, render_table
from odradek.client.admin.groups import SHARE
from odradek.client.metadata import NO_LEADER
from odradek.console.cluster_facts import GroupDetail
from odradek.foundation.ids import TopicPartition
from odradek.foundation.top_limits import TOP_DETAIL_LINES_MAX


def describe_row(shown: Comparison, found: TopList, row: TopRow) -> list[str]:
    """The values of the row, and what the look has beside them. A group's members are asked for: `describe_members`."""
    names = [column.title.lower() for column in found.columns]
    width = max(map(len, names))
    lines = [
        f"{name.ljust(width)}  {format_cell(value, column.form)}"
        for name, value, column in zip(names, row.values, found.columns, strict=True)
    ]
    match found.name:
        case "brokers":
            lines += _about_broker(shown.look, int(row.key))
        case "topics":
            lines += _about_topic(shown, row.key)
        case "findings" if shown.findings is not None and int(row.key) < len(shown.findings.found):
            lines += ["", f"what to do: {shown.findings.found[int(row.key)].advice or 'nothing'}"]
        case "groups" | "queues":
            group = shown.look.groups.groups.get(row.key)
            if group is not None and group.error:
                lines += ["", f"its offsets are not known: {group.error}"]
            elif group is not None:
                lines += ["", *_table(("TOPIC", "LAG"), sorted(group.lag_by_topic.items()))]
    return _limit(lines)


def _about_broker(look: ClusterLook, number: int) -> list[str]:
    lines: list[str] = []
    for broker in look.health.brokers:
        if broker.id == number:
            lines += ["", f"disks  {disk_words(broker.directories) or 'not reported'}"]
            lines += [] if broker.error is None else [f"error  {broker.error}"]
            lines += _table(
                ("LOG DIRECTORY", "FREE", "OF", "ERROR"),
                [
                    (one.path, format_bytes(one.usable_bytes), format_bytes(one.total_bytes), one.error)
                    for one in broker.directories
                ],
            )
    behind = [
        str(TopicPartition(topic.name, one.partition))
        for topic in look.topics.topics.values()
        for one in topic.partitions
        if number in one.replicas and number not in one.in_sync_replicas
    ]
    if behind:
        lines += ["", f"its replicas that are not in sync: {len(behind)}", *behind]
    return lines


def _about_topic(shown: Comparison, name: str) -> list[str]:
    look, topic = shown.look, shown.look.topics.topics.get(name)
    if topic is None:
        return []
    rows = []
    for one in topic.partitions:
        key = TopicPartition(name, one.partition)
        size = max(look.topics.sizes.get(key, {}).values(), default=None)
        leader = None if one.leader == NO_LEADER else one.leader
        rows.append(
            (
                one.partition,
                leader,
                one.replicas,
                one.in_sync_replicas,
                look.ends.get(key),
                format_cell(size, Form.BYTES),
            )
        )
    readers = sorted(look.groups.of_topic.get(name, ()), key=lambda one: -one.lag_by_topic.get(name, 0))
    groups = [
        (
            one.listing.group_id,
            one.listing.type,
            one.listing.state,
            one.lag_by_topic.get(name),
            _change(shown.groups.get(one.listing.group_id)),
        )
        for one in readers
    ]
    return [
        "",
        *_table(("GROUP", "TYPE", "STATE", "LAG", "LAG/S OF ALL"), groups, empty="no group reads it"),
        "",
        *_table(("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "END", "SIZE"), rows),
    ]


def _change(rates: GroupRates | None) -> str | None:
    return None if rates is None or rates.lag_change is None else format_rate(rates.lag_change)


def describe_members(detail: GroupDetail) -> list[str]:
    """The members of a group, and its partitions with their lag, the largest first."""
    group, places = detail.group, detail.places
    # Every member of a queue may read any of its partitions.
    owned = () if group.type == SHARE else group.members
    owners = {key: member.client_id for member in owned for key in member.assignment}
    lags = {key: places.find_lag(key, detail.ends) for key in places.offsets}
    keys = sorted({*places.offsets, *owners}, key=lambda key: (-(lags.get(key) or 0), key))
    members = [
        (one.client_id, one.client_host, one.instance_id, len(one.assignment), one.member_id)
        for one in group.members
    ]
    partitions = [
        (str(key), places.offsets.get(key), detail.ends.get(key), lags.get(key), owners.get(key))
        for key in keys
    ]
    lines = [
        "",
        f"{count(len(members), 'member')}, coordinator {group.coordinator}, assignor {group.assignor or '-'}",
        *_table(("CLIENT", "HOST", "INSTANCE", "OWNS", "MEMBER"), members),
        "",
        *_table(("PARTITION", "OFFSET", "END", "LAG", "OWNER"), partitions, empty="it has no offsets"),
    ]
    return _limit(lines)


def _table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "") -> list[str]:
    given = list(rows)
    if not given:
        return [empty] if empty else []
    left = len(given) - TOP_DETAIL_LINES_MAX
    return render_table(headers, given[:TOP_DETAIL_LINES_MAX]).splitlines() + _rest(left)


def _limit(lines: list[str]) -> list[str]:
    return lines[:TOP_DETAIL_LINES_MAX] + _rest(len(lines) - TOP_DETAIL_LINES_MAX)


def _rest(number: int) -> list[str]:
    return [f"… and {count(number, 'line')} more"] if number > 0 else []
