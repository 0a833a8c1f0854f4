"""What `odradek top` prints without a screen: plain tables or one document. Cells are shared with the screen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from odradek.cli.cluster.top.lists import (
    BAD,
    Form,
    TopColumn,
    TopList,
    TopRow,
    Value,
    choose_rows,
    first_order,
    list_all,
)
from odradek.cli.cluster.top.rates import Comparison
from odradek.cli.shared.output import bad, count, in_color, render_table, warning
from odradek.client.admin.health import BrokerStatus, Verdict
from odradek.client.admin.partition_states import Problem
from odradek.foundation.top_limits import TOP_ROWS_PRINTED_MAX

_UNKNOWN: Final = "-"
_PROBLEMS_SHOWN: Final = tuple(one for one in Problem if one is not Problem.NOT_PREFERRED)


def format_cell(value: Value, form: Form) -> str:
    """A value as a cell shows it."""
    if value is None or value == "":
        return _UNKNOWN
    if isinstance(value, str):
        return show_marks(" ".join(value.split()))
    match form:
        case Form.BYTES | Form.BYTE_RATE:
            return format_size(value)
        case Form.RATE:
            return format_rate(value)
        case Form.CHANGE:
            return f"+{format_rate(value)}" if value > 0 else format_rate(value)
    return str(value)


def show_marks(text: str) -> str:
    """The text with a mark for each control character: a group may be named by whatever moves a terminal's cursor."""
    return text if text.isprintable() else "".join(one if one.isprintable() else "�" for one in text)


def format_size(size_bytes: float) -> str:
    """Bytes in powers of 1024, short enough for a column: `512B`, `1.5K`, `37G`."""
    for unit in ("B", "K", "M", "G"):
        if size_bytes < 999.5:
            return (
                f"{size_bytes:.0f}{unit}" if unit == "B" or size_bytes >= 9.95 else f"{size_bytes:.1f}{unit}"
            )
        size_bytes /= 1024
    return f"{size_bytes:.1f}T"


def format_rate(number: float) -> str:
    """A rate in three figures or four: `0.4`, `37`, `12.3k`, `4.1M`."""
    size = abs(number)
    if size < 9.95:
        return f"{number:.1f}" if size >= 0.05 else "0"
    if size < 9_999.5:
        return f"{number:.0f}"
    return f"{number / 1e3:.1f}k" if size < 999_950 else f"{number / 1e6:.1f}M"


def summarize(shown: Comparison) -> tuple[str, str, str]:
    """Three lines about the whole cluster: its state, its partitions, and what goes through it."""
    health, look = shown.look.health, shown.look
    live = sum(one.status is BrokerStatus.LIVE for one in health.brokers)
    controller = "no controller" if health.controller_id is None else f"controller {health.controller_id}"
    problems = [
        f"{health.problems[one]} {one.value.replace('_', '-')}"
        for one in _PROBLEMS_SHOWN
        if one in health.problems
    ]
    words = f" ({', '.join(problems)})" if problems else ""
    state = f"{health.verdict.name.lower()}  {controller}  brokers {live}/{len(health.brokers)}"
    total = shown.total
    lag = sum(one.lag or 0 for one in look.groups.groups.values())
    parts = (
        f"topics {health.topics}  partitions {health.partitions}{words}  "
        f"groups {len(look.groups.groups)}  lag {lag}"
    )
    flow = (
        f"in {_flow(total.records_in, total.bytes_in)}  out {_flow(total.records_out, total.bytes_out)}  "
        f"a look takes {look.took_seconds:.1f} s"
    )
    return state, parts, flow


def _flow(records: float | None, size_bytes: float | None) -> str:
    shown = _UNKNOWN if records is None else f"{format_rate(records)}/s"
    return shown if size_bytes is None else f"{shown} ({format_size(size_bytes)}/s)"


def describe_time(asked_ms: int) -> str:
    """A time of this machine's clock."""
    return time.strftime("%H:%M:%S", time.localtime(asked_ms / 1000))


# --- plain tables ----------------------------------------------------------------------------------------------------


def print_lists(shown: Comparison) -> None:
    """The whole as plain tables, each with its first rows."""
    state, *lines = summarize(shown)
    is_healthy = shown.look.health.verdict is Verdict.HEALTHY
    mark = state if is_healthy else in_color(_mark(state, shown.look.health.verdict is Verdict.UNHEALTHY))
    print(f"{describe_time(shown.look.asked_ms)}  cluster {shown.look.health.cluster_id}  {mark}")
    print("\n".join(lines))
    for what, why in shown.look.unasked.items():
        print(in_color(warning(f"{what} could not be asked: {why}")))
    for one in list_all(shown):
        print(f"\n{one.name}")
        print(_table(one) if one.rows else one.empty or "none")


def _mark(value: object, is_bad: bool) -> object:
    return bad(value) if is_bad else warning(value)


def _table(found: TopList) -> str:
    order, is_descending = first_order(found)
    rows = choose_rows(found, order=order, is_descending=is_descending)
    shown = rows[:TOP_ROWS_PRINTED_MAX]
    table = render_table([column.title for column in found.columns], [_cells(found, row) for row in shown])
    left = len(rows) - len(shown)
    return f"{table}\n… and {count(left, 'row')} more; --output json has all" if left else table


def _cells(found: TopList, row: TopRow) -> Sequence[object]:
    cells: list[object] = [
        None if value is None else format_cell(value, column.form)
        for value, column in zip(row.values, found.columns, strict=True)
    ]
    if row.mark:
        cells[0] = _mark(cells[0], row.mark == BAD)
    return cells


# --- for programs ----------------------------------------------------------------------------------------------------


def top_document(shown: Comparison) -> dict[str, object]:
    """All rows of all lists as JSON. What two looks do not say is null."""
    look, total = shown.look, shown.total
    return {
        "asked_ms": look.asked_ms,
        "took_seconds": round(look.took_seconds, 3),
        "seconds_between_looks": round(shown.seconds, 3),
        "cluster_id": look.health.cluster_id,
        "controller": look.health.controller_id,
        "health": look.health.verdict.name.lower(),
        "topics_total": look.health.topics,
        "partitions_total": look.health.partitions,
        "problems": {problem.value: number for problem, number in look.health.problems.items()},
        "records_in_per_second": _number(total.records_in),
        "records_out_per_second": _number(total.records_out),
        "bytes_in_per_second": _number(total.bytes_in),
        "bytes_out_per_second": _number(total.bytes_out),
        "are_bytes_counted_by_brokers": look.counted is not None,
        "unasked": dict(look.unasked),
        **{one.name: [_row_document(one.columns, row) for row in one.rows] for one in list_all(shown)},
        "passed": [] if shown.findings is None else list(shown.findings.passed),
    }


def _row_document(columns: Sequence[TopColumn], row: TopRow) -> dict[str, object]:
    return {
        column.name: _number(value) if isinstance(value, float) else value
        for column, value in zip(columns, row.values, strict=True)
    }


def _number(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
