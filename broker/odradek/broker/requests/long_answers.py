"""Answers with many elements: the thread for long work makes them, and frees messages some elements at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Sized
from functools import cache
from traceback import walk_tb
from typing import TYPE_CHECKING, Final, TypeVar, cast

from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import InvalidRequest
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.wire.protocol.schema import Structure, fields_of

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.parts import HasThread


Made = TypeVar("Made")

# A number of elements that no turn takes.
MANY: Final = REQUEST_ELEMENTS_PER_TURN_MAX + 1


async def make_in_turns(context: RequestContext[HasThread], elements: int, make: Callable[[], Made]) -> Made:
    """What `make` returns; for more elements than a turn takes, it runs in the thread.

    It gives elements one by one to `context.response`, as a generator: a list of all would be freed at once.
    """
    work = context.broker.optional_long_work
    if elements <= REQUEST_ELEMENTS_PER_TURN_MAX or work is None:
        return make()
    return await work.submit(make)


def parse_in_thread(
    parse: Callable[[int, memoryview, int, int], Made], version: int, frame: memoryview, position: int
) -> Made:
    """A request that is read by hand. Where it is damaged, what was read until then is freed one by one."""
    try:
        return parse(version, frame, position, 0)
    except InvalidRequest as error:
        for running, _ in walk_tb(error.__traceback__):
            for value in running.f_locals.values():
                while isinstance(value, list) and value:
                    value.pop()
        raise without_trace(error) from None


def has_many(arrays: Iterable[Sized]) -> bool:
    """Whether the arrays have more elements than a turn takes. It counts no further."""
    count = 0
    for array in arrays:
        count += 1 + len(array)
        if count > REQUEST_ELEMENTS_PER_TURN_MAX:
            return True
    return False


def free(messages: list[Made]) -> None:
    """Empty the list, and free what its messages hold, some elements at a time.

    Other threads run in between. What something else holds stays.
    """
    held: list[tuple[object, ...]] = []
    for message in messages:
        _hold_arrays(message, held)
    messages.clear()
    while held:
        held.pop()


def _hold_arrays(message: object, held: list[tuple[object, ...]]) -> None:
    """Add all arrays below `message`, long ones in pieces, so that each can be freed by itself."""
    for name in _arrays_of(cast(Hashable, type(message))):
        elements = getattr(message, name)
        if not elements:
            continue
        held += [
            elements[start : start + REQUEST_ELEMENTS_PER_TURN_MAX]
            for start in range(0, len(elements), REQUEST_ELEMENTS_PER_TURN_MAX)
        ]
        if _arrays_of(cast(Hashable, type(elements[0]))):
            for element in elements:
                _hold_arrays(element, held)


@cache
def _arrays_of(kind: Hashable) -> tuple[str, ...]:
    """The fields of a class of messages that are arrays; none for other classes."""
    if not dataclasses.is_dataclass(kind):
        return ()
    return tuple(field.name for field in fields_of(cast(Structure, kind)) if field.is_array)
