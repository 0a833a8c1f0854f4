"""A short run of the fuzzer; `make fuzz` runs for as long as asked, from a seed of its own."""

from __future__ import annotations

import pytest

from odradek.security.authentication.exchange import Login
from tests.fuzz.world import FuzzedBroker, FuzzFailure, left_over, watching
from tests.support.loop import run

SEEDS = (1, 8, 77, 4_711)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", SEEDS)
def test_hostile_clients_are_answered_or_closed_and_leave_nothing(seed: int) -> None:
    before = left_over()
    with watching() as watch:
        assert run(FuzzedBroker.play(seed, watch)) > 100
    assert len(left_over()) <= len(before)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", SEEDS[:1])
def test_hostile_clients_in_front_of_a_login_and_behind_it(seed: int) -> None:
    before = left_over()
    with watching() as watch:
        assert run(FuzzedBroker.play(seed, watch, logins=True)) > 100
    assert len(left_over()) <= len(before)


def test_a_password_that_is_not_looked_at_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def anybody(self: object, sent: bytes) -> tuple[bytes, Login]:
        return b"", Login("fuzz")

    monkeypatch.setattr("odradek.security.authentication.plain.PlainExchange.answer", anybody)
    with watching() as watch, pytest.raises(FuzzFailure, match="without a password"):
        for seed in range(5, 15):  # most seeds find it early
            run(FuzzedBroker.play(seed, watch, logins=True))


@pytest.mark.thorough
def test_a_handler_that_fails_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object, __: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("odradek.broker.requests.metadata.handle", fails)
    with watching() as watch, pytest.raises(FuzzFailure, match="ZeroDivisionError"):
        run(FuzzedBroker.play(1, watch))
