"""The files that the declarations define: definitions for the chart and `kubectl apply`, and the reference page.

`python -m odradek_operator.resources.reference` (`make reference`) writes them; a test holds them equal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from odradek_operator.foundation import versions
from odradek_operator.foundation.metrics import METRICS
from odradek_operator.resources.definition import Definition
from odradek_operator.resources.kinds import DEFINITIONS
from odradek_operator.resources.structure import Listing, Nested, StructureField, fields_of

_MADE_YAML = "# Made by `make reference` from odradek_operator.resources; edits here are lost.\n"
_MADE_PAGE = "<!-- Made by `make reference` from odradek_operator.resources; edits here are lost. -->"


def files() -> dict[str, str]:
    """Every text that is made, by path from the repository's root."""
    made = {
        "docs/reference/resources.md": _page(),
        "docs/reference/operator-metrics.md": _metrics_page(),
        "docs/reference/versions.md": versions.page(),
    }
    for definition in DEFINITIONS:
        text = yaml.safe_dump(definition.manifest(), sort_keys=False, width=120, allow_unicode=True)
        made[f"manifests/crds/{definition.plural}.yaml"] = _MADE_YAML + text
        # The chart's template puts labels and its policy of keeping them into this text.
        made[f"helm/odradek-operator/files/crds/{definition.plural}.yaml"] = _MADE_YAML + text
    return made


def _page() -> str:
    lines = [
        _MADE_PAGE,
        "# Resources",
        "",
        "What `kubectl explain` shows of the kinds of `odradek.io/v1`, on one page. Where no default stands, a",
        "field may be left out. The API server checks all of it, and the rules, when a resource is written.",
    ]
    for definition in DEFINITIONS:
        lines += ["", f"## {definition.kind}", "", definition.doc, ""]
        lines += [
            f"Short name `{definition.short_name}`; `kubectl get {definition.plural}` shows "
            + ", ".join(column.name for column in definition.columns if not column.priority)
            + ".",
            "",
            "| field | type | default | meaning |",
            "| --- | --- | --- | --- |",
        ]
        lines += list(_rows(fields_of(definition.spec), "spec"))
        if rules := list(_rules(definition)):
            lines += ["", "Rules:", "", *rules]
        lines += ["", "| status | type | meaning |", "| --- | --- | --- |"]
        lines += list(_status_rows(definition.status, "status"))
    return "\n".join(lines) + "\n"


def _metrics_page() -> str:
    lines = [
        _MADE_PAGE.replace("resources;", "foundation.metrics;"),
        "# The operator's metrics",
        "",
        "Served at `/metrics` of the operator's port 8080, in Prometheus' text format. "
        "Brokers have a page of [their own](metrics.md).",
        "",
        "| metric | kind | labels | meaning |",
        "| --- | --- | --- | --- |",
    ]
    for metric in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.name}` | {metric.kind.value} | {labels} | {metric.doc} |")
    return "\n".join(lines) + "\n"


def _rows(fields: Iterable[StructureField], path: str) -> Iterator[str]:
    for field in fields:
        at = f"{path}.{field.name}"
        yield f"| `{at}` | {_type(field)} | {_default(field)} | {_cell(field.doc)} |"
        inner, suffix = _inner(field)
        if inner is not None:
            yield from _rows(inner.fields(), at + suffix)


def _status_rows(structure: type[object], path: str) -> Iterator[str]:
    for field in fields_of(structure):
        at = f"{path}.{field.name}"
        yield f"| `{at}` | {_type(field)} | {_cell(field.doc)} |"
        inner, suffix = _inner(field)
        if inner is not None:
            yield from _status_rows(inner.structure, at + suffix)


def _rules(definition: Definition) -> Iterator[str]:
    messages = [rule.message for rule in definition.rules]
    pending = [definition.spec]
    while pending:
        structure = pending.pop(0)
        messages += [rule.message for rule in getattr(structure, "RULES", ())]
        pending += [
            inner.structure for field in fields_of(structure) if (inner := _inner(field)[0]) is not None
        ]
    for message in dict.fromkeys(messages):
        yield f"- {message}"


def _inner(field: StructureField) -> tuple[Nested | None, str]:
    match field.schema:
        case Nested() as nested:
            return nested, ""
        case Listing(item=Nested() as nested):
            return nested, "[]"
    return None, ""


def _type(field: StructureField) -> str:
    return field.schema.shown or "text"


def _default(field: StructureField) -> str:
    if field.required:
        return "*required*"
    # A part's default is that of its fields, which have rows of their own.
    if field.default is None or field.default in ({}, []) or isinstance(field.schema, Nested):
        return ""
    return f"`{json.dumps(field.default)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def write(root: Path) -> None:
    """Write all of them below `root`."""
    for path, text in files().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
