"""Names of users in SCRAM's messages: a comma and an equals sign are escaped."""

from __future__ import annotations

import pytest

from odradek.security.authentication.exchange import escape_name, unescape_name


@pytest.mark.parametrize("name", ["alice", "a,b", "a=b", "a=2Cb", "=3D", "=2C,=3D="])
def test_a_name_comes_back_as_it_was(name: str) -> None:
    escaped = escape_name(name)
    assert "," not in escaped
    assert unescape_name(escaped) == name
