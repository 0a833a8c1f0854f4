"""How a chart's values are declared: one tree of sections and values, each with its default, its schema and its text.

`values.yaml`, `values.schema.json` and the table in a chart's README all say what may be set. They would differ as soon
as one of them is edited by hand. So they are written from this tree (`written.py`), and a test compares. Rules across
fields are JSON Schema as well (`rules`): Helm then refuses a bad combination before anything reaches the cluster.

Types that Kubernetes defines itself (affinity, volumes, …) are declared as objects or lists and no deeper: the API
server checks them, by its own version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Value:
    """One value that a user may set."""

    name: str
    default: Any
    schema: Schema
    doc: str
    """Its effect in one or two sentences; shown in all three files."""
    example: str = ""
    """YAML shown as a comment below a default that is empty."""


@dataclass(frozen=True, slots=True)
class Section:
    """Values under one key; nothing else may stand there unless it is `open`."""

    name: str
    doc: str
    content: tuple[Value | Section, ...]
    rules: tuple[Schema, ...] = ()
    """Conditions across the section's values, as members of JSON Schema's `allOf`."""
    open: bool = False


@dataclass(frozen=True, slots=True)
class ChartValues:
    """All values of a chart."""

    chart: str
    title: str
    content: tuple[Value | Section, ...]
    rules: tuple[Schema, ...] = ()
    definitions: Mapping[str, Schema] = field(default_factory=dict)
    """Schemas that values refer to as `#/$defs/NAME`."""


def walk(content: tuple[Value | Section, ...], above: str = "") -> Iterator[tuple[str, Value | Section]]:
    """Every section and value with its path from the root, in the order of declaration."""
    for item in content:
        path = f"{above}{item.name}"
        yield path, item
        if isinstance(item, Section):
            yield from walk(item.content, f"{path}.")


# The few types that values are made of.

BOOLEAN: Schema = {"type": "boolean"}
TEXT: Schema = {"type": "string"}
OBJECT: Schema = {"type": "object"}
OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
TEXTS: Schema = {"type": "array", "items": {"type": "string", "minLength": 1}}
STRING_MAP: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
NAME: Schema = {"type": "string", "maxLength": 63, "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"}
DURATION: Schema = {"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d))+$"}
PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
COUNT_OR_PERCENT: Schema = {
    "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+%$"}]
}


def integer(minimum: int, maximum: int | None = None) -> Schema:
    """A whole number within these bounds, both included."""
    bounds = {"type": "integer", "minimum": minimum}
    return bounds if maximum is None else {**bounds, "maximum": maximum}


def one_of(*words: str) -> Schema:
    """One of these words."""
    return {"type": "string", "enum": list(words)}
