"""The page of runs: whole and well formed, with every text escaped, and nothing from elsewhere."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from odradek_pipeline.loading.page.charts import format_number, nice_top
from odradek_pipeline.loading.page.document import DAYS_MAX, PARTITIONS_MAX, render_page
from odradek_pipeline.loading.page.model import LagRow, MarkRow, PageData, RunRow, WindowRow, judge_table
from odradek_pipeline.loading.page.style import DARK, LIGHT, style

HOUR_MS = 3_600_000
BEGIN_MS = 1_772_323_200_000  # 2026-03-01T00:00:00Z
EVIL = "<script>alert('1')</script>\"&'"


def runs(count: int, seed: int = 1) -> list[RunRow]:
    chance = random.Random(seed)
    kinds = ("load", "load", "stream", "replay", "retry", "refresh")
    made = []
    for number in range(1, count + 1):
        start = BEGIN_MS + number * 20 * 60_000
        rows = chance.randrange(20_000, 400_000)
        kind = chance.choice(kinds)
        made.append(
            RunRow(
                number=number,
                run=f"20260301T{number:06d}Z-1f0c9a2b",
                kind=kind,
                started_ms=start,
                committed_ms=start + chance.randrange(5_000, 90_000),
                rows=0 if kind == "refresh" else rows,
                dead=chance.choice((0, 0, 0, rows // 20)),
                offsets=rows,
                lost=0,
                size_bytes=rows * 90,
                version=number,
                ranges=() if kind == "refresh" else (f"orders-0 {number}..{number + rows}", "orders-1 0..9"),
            )
        )
    return made


def windows(days: int, seed: int = 1) -> list[WindowRow]:
    chance = random.Random(seed)
    words = ["complete"] * 60 + ["late", "waiting", "missing", "stalled"]
    return [
        WindowRow("orders", "loaded", BEGIN_MS + number * HOUR_MS // 2, chance.choice(words), 1000, 990)
        for number in range(days * 48)
    ]


def sample() -> PageData:
    """A page with something of everything."""
    return PageData(
        output="s3a://lake/orders",
        output_format="delta",
        made_ms=BEGIN_MS + 9 * 24 * HOUR_MS,
        runs=runs(40),
        lag=[LagRow(f"orders-{one}", 1_000_000, 1_000_000 + one * 12_345) for one in range(6)],
        windows=windows(8),
        marks=[MarkRow("orders", "loaded", BEGIN_MS + 50 * HOUR_MS, "a window that is missing records")],
        options=("--bootstrap", "kafka:9092"),
    )


class Names(HTMLParser):
    """The elements of a page, with their attributes, and all its text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(text: str) -> Names:
    names = Names()
    names.feed(text)
    return names


def test_a_page_fetches_nothing_and_runs_nothing() -> None:
    text = render_page(sample())
    names = parsed(text)
    assert {name for name, _ in names.found} >= {"svg", "table", "style"}
    assert not {"script", "link", "img", "iframe", "a", "use"} & {name for name, _ in names.found}
    for _, attributes in names.found:
        assert not {name for name in attributes if name.startswith("on") or name in ("href", "src", "style")}
    assert "url(" not in text and "@import" not in text
    assert "default-src 'none'" in text
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}


def test_every_text_is_escaped() -> None:
    data = replace(
        sample(),
        output=EVIL,
        output_format=EVIL,
        runs=[replace(one, run=EVIL, kind=EVIL, ranges=(EVIL,)) for one in runs(2)],
        lag=[LagRow(EVIL, 0, 5)],
        windows=[WindowRow(EVIL, EVIL, BEGIN_MS, EVIL, 1, 1)],
        marks=[MarkRow(EVIL, EVIL, None, EVIL)],
    )
    names = parsed(render_page(data))
    assert "script" not in {name for name, _ in names.found}
    assert sum(EVIL in text for text in names.text) > 10
    for _, attributes in names.found:
        assert EVIL not in attributes.values()


def test_every_plot_is_a_whole_picture() -> None:
    pictures = re.findall(r"<svg.*?</svg>", render_page(sample()), flags=re.DOTALL)
    assert len(pictures) == 4  # rows, times, lag, and one calendar
    for one in pictures:
        root = ElementTree.fromstring(one)
        width, height = (float(root.attrib[name]) for name in ("width", "height"))
        for shape in root.iter("{http://www.w3.org/2000/svg}rect"):
            x, y, wide, tall = (float(shape.attrib[name]) for name in ("x", "y", "width", "height"))
            assert x >= 0 and x + wide <= width + 0.01 and y >= 0 and y + tall <= height + 0.01
    assert pictures[3].count("<rect") == 8 * 24


