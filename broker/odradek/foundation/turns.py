"""Work on many elements, some of them in each turn of the event loop.

    turn = Turn()
    for element in elements:
        if turn.is_over():
            await turn.next()
        ...

Elements are counted and not timed, so a run on virtual time has the same turns again. Few elements take no turn of
their own.
"""

from __future__ import annotations

from collections.abc import Sized
from types import TracebackType
from typing import Self, TypeVar

from odradek.foundation.loop_turns import next_turn
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX

Collection = TypeVar("Collection", bound=Sized)


class Turn:
    """Counts what a coroutine has done in this turn of the loop."""

    __slots__ = ("_asked", "_elements_max", "_left")

    def __init__(self, elements_max: int = REQUEST_ELEMENTS_PER_TURN_MAX) -> None:
        self._elements_max = self._left = elements_max
        self._asked = 1

    def is_over(self, elements: int = 1) -> bool:
        """Whether `elements` more belong into the next turn. More than a turn has are a turn of their own."""
        self._asked = elements
        self._left -= elements
        return self._left < 0

    async def next(self) -> None:
        """Let others run, and their long work too. What `is_over` was asked for counts in the turn after this."""
        self._left = self._elements_max - self._asked
        await next_turn()


class Leftovers:
    """Empties the collections of a coroutine at its end, some elements in each turn: Python would free all at once.

    async with Leftovers() as kept:
        found = kept.until_end([])
    """

    __slots__ = ("_collections",)

    def __init__(self) -> None:
        self._collections: list[Sized] = []

    def until_end(self, collection: Collection) -> Collection:
        """The collection, a list, a dict or a set, which nothing else may use any more when the block ends."""
        self._collections.append(collection)
        return collection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        turn = Turn()
        for collection in self._collections:
            while len(collection) > REQUEST_ELEMENTS_PER_TURN_MAX:
                if turn.is_over(REQUEST_ELEMENTS_PER_TURN_MAX):
                    await turn.next()
                _shorten(collection)


def _shorten(collection: Sized) -> None:
    if isinstance(collection, list):
        del collection[-REQUEST_ELEMENTS_PER_TURN_MAX:]
        return
    for _ in range(REQUEST_ELEMENTS_PER_TURN_MAX):
        if isinstance(collection, dict):
            collection.popitem()
        else:
            assert isinstance(collection, set)
            collection.pop()
