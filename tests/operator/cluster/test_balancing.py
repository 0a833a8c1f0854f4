"""A Cluster levels its brokers' load when it is asked or by itself, in batches, with Kubernetes in memory."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from odradek.client.errors import ConnectionFailed
from odradek_operator.desired.names import BALANCE_ANNOTATION, PLAN_BALANCE_ANNOTATION
from odradek_operator.gateways.cluster_admin import RestartAnswer
from tests.operator.support.balanced_load import MEBIBYTE
from tests.operator.support.cluster_world import ClusterWorld


def ask(world: ClusterWorld, annotation: str, value: str = "monday") -> None:
    world.change(metadata__annotations={annotation: value})


def reasons(world: ClusterWorld) -> list[str]:
    return [event.reason for event in world.kubernetes.events if event.reason.startswith("Balance")]


def balance(world: ClusterWorld) -> dict[str, Any]:
    return dict(world.status.get("balance") or {})


def is_even(world: ClusterWorld) -> bool:
    """Whether each broker has its share of 300 partitions, within the tolerance."""
    return all(95 <= number <= 105 for number in world.brokers.placed())


def test_a_plan_is_shown_before_anything_moves(world: ClusterWorld) -> None:
    world.brokers.fill(0, 90)
    ask(world, PLAN_BALANCE_ANNOTATION)
    world.settle()
    shown = balance(world)
    total = shown["total"]
    assert (shown["state"], shown["moving"], shown["queued"]) == ("Planned", 0, total)
    assert 55 <= total <= 60 and len(shown["moves"]) == total
    assert shown["bytesLeft"] == total * 100 * MEBIBYTE
    assert shown["moves"][0]["replicas"] == [0] and shown["moves"][0]["target"] in ([1], [2])
    assert world.brokers.batches == [] and world.brokers.placed() == [90, 0, 0]
    planned = world.condition("Balancing")
    assert (planned["status"], planned["reason"]) == ("False", "Planned")
    assert planned["message"].startswith(f"{total} partitions would move, 6 GiB, and {total} leaders")
    assert BALANCE_ANNOTATION in planned["message"]
    # The same value asks once.
    world.settle()
    assert reasons(world) == ["BalancePlanned"] and world.brokers.plans_made == 1


def test_a_rebalance_runs_in_batches_with_its_progress_in_the_status(world: ClusterWorld) -> None:
    world.brokers.fill(0, 300)
    world.change(spec__brokers={"moveRate": "10Mi"})
    ask(world, BALANCE_ANNOTATION)
    seen = []
    for _ in range(30):
        if world.look() is None:
            break
        seen.append((balance(world)["moving"], balance(world)["queued"]))
    queued = seen[0][1]
    assert seen[0][0] == 100 and 90 <= queued <= 100
    assert (50, queued) in seen and (queued, 0) in seen
    assert is_even(world)
    assert [len(batch) for batch in world.brokers.batches] == [100, queued]
    assert world.brokers.rates == [10 * MEBIBYTE] * 2 and world.brokers.balances_ended == 1
    ended = balance(world)
    assert (ended["state"], ended["total"], ended["moving"]) == ("Done", 100 + queued, 0)
    assert ended["bytesLeft"] == 0
    assert reasons(world) == ["BalanceBegan", "BalanceEnded"]
    assert world.condition("Balancing") == {}


def test_nothing_moves_where_nothing_was_asked(world: ClusterWorld) -> None:
    world.brokers.fill(0, 90)
    world.settle()
    assert "balance" not in world.status and world.brokers.plans_made == 0


def test_it_is_stopped_and_resumed_by_the_field(world: ClusterWorld) -> None:
    world.brokers.fill(0, 300)
    ask(world, BALANCE_ANNOTATION)
    world.look(2)
    world.change(spec__balance={"suspend": True})
    world.settle()
    assert balance(world)["state"] == "Stopped" and world.brokers.balancing == {}
    stopped = world.condition("Balancing")
    assert (stopped["status"], stopped["reason"]) == ("False", "Suspended")
    arrived = sum(world.brokers.placed()[1:])
    assert 0 < arrived < 200
    world.change(spec__balance={"suspend": False})
    world.settle()
    assert is_even(world)
    assert balance(world)["state"] == "Done" and world.condition("Balancing") == {}


def test_what_is_asked_while_it_is_suspended_begins_afterwards(world: ClusterWorld) -> None:
    world.brokers.fill(0, 9)
    world.change(spec__balance={"suspend": True})
    ask(world, BALANCE_ANNOTATION)
    world.settle()
    assert world.brokers.batches == [] and world.condition("Balancing")["reason"] == "Suspended"
    world.change(spec__balance={"suspend": False})
    world.settle()
    assert world.brokers.placed() == [3, 3, 3]


@pytest.mark.thorough
def test_no_batch_begins_beside_a_roll_and_the_roll_is_not_held_up(world: ClusterWorld) -> None:
    world.brokers.fill(0, 300)
    ask(world, BALANCE_ANNOTATION)
    world.look()
    assert len(world.brokers.batches) == 1
    before = world.pods()
    world.brokers.answers[1] = RestartAnswer(known=True, waiting_for=("orders-3",))
    world.change(spec__image="odradek:0.2.0")
    for _ in range(20):
        world.look()
        assert len(world.brokers.batches) == 1, "a batch began while pods are replaced"
    assert world.replaced(before) == {"events-broker-0", "events-broker-2"}
    waiting = world.condition("Balancing")
    assert (waiting["status"], waiting["reason"]) == ("True", "Waiting")
    assert "until pods are replaced" in waiting["message"]
    world.brokers.answers.clear()
    world.settle()
    assert is_even(world)
    assert world.replaced(before) == set(before)


def test_brokers_are_emptied_first(world: ClusterWorld) -> None:
    world.brokers.fill(0, 9)
    world.brokers.too_few = True
    world.change(spec__brokers={"replicas": 2, "config": {"min.insync.replicas": 1}})
    ask(world, BALANCE_ANNOTATION)
    world.look(10)
    assert world.brokers.batches == []
    world.brokers.too_few = False
    world.brokers.broker_ids = (0, 1)
    world.settle()
    assert sorted(world.brokers.placed()) == [4, 5]


def test_a_stop_does_not_cancel_moves_that_fill_a_broker(world: ClusterWorld) -> None:
    world.brokers.fill(0, 300)
    ask(world, BALANCE_ANNOTATION)
    world.look()
    world.nodes.broken.add("events-broker-3")
    world.change(spec__brokers={"replicas": 4}, spec__balance={"suspend": True})
    world.brokers.arrivals = 0
    world.look(5)
    assert world.brokers.balancing and balance(world)["state"] == "Running"
    world.nodes.broken.clear()
    world.settle()
    assert world.brokers.balancing == {} and balance(world)["state"] == "Stopped"


def test_auto_plans_by_itself_and_moves_only_what_is_uneven(world: ClusterWorld) -> None:
    world.brokers.fill(0, 9)
    world.change(spec__balance={"mode": "Auto", "intervalMinutes": 10})
    for _ in range(10):
        world.look()
    assert world.brokers.placed() == [3, 3, 3] and balance(world)["state"] == "Done"
    again_seconds = world.look()
    assert again_seconds is not None and 500 < again_seconds < 600
    plans = world.brokers.plans_made
    world.look(5)
    assert world.brokers.plans_made == plans
    world.now += timedelta(minutes=10)
    world.look(3)
    # Even brokers are left alone, and no event repeats that.
    assert world.brokers.plans_made == plans + 1 and reasons(world) == ["BalanceBegan", "BalanceEnded"]
    world.change(spec__balance={"mode": "Manual"})
    world.settle()


def test_a_rebalance_ends_although_every_move_is_refused(world: ClusterWorld) -> None:
    world.brokers.fill(0, 9)
    world.brokers.refuses_moves = True
    ask(world, BALANCE_ANNOTATION)
    world.settle()
    assert balance(world)["state"] == "Done" and len(world.brokers.batches) == 2
    assert reasons(world).count("BalanceMovesRefused") == 2
    assert balance(world)["unmet"] == []


def test_brokers_that_do_not_answer_are_asked_again(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.brokers.fill(0, 9)

    async def fail(bootstrap: str, *, tolerance: float) -> None:
        raise ConnectionFailed("no broker answers")

    monkeypatch.setattr(world.brokers, "plan_balance", fail)
    ask(world, BALANCE_ANNOTATION)
    assert world.look() is not None
    assert "no broker answers" in world.condition("Reachable")["message"]
    monkeypatch.undo()
    world.settle()
    assert world.brokers.placed() == [3, 3, 3] and world.condition("Reachable") == {}


@pytest.mark.thorough
def test_a_rebalance_ends_wherever_the_operator_is_killed() -> None:
    for cut in range(12):
        world = ClusterWorld()
        world.settle()
        world.brokers.fill(0, 300)
        ask(world, BALANCE_ANNOTATION)
        world.settle_through_kills(cut)
        assert is_even(world), f"cut after {cut}"
        assert balance(world)["state"] == "Done" and world.brokers.balances_ended
