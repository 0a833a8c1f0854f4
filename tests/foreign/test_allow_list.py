"""The allow-list says of each method one thing, and what tests show is compared with it."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.foreign.allow_list import AllowListError, Expected, Kind, read_allow_list, surprises
from tests.foreign.keeper import Keeper
from tests.foreign.play import FAILED, PASSED, SILENT, Shown, verdicts

METHODS = [
    f"org.example.{name}" for name in ("ATest#one", "ATest#two", "ATest#three", "BTest#four", "CTest#five")
]
LIST = """
[reasons]
inside = "an object inside Kafka's broker"

[ATest]
passes = ["one"]
fails.two = "the wording"
cannot_judge.inside = ["three"]

[BTest]
all_cannot_judge = "inside"

[CTest]
not_played = "not played yet"
"""
ONE, TWO, THREE, FOUR, FIVE = METHODS


def expected(tmp_path: Path, text: str = LIST) -> dict[str, Expected]:
    file = tmp_path / "suite.toml"
    file.write_text(text)
    return read_allow_list(file, METHODS)


def shown(*statuses: str, test: str = ONE) -> Sequence[Shown]:
    return [Shown(test, status) for status in statuses]


def verdict_of(*statuses: str) -> str:
    return verdicts([ONE], shown(*statuses))[ONE].kind


def test_each_method_has_its_line(tmp_path: Path) -> None:
    assert expected(tmp_path) == {
        ONE: Expected(Kind.PASSES),
        TWO: Expected(Kind.FAILS, "the wording"),
        THREE: Expected(Kind.CANNOT_JUDGE, "an object inside Kafka's broker"),
        FOUR: Expected(Kind.CANNOT_JUDGE, "an object inside Kafka's broker"),
        FIVE: Expected(Kind.NOT_PLAYED, "not played yet"),
    }


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ('passes = ["one"]', "passes = []", "ATest.one: the list says 0 things"),
        ('passes = ["one"]', 'passes = ["one", "two"]', "ATest.two: the list says 2 things"),
        ('passes = ["one"]', 'passes = ["one", "gone"]', "ATest.gone: there is no such method"),
        ("[CTest]", "[DTest]", "DTest: there is no such class"),
        ('all_cannot_judge = "inside"', 'passes = ["four"]\ncannot_judge.outside = []', "BTest.outside"),
    ],
)
def test_a_list_without_a_method_or_with_an_unknown_one_is_refused(
    tmp_path: Path, old: str, new: str, wrong: str
) -> None:
    with pytest.raises(AllowListError, match=wrong):
        expected(tmp_path, LIST.replace(old, new))


def test_a_method_fails_when_any_of_its_tests_did_or_has_not_ended() -> None:
    assert verdict_of("STARTED", "SUCCESSFUL", "SKIPPED") == PASSED
    assert verdict_of("STARTED", "SUCCESSFUL", "STARTED", "FAILED") == FAILED
    assert verdict_of("STARTED", "SUCCESSFUL", "STARTED") == FAILED
    assert verdict_of("STARTED", "ABORTED") == SILENT
    assert verdict_of("SKIPPED") == SILENT
    assert verdict_of() == FAILED, "it was asked for and never ran"
    of_class = verdicts(
        [ONE, FOUR], [*shown("FAILED", test="org.example.ATest"), *shown("SUCCESSFUL", test=FOUR)]
    )
    assert (of_class[ONE].kind, of_class[FOUR].kind) == (FAILED, PASSED), "its class could not begin"


def test_what_is_not_as_listed_is_named(tmp_path: Path) -> None:
    listed = expected(tmp_path)
    as_listed = verdicts([ONE, TWO], [*shown("SUCCESSFUL"), *shown("FAILED", test=TWO)])
    assert surprises(listed, as_listed) == []
    found = surprises(
        listed,
        verdicts(
            [ONE, TWO, THREE, FIVE],
            [
                *shown("FAILED", test=ONE),
                *shown("SUCCESSFUL", test=TWO),
                *shown("SUCCESSFUL", test=THREE),
                *shown("ABORTED", test=FIVE),
            ],
        ),
    )
    assert [line.partition(",")[0].partition(":")[0] for line in found] == [
        "ATest.one failed",
        "ATest.two passes now",
        "ATest.three passes",
        "CTest.five says nothing",
    ]


def test_one_that_has_to_pass_may_not_fall_silent(tmp_path: Path) -> None:
    found = surprises(expected(tmp_path), verdicts([ONE], shown("ABORTED")))
    assert found == ["ATest.one says nothing, and has to pass: "]


@pytest.mark.integration
def test_a_cluster_that_cannot_start_is_told_to_the_one_who_asked(tmp_path: Path) -> None:
    asked = {
        "do": "start",
        "brokers": 1,
        "disks": 1,
        "listener": "EXTERNAL",
        "protocol": "PLAINTEXT",
        "settings": {"num.partitions": "none"},
        "own_settings": {},
        "users": "",
    }
    with (
        Keeper(tmp_path) as keeper,
        socket.create_connection(("127.0.0.1", keeper.port)) as connection,
        connection.makefile("rb") as answers,
    ):
        for request, wrong in (
            (asked, "num.partitions"),
            ({"do": "stop_broker", "id": 7}, "7"),
            ({"do": "fly"}, "fly"),
        ):
            connection.sendall(json.dumps(request).encode() + b"\n")
            assert wrong in json.loads(answers.readline())["error"]
