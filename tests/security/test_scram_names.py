"""Names of users in SCRAM's messages: a comma and an equals sign are escaped."""

from __future__ import annotations

import pytest

from odradek.security.authentication.exchange import escaped_name, plain_name


@pytest.mark.parametrize("name", ["alice", "a,b", "a=b", "a=2Cb", "=3D", "=2C,=3D="])
def test_a_name_comes_back_as_it_was(name: str) -> None:
    escaped = escaped_name(name)
    assert "," not in escaped
    assert plain_name(escaped) == name
