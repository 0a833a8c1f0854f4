"""The synchronous form has the methods of the asyncio form, with the same arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import pytest

import odradek
from odradek import sync
from odradek.client.sync import admin as blocking_admin

# What the synchronous form has not, each with its reason.
_FOR_THE_LOOP: Final = "It gives or takes what belongs to the event loop."
_ABSENT: Final = {
    "Client": dict.fromkeys(
        [
            "any_broker", "ask", "ask_controller", "broker", "check_loop", "controller", "coordinator", "new_lane",
            "note_leader_epoch", "release_lane", "transaction_coordinator", "with_retries",
        ],
        _FOR_THE_LOOP,
    ),
    "Consumer": dict.fromkeys(["is_interrupted", "read_ahead"], "The synchronous form is what calls them."),
    "ShareConsumer": dict.fromkeys(["poll_for_loop", "settle_loop"], "The synchronous form is what calls them."),
}  # fmt: skip
_TWINS: Final = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
}
_CLASSES: Final = ["Client", "Consumer", "Producer", "ShareConsumer"]


def named(kind: type) -> set[str]:
    """The public names of a class, and its special methods by the names of the synchronous form."""
    found = {name for name in dir(kind) if not name.startswith("_")}
    return found | {_TWINS.get(name, name) for name in dir(kind) if name in (*_TWINS, *_TWINS.values())}


def arguments(function: Callable[..., Any]) -> list[tuple[str, object, object, object]]:
    """The arguments of a method without `self`: name, kind, default and type."""
    found = list(inspect.signature(function).parameters.values())[1:]
    return [(one.name, one.kind, one.default, one.annotation) for one in found]


def parts() -> list[tuple[type, type]]:
    """(asyncio, synchronous) of each public class, and of each part of Admin."""
    pairs = [(getattr(odradek, name), getattr(sync, name)) for name in _CLASSES]
    for name, value in vars(odradek.Admin(odradek.Client("127.0.0.1:1"))).items():
        blocking = inspect.getsource(blocking_admin.Admin)
        kind = blocking.partition(f"self.{name} = ")[2].partition("(")[0]
        pairs.append((type(value), getattr(blocking_admin, kind)))
    return pairs


@pytest.mark.parametrize(("of_asyncio", "blocking"), parts(), ids=lambda kind: kind.__name__)
def test_the_methods_are_the_same(of_asyncio: type, blocking: type) -> None:
    absent = _ABSENT.get(of_asyncio.__name__, {})
    assert named(of_asyncio) - set(absent) == named(blocking)
    assert set(absent) <= set(dir(of_asyncio)), "what is not there any more"


@pytest.mark.parametrize(("of_asyncio", "blocking"), parts(), ids=lambda kind: kind.__name__)
def test_the_arguments_are_the_same(of_asyncio: type, blocking: type) -> None:
    names = {
        name for name in named(blocking) if not isinstance(inspect.getattr_static(blocking, name), property)
    }
    twins = {after: before for before, after in _TWINS.items()}
    compared = 0
    for name in names - {"__enter__", "__exit__"}:
        first = getattr(of_asyncio, twins.get(name, name))
        assert arguments(getattr(blocking, name)) == arguments(first), name
        assert name.startswith("__") or getattr(blocking, name).__doc__, name
        compared += 1
    assert compared
    if blocking.__name__ in _CLASSES:
        own, other = (arguments(getattr(kind, "__init__")) for kind in (blocking, of_asyncio))  # noqa: B009
        assert [one for one in own if one[0] != "client"] == [one for one in other if one[0] != "client"]


def test_a_blocking_method_is_described_as_the_other() -> None:
    made = blocking_admin.BlockingTopics.create
    assert made.__name__ == "create"
    assert "Raises TopicAlreadyExists" in (made.__doc__ or "")
