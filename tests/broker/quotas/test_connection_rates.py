"""Rates of connections are those of Kafka's ConnectionQuotas: what waits, what is refused, and for how long."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.quotas.connection_rates import UNLIMITED, Arrival, ConnectionRates
from odradek.broker.quotas.precedence import QuotaTable
from odradek.foundation.client_entities import DEFAULT, ClientEntity
from odradek.foundation.limits import QUOTA_METERS_MAX
from tests.support.examples import examples

WINDOW_MS = 1000


def rates_of(
    *, broker: float = UNLIMITED, clients: float = UNLIMITED, addresses: dict[str, float] | None = None
) -> ConnectionRates:
    rates = ConnectionRates(windows=11, window_seconds=1, exempt_listener="BROKERS")
    rates.change_listeners(broker=broker, listeners={"CLIENTS": clients, "BROKERS": UNLIMITED})
    rates.change_addresses(QuotaTable({ClientEntity(ip=ip): rate for ip, rate in (addresses or {}).items()}))
    return rates


def test_nothing_is_on_without_a_bound() -> None:
    assert not rates_of().is_on
    assert rates_of(broker=5).is_on
    assert rates_of(clients=5).is_on
    assert rates_of(addresses={DEFAULT: 5}).is_on


def test_the_burst_of_ten_seconds_is_let_in_and_then_the_rate() -> None:
    rates = rates_of(clients=2)
    found = [rates.arrive("CLIENTS", "10.0.0.1", 0) for _ in range(22)]
    # Ten windows at two a second; the time of a rate is never shorter.
    assert found == [None] * 20 + [Arrival(500, is_refused=False), Arrival(1000, is_refused=False)]
    assert (rates.listeners["CLIENTS"].held, rates.listeners["CLIENTS"].held_ms) == (2, 1500)


def test_no_wait_is_longer_than_a_window() -> None:
    for rate in (0, 1):
        rates = rates_of(clients=rate)
        waits = {found.wait_ms for _ in range(500) if (found := rates.arrive("CLIENTS", "10.0.0.1", 5))}
        assert max(waits) == WINDOW_MS


def test_the_brokers_rate_spares_the_listener_of_brokers() -> None:
    rates = rates_of(broker=1)
    assert all(rates.arrive("BROKERS", "10.0.0.1", 0) is None for _ in range(100))
    assert [rates.arrive("CLIENTS", "10.0.0.1", 0) for _ in range(11)][-1] == Arrival(1000, is_refused=False)
    rates.change_listeners(broker=1, listeners={"CLIENTS": UNLIMITED, "BROKERS": 1})
    assert rates.arrive("BROKERS", "10.0.0.1", 0) == Arrival(1000, is_refused=False)


def test_an_address_above_its_rate_is_refused_and_counts_for_nobody() -> None:
    rates = rates_of(clients=4, addresses={DEFAULT: 2, "10.0.0.9": 1000})
    found = [rates.arrive("CLIENTS", "10.0.0.1", 0) for _ in range(40)]
    assert found[:20] == [None] * 20
    # What is refused is not counted, so every later one is early by the same time.
    assert set(found[20:]) == {Arrival(500, is_refused=True)}
    assert (rates.refused, rates.refused_ms) == (20, 10_000)
    assert (rates.by_address["10.0.0.1"].held, rates.by_address["10.0.0.1"].held_ms) == (20, 10_000)
    # Twenty were served: half of the listener's burst is left for another address.
    assert [rates.arrive("CLIENTS", "10.0.0.9", 0) for _ in range(21)].count(None) == 20


def test_a_changed_rate_holds_at_once_and_a_removed_one_is_forgotten() -> None:
    rates = rates_of(addresses={DEFAULT: 1})
    assert [rates.arrive("CLIENTS", "10.0.0.1", 0) for _ in range(11)].count(None) == 10
    rates.change_addresses(QuotaTable({ClientEntity(ip="10.0.0.1"): 2}))
    assert [rates.arrive("CLIENTS", "10.0.0.1", 0) for _ in range(11)].count(None) == 10
    rates.change_addresses(QuotaTable({}))
    assert not rates.by_address
    assert not rates.is_on
    assert rates.arrive("CLIENTS", "10.0.0.1", 0) is None


@pytest.mark.thorough
def test_addresses_are_bounded() -> None:
    rates = rates_of(addresses={DEFAULT: 1})
    for number in range(QUOTA_METERS_MAX + 10):
        rates.arrive("CLIENTS", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 0)
    assert len(rates.by_address) == QUOTA_METERS_MAX
    assert "10.0.0.9" not in rates.by_address
    assert "10.0.0.10" in rates.by_address


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(0, 700), min_size=1, max_size=300), st.integers(1, 20))
def test_an_obedient_acceptor_never_exceeds_its_rate(pauses_ms: list[int], rate: int) -> None:
    """One that waits as asked accepts, in any span of ten seconds or more, its rate and one burst."""
    rates = rates_of(clients=rate)
    now_ms = 0
    served: list[int] = []
    for pause_ms in pauses_ms:
        now_ms += pause_ms
        found = rates.arrive("CLIENTS", "10.0.0.1", now_ms)
        now_ms += 0 if found is None else found.wait_ms
        served.append(now_ms)
    for first in range(len(served)):
        for last in range(first, len(served)):
            seconds = max(10.0, (served[last] - served[first]) / 1000)
            assert last - first + 1 <= rate * (seconds + 11) + 1
