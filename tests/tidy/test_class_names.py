"""A class's name is defined once in a package: one name is one thing. A table has the exceptions, each with its reason.

A private class belongs to its module, and is left out.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.checkout import ROOT, named, sources

# Written by `odradek.broker.requests.request_types` from Kafka's schemas, with Kafka's names.
_GENERATED: Final = [ROOT / "broker/odradek/wire/protocol" / part for part in ("requests", "responses")]

_SCHEMAS: Final = "Kafka's schemas have the name in several messages, and the classes are generated."
_TWINS: Final = "The same public client for threads and for asyncio, each in a module of its own."

# By package: each name that several classes have, how many do, and why.
EXCEPTIONS: Final[Mapping[str, Mapping[str, tuple[int, str]]]] = {
    "broker/odradek": {
        "Admin": (2, _TWINS),
        "Client": (2, _TWINS),
        "Consumer": (3, f"{_TWINS} The third makes consumers in Kafka's documents."),
        "ConsumerConnector": (2, _TWINS),
        "Cursor": (2, _SCHEMAS),
        "Delivery": (2, _TWINS),
        "EntityData": (2, _SCHEMAS),
        "EntryData": (2, _SCHEMAS),
        "FetchRequest": (
            2,
            "The request as brokers read it, and that of the SimpleConsumer in Kafka's documents.",
        ),
        "KeyValue": (2, _SCHEMAS),
        "Message": (2, "The one that the wire's messages inherit, and the payload in Kafka's documents."),
        "PartitionData": (2, _SCHEMAS),
        "Producer": (4, f"{_TWINS} Two are those of Kafka's documents."),
        "ShareConsumer": (2, _TWINS),
        "SimpleConsumer": (2, _TWINS),
        "StateBatch": (2, _SCHEMAS),
        "StreamsGroupHeartbeatEndpoint": (2, _SCHEMAS),
        "StreamsGroupHeartbeatTaskIds": (2, _SCHEMAS),
        "Subtopology": (2, _SCHEMAS),
        "TaskIds": (2, _SCHEMAS),
        "TaskOffset": (2, _SCHEMAS),
        "TopicData": (2, _SCHEMAS),
        "TopicPartitions": (2, _SCHEMAS),
        "Topology": (2, _SCHEMAS),
        "TransactionState": (2, "Kafka's term for a row of DescribeTransactions and for the state's number."),
    },
    "operator/odradek_operator": {},
    "pipeline/odradek_pipeline": {},
}


def classes(paths: Iterable[Path]) -> Iterator[tuple[str, Path, int]]:
    """(name, file, line) of each class that is not private."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, path, node.lineno


def wrong(found: Iterable[tuple[str, Path, int]], exceptions: Mapping[str, tuple[int, str]]) -> list[str]:
    """Each name that several classes have without an exception, and each exception that is out of date."""
    places: dict[str, list[str]] = {}
    for name, path, line in found:
        places.setdefault(name, []).append(named(path, line))
    errors = []
    for name in sorted({*places, *exceptions}):
        count, allowed = len(places.get(name, ())), exceptions.get(name, (1, ""))[0]
        if count > allowed:
            errors.append(
                f"{name} is the name of {count} classes: {', '.join(places[name])}. Rename all but one"
            )
        elif count < allowed:
            errors.append(f"{name} is the name of {count} classes, not {allowed}. Correct its exception")
    return errors


@pytest.mark.thorough
@pytest.mark.parametrize("package", EXCEPTIONS)
def test_a_class_name_is_defined_once(package: str) -> None:
    assert wrong(classes(sources(package)), EXCEPTIONS[package]) == []


@pytest.mark.thorough
def test_the_operator_and_the_pipeline_name_no_class_as_others_do() -> None:
    places: dict[str, list[str]] = {}
    for name, path, line in classes(sources(*EXCEPTIONS)):
        places.setdefault(name, []).append(named(path, line))
    shared = {
        name: found
        for name, found in places.items()
        if len(found) > 1 and not all(one.startswith("broker/") for one in found)
    }
    assert shared == {}, "rename the class of the operator or the pipeline"


@pytest.mark.thorough
def test_names_of_schemas_are_generated_alone() -> None:
    of_schemas = {name for name, (_, why) in EXCEPTIONS["broker/odradek"].items() if why is _SCHEMAS}
    written = Counter(
        name
        for name, path, _ in classes(sources("broker/odradek"))
        if not any(path.is_relative_to(folder) for folder in _GENERATED)
    )
    assert [name for name in of_schemas if written[name]] == []


def test_a_second_class_and_an_old_exception_are_found(tmp_path: Path) -> None:
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text("class Run:\n    class Row: ...\nclass _Own: ...\n")
    second.write_text("class _Own: ...\nclass Row: ...\n")
    found = list(classes([first, second]))
    assert wrong(found, {"Row": (2, "why")}) == []
    assert wrong(found, {}) == ["Row is the name of 2 classes: first.py:2, second.py:2. Rename all but one"]
    old = wrong(found, {"Row": (2, "why"), "Run": (2, "why"), "Gone": (2, "why")})
    assert [error.partition(" ")[0] for error in old] == ["Gone", "Run"]
