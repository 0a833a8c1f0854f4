"""Which of several resources owns a thing, and what the others report."""

from __future__ import annotations

from odradek_operator.gateways.kubernetes import Json
from odradek_operator.reconcilers.rounds import Claims


def topic(name: str, uid: str, second: int) -> Json:
    created = f"2026-01-01T00:00:{second:02}Z"
    return {
        "metadata": {"name": name, "uid": uid, "creationTimestamp": created},
        "spec": {"cluster": "demo", "name": "orders"},
    }


def test_the_oldest_has_it() -> None:
    claims = Claims([topic("b", "1", 2), topic("a", "2", 1)], field="name")
    assert claims.find_owner("1", "demo", "orders") == "a, which is older"
    assert claims.find_owner("2", "demo", "orders") is None


def test_of_two_of_one_second_the_other_learns_how_it_was_decided() -> None:
    for bodies in ([topic("b", "1", 1), topic("a", "2", 1)], [topic("a", "2", 1), topic("b", "1", 1)]):
        claims = Claims(bodies, field="name")
        assert claims.find_owner("1", "demo", "orders") is None
        reason = claims.find_owner("2", "demo", "orders")
        assert reason == "b, which was made in the same second and has the lower uid"
