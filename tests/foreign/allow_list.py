"""The allow-list of a suite: what is expected of each of its methods, and why.

A file is TOML. `[reasons]` names what keeps tests from judging a foreign broker. Each class has a table of its own:

    [TopicCommandTest]
    passes = ["testCreate"]                        must pass
    fails.testAlter = "the cause"                  fails here, and passes with Kafka
    cannot_judge.inside = ["testReplicas"]         `inside` is one of `reasons`

    [ShareConsumerTest]
    all_cannot_judge = "inside"                    the same for every method
    [StreamsGroupCommandTest]
    not_played = "why not yet"                     all methods that the table does not name otherwise

Classes are named without their package.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from tests.foreign.play import FAILED, PASSED, SILENT, Verdict


class Kind(Enum):
    PASSES = "passes"
    FAILS = "fails"
    CANNOT_JUDGE = "cannot judge"
    NOT_PLAYED = "not played"


class Expected(NamedTuple):
    kind: Kind
    reason: str = ""


class AllowListError(Exception):
    """The file does not say of each method of the suite exactly one thing."""


def read_allow_list(file: Path, methods: Sequence[str]) -> dict[str, Expected]:
    """What is expected of each of `methods` (class#method). Raises AllowListError, which names all that is wrong."""
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    reasons = tables.pop("reasons", {})
    expected: dict[str, Expected] = {}
    wrong = [
        f"{name}: there is no such class" for name in tables.keys() - {short_class(one) for one in methods}
    ]
    for method in methods:
        table = tables.get(short_class(method), {})
        said = list(_said(table, method.partition("#")[2], reasons))
        if len(said) == 1:
            expected[method] = said[0]
        else:
            wrong.append(f"{short_name(method)}: the list says {len(said)} things of it, and has to say one")
    known = {(short_class(one), one.partition("#")[2]) for one in methods}
    wrong += [
        f"{name}.{method}: there is no such method, or no such reason"
        for name, table in tables.items()
        for method in _named(table, reasons)
        if (name, method) not in known
    ]
    if wrong:
        raise AllowListError(f"{file.name}:\n  " + "\n  ".join(sorted(wrong)))
    return expected


def _said(table: Mapping[str, Any], method: str, reasons: Mapping[str, str]) -> Sequence[Expected]:
    said = [Expected(Kind.PASSES)] * table.get("passes", []).count(method)
    if method in table.get("fails", {}):
        said.append(Expected(Kind.FAILS, table["fails"][method]))
    for name, named in table.get("cannot_judge", {}).items():
        said += [Expected(Kind.CANNOT_JUDGE, reasons.get(name, name))] * named.count(method)
    if "all_cannot_judge" in table:
        said.append(Expected(Kind.CANNOT_JUDGE, reasons.get(table["all_cannot_judge"], "")))
    if not said and "not_played" in table:
        said.append(Expected(Kind.NOT_PLAYED, table["not_played"]))
    return said


def _named(table: Mapping[str, Any], reasons: Mapping[str, str]) -> Sequence[str]:
    """The methods that a class's table names, and the reasons that `reasons` lacks."""
    given = table.get("cannot_judge", {})
    return [
        *table.get("passes", []),
        *table.get("fails", {}),
        *(method for named in given.values() for method in named),
        *(given.keys() - reasons.keys()),
        *({table["all_cannot_judge"]} - reasons.keys() if "all_cannot_judge" in table else ()),
    ]


def short_class(method: str) -> str:
    return method.partition("#")[0].rpartition(".")[2]


def short_name(method: str) -> str:
    return f"{short_class(method)}.{method.partition('#')[2]}"


def surprises(expected: Mapping[str, Expected], seen: Mapping[str, Verdict]) -> list[str]:
    """A line for each method that did not show what the list says, of those that it expects to pass or to fail."""
    found = []
    for method, verdict in seen.items():
        kind, reason = expected[method]
        name = short_name(method)
        if kind is Kind.PASSES and verdict.kind != PASSED:
            found.append(f"{name} {verdict.kind}, and has to pass: {verdict.message[:300]}")
        elif kind is Kind.FAILS and verdict.kind == PASSED:
            found.append(f"{name} passes now: move it from `fails` to `passes` (it was: {reason})")
        elif kind is Kind.FAILS and verdict.kind == SILENT:
            found.append(f"{name} says nothing, and is listed to fail: {verdict.message[:300]}")
        elif kind in (Kind.CANNOT_JUDGE, Kind.NOT_PLAYED) and verdict.kind == PASSED:
            found.append(f"{name} passes, and is listed as one that {kind.value}: {reason}")
        elif kind is Kind.NOT_PLAYED and verdict.kind in (FAILED, SILENT):
            found.append(f"{name} {verdict.kind}, and is not in the list yet: {verdict.message[:300]}")
    return found
