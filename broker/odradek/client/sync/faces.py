"""What the classes of the synchronous form share: an object of the asyncio form, and the thread that runs it.

`blocking` makes a method of the synchronous form from one of the asyncio form. The types of its arguments and of its
result are those of the other, so that the two forms cannot differ.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Concatenate, Generic, ParamSpec, TypeVar

from odradek.client.own_loops import EngineThread

P = ParamSpec("P")
R = TypeVar("R")
InnerT = TypeVar("InnerT")


class Face(Generic[InnerT]):
    """An object of the asyncio form, for programs without an event loop. `owner` is what lives as long as this."""

    def __init__(self, engine: EngineThread, inner: InnerT, *, owner: object = None) -> None:
        self._engine = engine
        self._inner = inner
        self._owner = owner

    def _call(self, work: Callable[[InnerT], Coroutine[object, None, R]]) -> R:
        return self._engine.call(lambda: work(self._inner))

    def _read(self, work: Callable[[InnerT], R]) -> R:
        return self._engine.read(lambda: work(self._inner))


def blocking(
    method: Callable[Concatenate[InnerT, P], Coroutine[object, None, R]],
) -> Callable[Concatenate[Face[InnerT], P], R]:
    """The method that waits for `method` of the asyncio form. It has the same arguments, result, errors and text."""

    @functools.wraps(method)
    def wait_for(face: Face[InnerT], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return face._call(lambda inner: method(inner, *args, **kwargs))

    return wait_for


def reading(
    method: Callable[Concatenate[InnerT, P], R],
) -> Callable[Concatenate[Face[InnerT], P], R]:
    """As `blocking`, for a method that does not wait in the asyncio form either."""

    @functools.wraps(method)
    def read(face: Face[InnerT], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return face._read(lambda inner: method(inner, *args, **kwargs))

    return read
