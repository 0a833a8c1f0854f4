"""The page: one HTML file that fetches nothing and runs nothing, which its own policy says too."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from odradek_pipeline.loading.page.charts import Bar, Cell, bars, calendar, level_bars
from odradek_pipeline.loading.page.marks import Markup, element, join_markup, moment, size
from odradek_pipeline.loading.page.model import (
    BAD,
    GOOD,
    LEVELS,
    WARNING,
    PageData,
    RunRow,
    WindowRow,
    judge_table,
)
from odradek_pipeline.loading.page.style import style

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
DAYS_MAX: Final = 60
PARTITIONS_MAX: Final = 40
RANGES_MAX: Final = 8
_LABEL_MAX: Final = 28
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_SAID: Final = {GOOD: "Nothing to do", WARNING: "To be looked at", BAD: "Records are missing or differ"}
_GLYPHS: Final = {GOOD: "", WARNING: "?", BAD: "x"}


def render_page(data: PageData) -> str:
    head = join_markup(
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        element("title", f"Runs of {data.output}"),
        Markup(f"<style>{style()}</style>"),
    )
    body = join_markup(
        _header(data),
        element("div", _rows(data.runs), _seconds(data.runs), class_="plots"),
        _lag(data),
        _audit(data),
        _table(data),
    )
    return f"<!DOCTYPE html>\n{element('html', element('head', head), element('body', body), lang='en')}\n"


def _header(data: PageData) -> Markup:
    level, sentences = judge_table(data)
    span = "no runs yet"
    if data.runs:
        span = f"runs {data.runs[0].number:,} to {data.runs[-1].number:,}, " + (
            f"{moment(data.runs[0].started_ms)} to {moment(data.runs[-1].committed_ms)} UTC"
        )
    return element(
        "header",
        element("h1", data.output),
        element("p", f"{data.output_format}, {span}; as of {moment(data.made_ms)} UTC", class_="muted"),
        element(
            "div",
            element("strong", _SAID[level]),
            element("ul", *(element("li", said) for said in sentences)),
            class_=f"verdict {level}",
        ),
    )


def _rows(runs: Sequence[RunRow]) -> Markup:
    given = [
        Bar(
            f"{one.number}",
            f"run {one.number}, {one.kind}: {one.rows or 0:,} rows, {one.dead:,} dead letters",
            {"rows": one.rows or 0, "dead": one.dead},
        )
        for one in runs
    ]
    keys = element("p", _key("rows"), "rows", _key("dead"), "dead letters", class_="muted")
    return _card("Rows per run", keys, bars("Rows and dead letters of each run, by its number", given))


def _seconds(runs: Sequence[RunRow]) -> Markup:
    given = [
        Bar(
            f"{one.number}",
            f"run {one.number}, {one.kind}: {one.seconds:,.1f} seconds",
            {"time": one.seconds},
        )
        for one in runs
    ]
    said = element("p", "seconds from plan to commit", class_="muted")
    return _card("Run times", said, bars("Seconds of each run, by its number", given))


def _lag(data: PageData) -> Markup:
    if data.lag is None:
        return _card("Lag", element("p", "Not asked: add --bootstrap to the command.", class_="muted"))
    given = [
        Bar(
            shorten_label(one.partition),
            f"{one.partition}: the table's next offset is {one.next_offset:,}, and the log ends at {one.log_end:,}",
            {"lag": one.lag},
        )
        for one in sorted(data.lag, key=lambda row: -row.lag)[:PARTITIONS_MAX]
    ]
    said = element("p", "offsets that the table does not hold yet, largest first", class_="muted")
    return _card("Lag", said, level_bars("Lag of each partition in offsets", given))


def _audit(data: PageData) -> Markup:
    if data.windows is None:
        return _card("Audit", element("p", "Not asked: add --audit to the command.", class_="muted"))
    by_tier: dict[tuple[str, str], list[WindowRow]] = defaultdict(list)
    for one in data.windows:
        by_tier[one.topic, one.tier].append(one)
    marks = {(one.topic, one.tier): one for one in data.marks}
    parts: list[Markup] = []
    for (topic, tier), windows in sorted(by_tier.items()):
        mark = marks.get((topic, tier))
        said = "complete until: not yet"
        if mark is not None and mark.complete_until_ms is not None:
            said = f"complete until {moment(mark.complete_until_ms)} UTC"
        if mark is not None and mark.blocked_by:
            said += f"; blocked by {mark.blocked_by}"
        parts += [element("h3", f"{topic}, {tier}"), element("p", said, class_="muted"), _calendar(windows)]
    keys = element(
        "p",
        "worst window of each hour, in UTC:",
        *(
            join_markup(_key(level), f"{name} {_GLYPHS[level]}".rstrip())
            for level, name in ((GOOD, "passed"), (WARNING, "not decided"), (BAD, "failed"))
        ),
        class_="muted",
    )
    return _card("Audit", keys, *parts)


def _calendar(windows: Iterable[WindowRow]) -> Markup:
    hours: dict[int, list[WindowRow]] = defaultdict(list)
    for one in windows:
        hours[one.start_ms // _HOUR_MS].append(one)
    days = sorted({hour // 24 for hour in hours})[-DAYS_MAX:]
    places = {day: number for number, day in enumerate(days)}
    cells = [
        _cell(places[hour // 24], hour, found)
        for hour, found in sorted(hours.items())
        if hour // 24 in places
    ]
    names = [f"{datetime.fromtimestamp(day * _DAY_MS / 1000, UTC):%Y-%m-%d}" for day in days]
    columns = [f"{hour:02}" if hour % 3 == 0 else "" for hour in range(24)]
    return calendar(
        "Verdicts on windows, days below each other and hours from left to right", names, columns, cells
    )


def _cell(row: int, hour: int, found: Sequence[WindowRow]) -> Cell:
    words = Counter(one.verdict for one in found)
    levels = {LEVELS.get(word, BAD) for word in words}
    level = next(one for one in (BAD, WARNING, GOOD) if one in levels)
    said = ", ".join(f"{count} {word}" for word, count in words.most_common())
    records = f"{sum(one.found for one in found):,} of {sum(one.expected for one in found):,} records"
    return Cell(row, hour % 24, level, _GLYPHS[level], f"{moment(hour * _HOUR_MS)}: {said}; {records}")


_COLUMNS: Final = ("run", "kind", "committed", "ranges")
_NUMBERS: Final = ("rows", "dead", "lost", "bytes", "seconds", "rows/s", "version")


def _table(data: PageData) -> Markup:
    head = element(
        "tr",
        element("th", "#", class_="number"),
        *(element("th", name) for name in _COLUMNS),
        *(element("th", name, class_="number") for name in _NUMBERS),
    )
    return _card(
        "Runs",
        element(
            "p", "Times are UTC. A click on a command marks the whole of it, to be copied.", class_="muted"
        ),
        element(
            "table",
            element("thead", head),
            element("tbody", *(_row(data, one) for one in reversed(data.runs))),
        ),
    )


def _row(data: PageData, one: RunRow) -> Markup:
    command = data.replay_command(one)
    speed = one.rows_a_second
    said = (element("code", one.run), one.kind, moment(one.committed_ms), _ranges(one))
    numbers = [
        "-" if one.rows is None else f"{one.rows:,}",
        f"{one.dead:,}",
        f"{one.lost:,}",
        size(one.size_bytes),
        f"{one.seconds:,.1f}",
        "-" if speed is None else f"{speed:,.0f}",
        f"{one.version}",
    ]
    first = element(
        "tr",
        element("td", f"{one.number:,}", class_="number", data_name="#"),
        *(
            element("td", text, class_=name, data_name=name)
            for name, text in zip(_COLUMNS, said, strict=True)
        ),
        *(
            element("td", text, class_="number", data_name=name)
            for name, text in zip(_NUMBERS, numbers, strict=True)
        ),
    )
    if command is None:
        return first
    second = element(
        "tr", element("td"), element("td", element("code", command, class_="command"), colspan=11)
    )
    return join_markup(first, second)


def _ranges(one: RunRow) -> str:
    more = len(one.ranges) - RANGES_MAX
    shown = ", ".join(one.ranges[:RANGES_MAX]) or "-"
    return f"{shown} and {more:,} more" if more > 0 else shown


def shorten_label(label: str) -> str:
    """The end of a label, where a partition's number is."""
    return label if len(label) <= _LABEL_MAX else "…" + label[1 - _LABEL_MAX :]


def _card(title: str, *content: Markup) -> Markup:
    return element("section", element("h2", title), *content, class_="card")


def _key(kind: str) -> Markup:
    return element("span", class_=f"key {kind}")
