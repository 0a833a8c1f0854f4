"""Each test here begins a minute of the log: lines that one test caused are left out of no other's."""

from __future__ import annotations

import pytest

from odradek.broker.requests import change_log, dispatch, sasl_handshake
from odradek.broker.requests.rights import rights

LIMITED = (
    change_log._lines,
    dispatch._long_turns,
    sasl_handshake._LINES,
    rights._denied_lines,
    rights._allowed_lines,
)


@pytest.fixture(autouse=True)
def a_new_minute_of_the_log() -> None:
    for lines in LIMITED:
        lines._minute, lines._lines = -1, 0
