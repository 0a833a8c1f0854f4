"""The plots, each an SVG of its own. Colours come from the page's style, so that they follow light and dark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from odradek_pipeline.loading.page.marks import Markup, element, join_markup

_WIDTH: Final = 720
_HEIGHT: Final = 200
_LEFT: Final = 64
_RIGHT: Final = 12
_TOP: Final = 12
_BOTTOM: Final = 28
_CELL: Final = 20
_GAP: Final = 2
_BAR_MAX: Final = 28.0
_LABELS_MAX: Final = 12


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its label below, what it says when it is pointed at, and its parts from below, by class."""

    label: str
    title: str
    parts: Mapping[str, float]

    @property
    def total(self) -> float:
        return sum(self.parts.values())


def bars(about: str, given: Sequence[Bar]) -> Markup:
    """Upright bars from left to right, with an axis that begins at 0. `about` is for readers that do not see it."""
    top = nice_top(max((one.total for one in given), default=0))
    height, width = _HEIGHT - _TOP - _BOTTOM, _WIDTH - _LEFT - _RIGHT
    step = width / max(len(given), 1)
    thick = min(step * 0.8, _BAR_MAX)
    drawn: list[Markup] = [_line_at(_TOP + height * (1 - part), top * part) for part in (0, 0.5, 1)]
    every = math.ceil(len(given) / _LABELS_MAX)
    for number, one in enumerate(given):
        left = _LEFT + step * number + (step - thick) / 2
        bottom = float(_TOP + height)
        pieces: list[Markup] = []
        for kind, value in one.parts.items():
            tall = height * value / top
            if value:
                pieces.append(
                    element("rect", x=left, y=bottom - tall, width=thick, height=max(tall, 1.0), class_=kind)
                )
            bottom -= tall
        hover = element("rect", x=left, y=_TOP, width=thick, height=height, class_="hover")
        drawn.append(element("g", element("title", one.title), *pieces, hover))
        if number % every == 0:
            at = left + thick / 2
            drawn.append(element("text", one.label, x=at, y=_HEIGHT - 8, class_="axis", text_anchor="middle"))
    return _svg(about, _WIDTH, _HEIGHT, drawn)


def level_bars(about: str, given: Sequence[Bar]) -> Markup:
    """Bars that lie, one below the other, each with its label before and its value behind."""
    row, label, value = 24, 180, 90
    top = max((one.total for one in given), default=0) or 1
    room = _WIDTH - label - value
    drawn: list[Markup] = []
    for number, one in enumerate(given):
        y = number * row
        long = room * one.total / top
        kind = next(iter(one.parts), "")
        drawn.append(
            element(
                "g",
                element("title", one.title),
                element("text", one.label, x=label - 8, y=y + 16, class_="axis", text_anchor="end"),
                element("rect", x=label, y=y + 4, width=max(long, 1.0), height=row - 8, class_=kind),
                element("text", f"{one.total:,.0f}", x=label + long + 6, y=y + 16, class_="axis"),
            )
        )
    return _svg(about, _WIDTH, max(len(given), 1) * row, drawn)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a calendar. `glyph` says the same as its colour."""

    row: int
    column: int
    kind: str
    glyph: str
    title: str


def calendar(about: str, rows: Sequence[str], columns: Sequence[str], cells: Sequence[Cell]) -> Markup:
    """Cells in rows with a label before, and columns with a label above."""
    label, head = 92, 18
    step = _CELL + _GAP
    drawn: list[Markup] = [
        element("text", text, x=label + number * step + _CELL / 2, y=12, class_="axis", text_anchor="middle")
        for number, text in enumerate(columns)
        if text
    ]
    drawn += [
        element("text", text, x=label - 8, y=head + number * step + 14, class_="axis", text_anchor="end")
        for number, text in enumerate(rows)
    ]
    for one in cells:
        x, y = label + one.column * step, head + one.row * step
        drawn.append(
            element(
                "g",
                element("title", one.title),
                element("rect", x=x, y=y, width=_CELL, height=_CELL, rx=3, class_=one.kind),
                element("text", one.glyph, x=x + _CELL / 2, y=y + 14.5, class_="glyph", text_anchor="middle"),
            )
        )
    return _svg(about, label + len(columns) * step, head + len(rows) * step, drawn)


def nice_top(largest: float) -> float:
    """The end of an axis: 1, 2 or 5 with zeros, and not below `largest`."""
    if largest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= largest * 0.999999)


def format_number(value: float) -> str:
    """A number for an axis: `1.5k`, `20M`."""
    for power, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= power:
            return f"{value / power:g}{unit}"
    return f"{value:g}"


def _line_at(y: float, value: float) -> Markup:
    return join_markup(
        element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="grid"),
        element("text", format_number(value), x=_LEFT - 8, y=y + 4, class_="axis", text_anchor="end"),
    )


def _svg(about: str, width: float, height: float, drawn: Sequence[Markup]) -> Markup:
    return element(
        "svg",
        element("title", about),
        *drawn,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=float(width),
        height=float(height),
        role="img",
    )
