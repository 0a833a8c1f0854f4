"""The table of bugs, `bugs.toml`, and the tests that most likely find each."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

CHECKOUT: Final = Path(__file__).parents[2]
_TABLE: Final = Path(__file__).with_name("bugs.toml")
# Of packages whose tests are in folders of other names.
_FOLDERS: Final = {
    "broker/coordination": ("broker/groups", "broker/transactions"),
    "pipeline": ("pipeline", "spark"),
    "helm": ("charts", "operator"),
}


class Bug(NamedTuple):
    """One fault: `replacement` in the place of `text`, which `file` has once. `breaks` says what a user has of it."""

    name: str
    file: str
    breaks: str
    text: str
    replacement: str

    def planted(self, source: str) -> str:
        """The file with the bug. Raises ValueError unless it has the text once."""
        found = source.count(self.text)
        if found != 1:
            raise ValueError(
                f"{self.name}: {self.file} has its text {found} times; correct tests/planted/bugs.toml"
            )
        return source.replace(self.text, self.replacement)


def table() -> list[Bug]:
    """All bugs, in the order of the layers."""
    return [Bug(**row) for row in tomllib.loads(_TABLE.read_text(encoding="utf-8"))["bug"]]


def chosen(bugs: Iterable[Bug], only: str) -> list[Bug]:
    """Those whose names have one of the words of `only`, parted by commas; all without any."""
    words = [word for word in only.split(",") if word]
    return [bug for bug in bugs if not words or any(word in bug.name for word in words)]


def package_of(file: str) -> str:
    """`broker/groups` for `broker/odradek/broker/groups/…`, else the first folder."""
    parts = Path(file).parts
    return "/".join(parts[2:-1]) if parts[0] == "broker" else parts[0]


def folders_of(file: str) -> list[str]:
    """The folders of tests that most likely find a bug of this file."""
    package = package_of(file)
    if package in _FOLDERS:
        return [f"tests/{name}" for name in _FOLDERS[package]]
    while package and not (CHECKOUT / "tests" / package).is_dir():
        package = package.rpartition("/")[0]
    return [f"tests/{package}"] if package else []


def likely_tests(file: str) -> list[list[str]]:
    """Files of tests that most likely find a bug of this file, of its package's folders.

    Those that name its module come first, then those that have its words (`list_offsets`, ListOffsets), then the rest.
    """
    path = Path(file)
    module = ".".join(path.with_suffix("").parts[1:]) if path.suffix == ".py" else path.name
    words = (path.stem, path.stem.title().replace("_", ""))
    named: list[str] = []
    others: list[str] = []
    rest: list[str] = []
    for folder in folders_of(file):
        for test in sorted((CHECKOUT / folder).rglob("test_*.py")):
            text = test.read_text(encoding="utf-8")
            if path.stem in test.stem or module in text:
                named.append(test.relative_to(CHECKOUT).as_posix())
            elif any(word in text for word in words):
                others.append(test.relative_to(CHECKOUT).as_posix())
            else:
                rest.append(test.relative_to(CHECKOUT).as_posix())
    return [files for files in (named, others, rest) if files]
