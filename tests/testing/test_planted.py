"""Each planted bug still has its place in the code, and the search for its test takes none that fails anyway."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from tests.planted.bugs import CHECKOUT, Bug, chosen, folders_of, likely_tests, package_of, table
from tests.planted.runs import Outcome, run
from tests.planted.search import EVERYTHING, Found, search

BUGS = table()
# Too small for a bug of its own: two files that join others.
# Rooms whose modules stand in packages below them.
OF_PACKAGES = ("broker", "metadata", "security", "wire")
WITHOUT = {"broker/listeners"}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_can_be_planted(bug: Bug) -> None:
    source = (CHECKOUT / bug.file).read_text(encoding="utf-8")
    planted = bug.planted(source)
    assert planted != source
    if bug.file.endswith(".py"):
        compile(planted, bug.file, "exec")


def test_every_package_has_a_bug() -> None:
    folder = CHECKOUT / "broker" / "odradek"
    packages = {path.parent.name for path in folder.glob("*/__init__.py")} - set(OF_PACKAGES)
    packages |= {
        f"{room}/{path.parent.name}" for room in OF_PACKAGES for path in folder.glob(f"{room}/*/__init__.py")
    }
    packages |= {"operator", "pipeline", "helm"}
    found = set()
    for bug in BUGS:
        room, *rest = package_of(bug.file).split("/")
        found.add(f"{room}/{rest[0]}" if room in OF_PACKAGES else room)
    assert found == packages - WITHOUT
    assert len(BUGS) == len({bug.name for bug in BUGS}) == 56


def test_a_bug_without_its_place_is_named() -> None:
    bug = Bug("name", "broker/odradek/storage/log.py", "", "text", "")
    for source in ("", "text text"):
        with pytest.raises(ValueError, match=r"name: broker/odradek/storage/log\.py has its text [02] times"):
            bug.planted(source)


def test_bugs_are_chosen_by_words_of_their_names() -> None:
    assert [bug.name for bug in chosen(BUGS, "retention,unescaped")] == [
        "log-retention-above-the-high-watermark",
        "security-name-is-unescaped-twice",
    ]
    assert chosen(BUGS, "") == BUGS


class Suite:
    """A suite that gets, for each bug, the tests that it makes fail. `broken` tests fail always.

    With two of the `waiting` bugs, or with one that waits twice, the whole suite does not end within its bound.
    """

    def __init__(
        self, finds: dict[str, set[str]], broken: Collection[str] = (), waiting: Sequence[str] = ()
    ) -> None:
        self._finds = finds
        self._broken = broken
        self._waiting = waiting
        self.asked: list[list[str]] = []

    def __call__(
        self,
        bugs: Sequence[Bug],
        tests: Sequence[str],
        *,
        failures_max: int = 0,
        seconds_max: float | None = None,
        deselected: Collection[str] = (),
    ) -> Outcome:
        self.asked.append(list(tests))
        names = {bug.name for bug in bugs}
        if tests == [EVERYTHING]:
            assert seconds_max
            if sum(name in names for name in self._waiting) > 1:
                return Outcome([], [], seconds_max, is_cut=True)
        failed = [
            test
            for test, finds in self._finds.items()
            if any(test.startswith(asked) for asked in tests)
            and test not in deselected
            and (names & finds or test in self._broken)
        ]
        return Outcome(failed[: failures_max or None], [], 1.0)


def bug(name: str) -> Bug:
    return Bug(name, "broker/odradek/storage/log.py", "", "", "")


def searched(suite: Suite, *names: str) -> dict[str, str | None]:
    found: dict[str, Found | None] = search([bug(name) for name in names], suite, lambda _: None)
    return {name: hit and hit.test for name, hit in found.items()}


def test_the_most_likely_tests_are_asked_first() -> None:
    suite = Suite({"tests/cli/test_watch.py::a": {"one"}, "tests/storage/test_indexes.py::b": {"one"}})
    assert searched(suite, "one") == {"one": "tests/storage/test_indexes.py::b"}
    assert [EVERYTHING] not in suite.asked


def test_bugs_that_they_miss_are_looked_for_together() -> None:
    suite = Suite({"tests/cli/a": {"one"}, "tests/cli/b": {"one"}, "tests/cli/c": {"two"}})
    found = searched(suite, "one", "two", "three")
    assert found == {"one": "tests/cli/a", "two": "tests/cli/c", "three": None}
    assert suite.asked.count([EVERYTHING]) == 1
    # The first bug explains b too.
    assert ["tests/cli/b"] not in suite.asked


def test_bugs_that_wait_for_each_other_are_looked_for_one_by_one() -> None:
    suite = Suite({"tests/cli/a": {"one"}, "tests/cli/b": {"two"}}, waiting=["one", "two", "three", "three"])
    assert searched(suite, "one", "two", "three") == {
        "one": "tests/cli/a",
        "two": "tests/cli/b",
        "three": None,
    }
    assert suite.asked.count([EVERYTHING]) == 4


def test_a_run_that_does_not_end_is_ended_with_what_failed_before(tmp_path: Path) -> None:
    (tmp_path / ".venv/bin").mkdir(parents=True)
    python = tmp_path / ".venv/bin/python"
    python.write_text('#!/bin/sh\nprintf "failed\\ttests/a\\n" > "$OUTCOMES"\nsleep 300\n')
    python.chmod(0o755)
    outcome = run(tmp_path, ["tests"], suite="quick", seconds_max=0.5)
    assert (outcome.failed, outcome.is_cut) == (["tests/a"], True)


def test_a_test_that_fails_anyway_finds_nothing() -> None:
    one, other, elsewhere = (
        "tests/storage/test_indexes.py::a",
        "tests/storage/test_indexes.py::b",
        "tests/cli/c",
    )
    finds = {one: {"one"}, other: {"one"}, elsewhere: {"one"}}
    assert searched(Suite(finds, broken=[one]), "one") == {"one": other}
    assert searched(Suite(finds, broken=[one, other]), "one") == {"one": elsewhere}
    assert searched(Suite(finds, broken=[one, other, elsewhere]), "one") == {"one": None}


def test_files_that_name_the_module_are_asked_first() -> None:
    named, *_, rest = likely_tests("broker/odradek/broker/requests/fetch/sessions.py")
    assert named == ["tests/broker/requests/test_fetch_sessions.py"]
    assert "tests/broker/requests/test_configs.py" in rest
    assert (
        "tests/broker/requests/test_offsets.py"
        in likely_tests("broker/odradek/broker/requests/list_offsets.py")[-2]
    )


def test_a_package_has_its_folders() -> None:
    assert folders_of("broker/odradek/broker/coordination/writer.py") == [
        "tests/broker/groups",
        "tests/broker/transactions",
    ]
    assert folders_of("operator/odradek_operator/main/run.py") == ["tests/operator"]
    assert folders_of("helm/odradek/files/alerts.yaml") == ["tests/charts", "tests/operator"]
