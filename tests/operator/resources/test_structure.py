"""Structures declared once: every mistake named with its path, there and back again, and the schema that follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import pytest

from odradek.foundation.settings.broker_settings import USED
from odradek_operator.resources.cluster import ClusterSpec
from odradek_operator.resources.configuration import Configuration
from odradek_operator.resources.reference import files
from odradek_operator.resources.schema import Choice, Duration, Flag, Quantity, Text, Whole, quantity_value
from odradek_operator.resources.structure import (
    Doc,
    InvalidResource,
    Listing,
    Nested,
    Rule,
    Table,
    parse,
    render,
)

CONFIGURATION = Configuration(
    [USED[key] for key in ("min.insync.replicas", "log.cleanup.policy", "log.cleaner.enable")]
)


class Colour(StrEnum):
    RED = "Red"
    BLUE = "Blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    name: Annotated[str, Text(max_length=5), Doc("A name.")]
    count: Annotated[int, Whole(minimum=1, maximum=9), Doc("A number.")] = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    RULES: ClassVar[tuple[Rule, ...]] = (Rule("self.size > 0", "too small"),)

    colour: Annotated[Colour, Choice(Colour), Doc("A colour.")] = Colour.RED
    is_wide: Annotated[bool | None, Flag(), Doc("Whether it is wide.")] = None
    age: Annotated[int, Duration(), Doc("A time.")] = 90_000
    size: Annotated[str, Quantity(), Doc("A size.")] = "1Gi"
    inner: Annotated[Inner | None, Nested(Inner), Doc("One.")] = None
    more: Annotated[tuple[Inner, ...], Listing(Nested(Inner), max_items=2, keys=("name",)), Doc("More.")] = ()
    labels: Annotated[Mapping[str, str] | None, Table(Text()), Doc("Labels.")] = None
    config: Annotated[Mapping[str, str], CONFIGURATION, Doc("Settings.")] = field(default_factory=dict)


def test_what_is_given_comes_back() -> None:
    given: dict[str, Any] = {
        "colour": "Blue",
        "isWide": False,
        "age": "2h",
        "size": "500m",
        "inner": {"name": "a", "count": 9},
        "more": [{"name": "b", "count": 1}],
        "labels": {"x": "y"},
        "config": {
            "min.insync.replicas": 2,
            "log.cleanup.policy": "compact,delete",
            "log.cleaner.enable": False,
        },
    }
    value = parse(Outer, given)
    assert value.colour is Colour.BLUE and value.age == 7_200_000 and value.more[0].count == 1
    assert value.config == {
        "min.insync.replicas": "2",
        "log.cleanup.policy": "compact,delete",
        "log.cleaner.enable": "false",
    }
    assert render(value) == given


def test_what_is_left_out_takes_its_default() -> None:
    value = parse(Outer, {"inner": {"name": "a"}, "labels": None})
    assert (value.colour, value.is_wide, value.age, value.size) == (Colour.RED, None, 90_000, "1Gi")
    assert value.inner is not None and value.inner.count == 3
    assert value.labels is None


def test_every_mistake_is_named_with_its_path() -> None:
    with pytest.raises(InvalidResource) as caught:
        parse(
            Outer,
            {
                "colour": "Green",
                "isWide": "yes",
                "age": "soon",
                "size": "big",
                "inner": {"count": 10},
                "more": [{"name": "toolong"}, {"name": "b", "count": True}, {"name": "c"}],
                "config": {"min.insync.replica": 1, "log.cleanup.policy": "shred"},
            },
        )
    paths = [problem.partition(":")[0] for problem in caught.value.problems]
    assert paths == [
        "spec.colour", "spec.isWide", "spec.age", "spec.size", "spec.inner.name", "spec.inner.count", "spec.more",
        "spec.more[0].name", "spec.more[1].count", "spec.config", "spec.config",
    ]  # fmt: skip
    assert "did you mean min.insync.replicas?" in str(caught.value)


def test_the_schema_says_the_same() -> None:
    schema: Any = Nested(Outer).openapi()
    properties = schema["properties"]
    assert properties["colour"] == {
        "type": "string",
        "enum": ["Red", "Blue"],
        "default": "Red",
        "description": "A colour.",
    }
    assert "default" not in properties["isWide"]
    assert properties["age"]["default"] == "90s"
    assert properties["inner"]["required"] == ["name"]
    assert properties["more"]["x-kubernetes-list-map-keys"] == ["name"]
    number = properties["config"]["properties"]["min.insync.replicas"]
    assert number["x-kubernetes-int-or-string"] is True and number["minimum"] == 1
    assert properties["config"]["properties"]["log.cleaner.enable"]["type"] == "boolean"
    assert schema["x-kubernetes-validations"] == [{"rule": "self.size > 0", "message": "too small"}]


def test_a_field_without_a_schema_is_a_mistake_of_ours() -> None:
    @dataclass(frozen=True)
    class Bare:
        name: str = ""

    with pytest.raises(TypeError, match=r"Bare\.name needs"):
        Nested(Bare).openapi()


@pytest.mark.parametrize(
    ("text", "value"), [("2Gi", 2**31), ("500m", 0.5), ("1e3", 1000), ("1.5", 1.5), ("3k", 3000)]
)
def test_quantities_are_numbers(text: str, value: float) -> None:
    assert quantity_value(text) == value


def test_a_part_has_its_own_default_where_it_is_used() -> None:
    """The CRD, what is read from a resource that gives a part of it, and the reference page say the same."""
    part: Any = Nested(ClusterSpec).openapi()
    for name in ("zookeeper", "servers", "storage", "size"):
        part = part["properties"][name]
    assert part["default"] == "2Gi"
    given = {
        "zookeeper": {"servers": {"storage": {"class": "fast"}}},
        "brokers": {"storage": {"class": "fast"}},
    }
    spec = parse(ClusterSpec, given)
    assert spec.zookeeper.servers is not None
    assert (spec.zookeeper.servers.storage.size, spec.brokers.storage.size) == ("2Gi", "10Gi")
    page = files()["docs/reference/resources.md"]
    assert '| `spec.zookeeper.servers.storage.size` | quantity | `"2Gi"` |' in page
