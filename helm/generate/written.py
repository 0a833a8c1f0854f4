"""Writes a chart's declared values: as `values.yaml`, as `values.schema.json`, and as the table of its README."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

import yaml

from helm.generate.declaration import ChartValues, Section, Value, walk

MADE = "Made by `make reference` from helm/generate; edits here are lost."
TABLE_BEGIN = f"<!-- values: {MADE} -->"
TABLE_END = "<!-- end of values -->"
_WIDTH = 118


def values_yaml(chart: ChartValues) -> str:
    """The text of values.yaml: every value with its default and, above it, its text."""
    # The first line lets editors check and complete values as they are typed.
    lines = ["# yaml-language-server: $schema=values.schema.json", f"# {chart.title}", f"# {MADE}"]
    lines += _yaml_lines(chart.content, indent="")
    return "\n".join(lines) + "\n"


def _yaml_lines(content: tuple[Value | Section, ...], *, indent: str) -> Iterator[str]:
    for item in content:
        if isinstance(item, Section) or not indent:
            yield ""
        yield from _comment(item.doc, indent)
        if isinstance(item, Section):
            yield f"{indent}{item.name}:"
            yield from _yaml_lines(item.content, indent=f"{indent}  ")
            continue
        text = yaml.safe_dump({item.name: item.default}, sort_keys=False, width=_WIDTH, allow_unicode=True)
        yield from (f"{indent}{line}" for line in text.rstrip("\n").split("\n"))
        yield from (f"{indent}#   {line}".rstrip() for line in item.example.splitlines())


def _comment(text: str, indent: str) -> Iterator[str]:
    for line in textwrap.wrap(text, _WIDTH - len(indent) - 2, break_on_hyphens=False):
        yield f"{indent}# {line}"


def values_schema(chart: ChartValues) -> str:
    """The text of values.schema.json."""
    root: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": MADE,
        "title": chart.title,
        **_object(chart.content, rules=chart.rules, is_open=False),
    }
    if chart.definitions:
        root["$defs"] = dict(chart.definitions)
    return json.dumps(root, indent=1, ensure_ascii=False) + "\n"


def _object(content: tuple[Value | Section, ...], *, rules: tuple[Any, ...], is_open: bool) -> dict[str, Any]:
    written: dict[str, Any] = {
        "type": "object",
        "additionalProperties": is_open,
        "properties": {item.name: _schema(item) for item in content},
    }
    if rules:
        written["allOf"] = list(rules)
    return written


def _schema(item: Value | Section) -> dict[str, Any]:
    if isinstance(item, Section):
        return {"description": item.doc, **_object(item.content, rules=item.rules, is_open=item.open)}
    return {"description": item.doc, **item.schema}


def table(chart: ChartValues) -> str:
    """The table of a chart's README, with the marks around it."""
    rows = [TABLE_BEGIN, "", "| value | default | meaning |", "| --- | --- | --- |"]
    for path, item in walk(chart.content):
        if isinstance(item, Value):
            default = json.dumps(item.default, ensure_ascii=False)
            rows.append(f"| `{path}` | `{_cell(default)}` | {_cell(item.doc)} |")
    return "\n".join([*rows, "", TABLE_END])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def with_table(readme: str, chart: ChartValues) -> str:
    """A README with its table rewritten.

    Raises ValueError when the README lacks the two marks between which the table belongs.
    """
    begin, end = readme.find(TABLE_BEGIN), readme.find(TABLE_END)
    if begin < 0 or end < begin:
        raise ValueError(
            f"the README of {chart.chart} has no place for its values: put these two lines where the table "
            f"belongs:\n{TABLE_BEGIN}\n{TABLE_END}"
        )
    return readme[:begin] + table(chart) + readme[end + len(TABLE_END) :]
