"""How long attempts to reach ZooKeeper take: a session must not end while one server is waited for."""

from __future__ import annotations

import pytest

from odradek.metadata.registry.zookeeper.session import _RECONNECT_SECONDS_MAX, _round_seconds


@pytest.mark.parametrize(
    ("timeout_seconds", "round_seconds"), [(18.0, 4.5), (6.0, 1.5), (2.0, 1.0), (0.5, 0.5)]
)
def test_a_round_of_attempts_takes_a_part_of_the_sessions_timeout(
    timeout_seconds: float, round_seconds: float
) -> None:
    assert _round_seconds(timeout_seconds) == round_seconds


def test_a_restarted_server_is_found_well_before_the_default_timeout() -> None:
    # A round that began just before it was back, a pause, and the round that finds it.
    assert 2 * _round_seconds(18.0) + _RECONNECT_SECONDS_MAX < 18.0 * 2 / 3
