"""Our named tuples are typing's in all that a program can see of a value."""

from __future__ import annotations

import copy
import pickle
import typing
from collections.abc import Callable
from typing import Any

import pytest

from odradek.foundation.named_tuple import NamedTuple


class Ours(NamedTuple):
    """A row."""

    name: str
    size_bytes: int = 0
    """Of the file."""
    tags: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.size_bytes

    @classmethod
    def unnamed(cls) -> Ours:
        return cls("")


class Typings(typing.NamedTuple):
    """A row."""

    name: str
    size_bytes: int = 0
    tags: tuple[str, ...] = ()


SEEN: dict[str, Callable[[Any], object]] = {
    "as a tuple": lambda row: tuple(row("a", 3)),
    "equal": lambda row: row("a", 3) == ("a", 3, ()),
    "hash": lambda row: hash(row("a")),
    "by name": lambda row: row(tags=("x",), name="b"),
    "text": lambda row: repr(row("a")).partition("(")[2],
    "attributes": lambda row: (row("a", 3).name, row("a", 3).size_bytes, row("a").tags),
    "fields": lambda row: (row._fields, row._field_defaults, row.__match_args__, row.__doc__),
    "replaced": lambda row: row("a")._replace(size_bytes=4),
    "mapping": lambda row: row("a")._asdict(),
    "made": lambda row: row._make(["a", 1, ()]),
    "copied": lambda row: copy.deepcopy(row("a", 1)),
    "pickled": lambda row: pickle.loads(pickle.dumps(row("a", 1))),
    "kind of the copy": lambda row: type(pickle.loads(pickle.dumps(row("a")))) is row,
    "no dictionary": lambda row: hasattr(row("a"), "__dict__"),
}
REFUSED: dict[str, Callable[[Any], object]] = {
    "too few": lambda row: row(),
    "too many": lambda row: row("a", 1, (), 2),
    "unknown": lambda row: row("a", colour=1),
    "unknown to replace": lambda row: row("a")._replace(colour=1),
    "too few to make": lambda row: row._make(["a"]),
    "set": lambda row: setattr(row("a"), "name", "b"),
    "new attribute": lambda row: setattr(row("a"), "colour", "b"),
}


@pytest.mark.parametrize("name", SEEN)
def test_a_value_is_as_typings(name: str) -> None:
    assert SEEN[name](Ours) == SEEN[name](Typings)


@pytest.mark.parametrize("name", REFUSED)
def test_what_typings_refuses_is_refused(name: str) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)) as expected:
        REFUSED[name](Typings)
    # A field that is not there is a ValueError of `_replace` until Python 3.12, and a TypeError from 3.13.
    with pytest.raises(ValueError if name == "unknown to replace" else expected.type):
        REFUSED[name](Ours)


def test_methods_belong_to_the_class() -> None:
    assert Ours.unnamed().is_empty
    assert not Ours("a", 1).is_empty
    match Ours("a", 1):
        case Ours(name, size_bytes):
            assert (name, size_bytes) == ("a", 1)


def test_fields_without_a_default_come_first() -> None:
    program = "class Wrong(NamedTuple):\n    a: int = 1\n    b: int\n"
    with pytest.raises(TypeError, match="without a default"):
        exec(program, {"NamedTuple": NamedTuple, "__name__": __name__})