def test_each_run_has_its_command_to_replay() -> None:
    data = sample()
    evil = replace(data, output="a b'c", runs=[replace(data.runs[0], kind="load")])
    command = evil.replay_command(evil.runs[0])
    assert command == (
        "odradek-pipeline replay --output 'a b'\"'\"'c' --format delta --bootstrap kafka:9092 "
        f"--run {data.runs[0].run}"
    )
    assert any(command in text for text in parsed(render_page(evil)).text)
    for one in data.runs:
        assert (data.replay_command(one) is None) == (one.kind in ("refresh", "retry"))


@pytest.mark.parametrize(
    ("changed", "level", "said"),
    [
        ({}, "good", "Nothing lost"),
        ({"lag": [LagRow("t-0", 5, 6)]}, "warning", "1 offset behind the log"),
        (
            {"runs": [replace(runs(1)[0], kind="load", dead=1200)]},
            "warning",
            "1,200 dead letters written, 0 retried",
        ),
        ({"runs": [replace(runs(1)[0], dead=0, lost=3)]}, "bad", "3 offsets gone from the log"),
        ({"windows": [WindowRow("t", "loaded", 0, "waiting", 1, 0)]}, "warning", "1 window of the audit not"),
        ({"windows": [WindowRow("t", "loaded", 0, "changed", 1, 1)]}, "bad", "1 window of the audit failed"),
        ({"windows": [WindowRow("t", "loaded", 0, "unheard of", 1, 1)]}, "bad", "failed"),
    ],
)
def test_the_verdict_is_the_worst_of_all(changed: dict[str, Any], level: str, said: str) -> None:
    data = replace(PageData("t", "parquet", 0, [replace(one, dead=0) for one in runs(3)]), **changed)
    found, sentences = judge_table(data)
    assert found == level and said in " ".join(sentences)
    assert f"verdict {level}" in render_page(data)


def test_an_empty_page_and_a_long_audit_are_pages_too() -> None:
    assert "no runs yet" in render_page(PageData("t", "parquet", 0, []))
    text = render_page(replace(sample(), windows=windows(DAYS_MAX + 10)))
    assert "2026-03-11" in text and "2026-03-10" not in text.split("<table>")[0].split("Audit")[1]


def test_what_is_long_is_cut_and_said() -> None:
    many = tuple(f"orders-{one} 0..9" for one in range(1000))
    lag = [LagRow(f"{'a' * 60}-{one}", 0, one) for one in range(100)]
    text = render_page(replace(sample(), runs=[replace(runs(1)[0], ranges=many)], lag=lag))
    assert "orders-7 0..9 and 992 more" in text and "orders-8 0..9" not in text
    labels = re.findall(r">(…a+-\d+)</text>", text)
    assert len(labels) == PARTITIONS_MAX and labels[0].endswith("-99") and len(labels[0]) == 28


def test_axes_end_at_round_numbers() -> None:
    assert [nice_top(one) for one in (0, 0.3, 1, 1.1, 420, 500, 501)] == [1, 0.5, 1, 2, 500, 500, 1000]
    assert [format_number(one) for one in (0, 0.5, 500, 1500, 2e6, 5e9)] == [
        "0",
        "0.5",
        "500",
        "1.5k",
        "2M",
        "5G",
    ]


def test_light_and_dark_name_the_same_colours() -> None:
    assert LIGHT.keys() == DARK.keys()
    assert set(re.findall(r"var\(--([a-z]+)\)", style())) <= LIGHT.keys()


def test_a_narrow_page_names_the_value_of_each_cell() -> None:
    names = Names()
    names.feed(render_page(sample()))
    heads = [
        "#",
        "run",
        "kind",
        "committed",
        "ranges",
        "rows",
        "dead",
        "lost",
        "bytes",
        "seconds",
        "rows/s",
        "version",
    ]
    said = [attributes.get("data-name") for name, attributes in names.found if name == "td"]
    named = [name for name in said if name is not None]
    assert named == heads * 40
    assert "@media (max-width: 900px)" in style()
