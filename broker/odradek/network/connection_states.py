"""The states of an inbound connection, and the changes between them that are legal.

    Life     OPEN -> CLOSING -> LOST              it answers; it sends what is due and ends; it has ended
    Output   FLOWING <-> FULL                     the peer does not read what the transport has
             FLOWING -> LOADING -> FLOWING        a thread reads the slice that is next
             FLOWING -> TURN_OVER -> FLOWING      it has sent enough for one turn of the loop
    Input    READING <-> PAUSED                   it is not read: requests wait, or answers do
             PAUSED <-> TURN_DUE                  it waits for its turn to answer requests that wait
             PAUSED <-> SHORT                     it is not read, since requests of all connections take too much memory

A transport may fill up while a thread reads or a turn is over, and memory may be short while a turn is due. These are
states too, with both names. A change that is not in its table raises: it would be a fault of the connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NoReturn, TypeVar


class Life(Enum):
    OPEN = "open"
    CLOSING = "closing"
    LOST = "lost"

    __hash__ = object.__hash__  # that of Enum is a function of Python


class Output(Enum):
    FLOWING = "flowing"
    FULL = "full"
    LOADING = "loading"
    TURN_OVER = "turn over"
    FULL_LOADING = "full and loading"
    FULL_TURN_OVER = "full and turn over"

    __hash__ = object.__hash__


class Input(Enum):
    READING = "reading"
    PAUSED = "paused"
    TURN_DUE = "turn due"
    SHORT = "short of memory"
    SHORT_TURN_DUE = "short of memory and turn due"

    __hash__ = object.__hash__


StateT = TypeVar("StateT", bound=Enum)


class IllegalChange(AssertionError):
    """A connection changed in a way that its state does not allow."""


class Change(dict[StateT, StateT]):
    """What one event makes of each state in which it may happen."""

    def __init__(self, event: str, states: Mapping[StateT, StateT]) -> None:
        super().__init__(states)
        self.event = event

    def __missing__(self, state: StateT) -> NoReturn:
        raise IllegalChange(
            f"a connection whose state is {state.value!r} cannot have this happen: {self.event}"
        )


CLOSED: Final[Change[Life]] = Change(
    "it is closed", {Life.OPEN: Life.CLOSING, Life.CLOSING: Life.CLOSING, Life.LOST: Life.LOST}
)
ENDED: Final[Change[Life]] = Change("it has ended", {Life.OPEN: Life.LOST, Life.CLOSING: Life.LOST})

FILLED: Final[Change[Output]] = Change(
    "the transport is full",
    {
        Output.FLOWING: Output.FULL,
        Output.LOADING: Output.FULL_LOADING,
        Output.TURN_OVER: Output.FULL_TURN_OVER,
    },
)
DRAINED: Final[Change[Output]] = Change(
    "the transport has room",
    {
        # One that was full before the connection was made: with TLS, during the handshake.
        Output.FLOWING: Output.FLOWING,
        Output.LOADING: Output.LOADING,
        Output.TURN_OVER: Output.TURN_OVER,
        Output.FULL: Output.FLOWING,
        Output.FULL_LOADING: Output.LOADING,
        Output.FULL_TURN_OVER: Output.TURN_OVER,
    },
)
LOAD_BEGUN: Final[Change[Output]] = Change("a thread reads the next slice", {Output.FLOWING: Output.LOADING})
LOAD_ENDED: Final[Change[Output]] = Change(
    "the slice is read", {Output.LOADING: Output.FLOWING, Output.FULL_LOADING: Output.FULL}
)
TURN_ENDED: Final[Change[Output]] = Change("it has sent enough", {Output.FLOWING: Output.TURN_OVER})
TURN_BEGUN: Final[Change[Output]] = Change(
    "it may send more", {Output.TURN_OVER: Output.FLOWING, Output.FULL_TURN_OVER: Output.FULL}
)

READING_PAUSED: Final[Change[Input]] = Change("reading stops", {Input.READING: Input.PAUSED})
READING_RESUMED: Final[Change[Input]] = Change("reading continues", {Input.PAUSED: Input.READING})
TURN_AWAITED: Final[Change[Input]] = Change(
    "it waits for its turn", {Input.PAUSED: Input.TURN_DUE, Input.SHORT: Input.SHORT_TURN_DUE}
)
TURN_TAKEN: Final[Change[Input]] = Change(
    "it takes its turn", {Input.TURN_DUE: Input.PAUSED, Input.SHORT_TURN_DUE: Input.SHORT}
)
MEMORY_SHORT: Final[Change[Input]] = Change(
    "memory is short",
    {
        Input.PAUSED: Input.SHORT,
        Input.SHORT: Input.SHORT,
        Input.TURN_DUE: Input.SHORT_TURN_DUE,
        Input.SHORT_TURN_DUE: Input.SHORT_TURN_DUE,
    },
)
MEMORY_FREE: Final[Change[Input]] = Change(
    "memory is free",
    {
        # One that is read out of turn is not short.
        Input.READING: Input.READING,
        Input.PAUSED: Input.PAUSED,
        Input.SHORT: Input.PAUSED,
        Input.TURN_DUE: Input.TURN_DUE,
        Input.SHORT_TURN_DUE: Input.TURN_DUE,
    },
)

# As constants, since a member is looked up by its class in several steps; checkers would narrow by a literal.
OPEN: Final[Life] = Life.OPEN
CLOSING: Final[Life] = Life.CLOSING
LOST: Final[Life] = Life.LOST
FLOWING: Final[Output] = Output.FLOWING
READING: Final[Input] = Input.READING
SHORT: Final[Input] = Input.SHORT

TURN_IS_DUE: Final = frozenset((Input.TURN_DUE, Input.SHORT_TURN_DUE))
