"""The states of an inbound connection: which changes are legal, and that no other one can happen."""

from __future__ import annotations

from enum import Enum

import pytest

from odradek.network import connection_states as states
from odradek.network.connection_states import Change, IllegalChange, Input, Life, Output
from odradek.network.inbound import InboundConnection
from tests.network.support import Stage, framed

# A line for each change: the states in which it may happen, and what it makes of each, in the order of the declaration.
LIVES = """
CLOSED  open>closing closing>closing lost>lost
ENDED   open>lost closing>lost
"""
OUTPUTS = """
FILLED      flowing>full loading>full-loading turn-over>full-turn-over
DRAINED     flowing>flowing full>flowing loading>loading turn-over>turn-over full-loading>loading
DRAINED     full-turn-over>turn-over
LOAD_BEGUN  flowing>loading
LOAD_ENDED  loading>flowing full-loading>full
TURN_ENDED  flowing>turn-over
TURN_BEGUN  turn-over>flowing full-turn-over>full
"""
INPUTS = """
READING_PAUSED   reading>paused
READING_RESUMED  paused>reading
TURN_AWAITED     paused>turn-due short>short-turn-due
TURN_TAKEN       turn-due>paused short-turn-due>short
MEMORY_SHORT     paused>short short>short turn-due>short-turn-due short-turn-due>short-turn-due
MEMORY_FREE      reading>reading paused>paused short>paused turn-due>turn-due short-turn-due>turn-due
"""
TABLES: dict[type[Enum], str] = {Life: LIVES, Output: OUTPUTS, Input: INPUTS}


def _legal(table: str) -> dict[str, dict[str, str]]:
    changes: dict[str, dict[str, str]] = {}
    for line in table.split("\n"):
        for change in line.split()[1:]:
            before, after = change.upper().replace("-", "_").split(">")
            changes.setdefault(line.split()[0], {})[before] = after
    return changes


def _changes(kind: type[Enum]) -> dict[str, Change[Enum]]:
    return {
        name: change
        for name, change in vars(states).items()
        if isinstance(change, Change) and all(isinstance(state, kind) for state in change)
    }


@pytest.mark.parametrize("kind", TABLES)
def test_each_change_is_legal_where_the_table_has_it_and_refused_elsewhere(kind: type[Enum]) -> None:
    legal = _legal(TABLES[kind])
    changes = _changes(kind)
    assert set(changes) == set(legal)
    refused = 0
    for name, change in changes.items():
        for state in kind:
            if state.name in legal[name]:
                assert change[state].name == legal[name][state.name]
            else:
                with pytest.raises(IllegalChange, match=f"whose state is '{state.value}' .*: {change.event}"):
                    change[state]
                refused += 1
    assert refused > 0


@pytest.mark.parametrize("kind", TABLES)
def test_every_state_is_reached_from_the_first_and_only_an_end_is_final(kind: type[Enum]) -> None:
    first, *_ = kind
    reached = {first}
    while True:
        after = {change[state] for change in _changes(kind).values() for state in reached & change.keys()}
        if after <= reached:
            break
        reached |= after
    assert reached == set(kind)
    final = {
        state
        for state in kind
        if all(change.get(state, state) is state for change in _changes(kind).values())
    }
    assert final == ({Life.LOST} if kind is Life else set())


async def test_a_connection_refuses_what_its_state_does_not_allow() -> None:
    accepted: list[InboundConnection] = []

    def dispatch(connection: object, frame: memoryview) -> bytes:
        assert isinstance(connection, InboundConnection)
        accepted.append(connection)
        return framed(bytes(frame))

    async with Stage(dispatch) as stage:
        peer = await stage.peer()
        peer.send(b"one")
        await peer.frames(1)
        (connection,) = accepted
        # With TLS the transport may have been full before the connection was made.
        connection.resume_writing()
        connection.pause_writing()
        with pytest.raises(IllegalChange, match=r"'full' .* the transport is full"):
            connection.pause_writing()
        connection.resume_writing()
        with pytest.raises(IllegalChange, match=r"'reading' .* it takes its turn"):
            connection.take_turn()
        assert not connection.is_lost
        connection.abort()
        await peer.is_lost.wait()
        with pytest.raises(IllegalChange, match=r"'lost' .* it has ended"):
            connection.connection_lost(None)
        assert connection.is_lost
