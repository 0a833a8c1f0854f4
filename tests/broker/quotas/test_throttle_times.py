"""Rates, buckets and precedence behave as Kafka's, compared with models that follow its code line by line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.quotas.meters import Meters
from odradek.broker.quotas.precedence import QuotaTable, Share
from odradek.broker.quotas.throttle_times import SampledRate
from odradek.broker.quotas.token_bucket import TokenBucket
from odradek.foundation.client_entities import DEFAULT, ClientEntity
from tests.support.examples import examples

WINDOWS, WINDOW_MS = 11, 1000


class KafkasRate:
    """`SampledStat` and `Rate` of Kafka 4.1 with their ring of one sample more than windows."""

    def __init__(self) -> None:
        self.samples: list[dict[str, float]] = []
        self.current = 0

    def record(self, value: float, now: int) -> None:
        if not self.samples:
            self.samples.append({"start": now, "last": now, "value": 0.0})
        sample = self.samples[self.current]
        if now - sample["start"] >= WINDOW_MS:
            self.current = (self.current + 1) % (WINDOWS + 1)
            if self.current >= len(self.samples):
                self.samples.append({})
            sample = self.samples[self.current]
            sample.update(start=now, last=now, value=0.0)
        sample["value"] += value
        sample["last"] = now

    def measure(self, now: int) -> tuple[float, int]:
        for sample in self.samples:
            if now - sample["last"] >= WINDOWS * WINDOW_MS:
                sample.update(start=now, last=now, value=0.0)
        elapsed = int(now - min((sample["start"] for sample in self.samples), default=now))
        full = elapsed // WINDOW_MS
        if full < WINDOWS - 1:
            elapsed += (WINDOWS - 1 - full) * WINDOW_MS
        elapsed = max(elapsed, 1)
        return sum(sample["value"] for sample in self.samples) / (elapsed / 1000), elapsed


STEPS = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 50), st.integers(0, 3000), st.integers(9_000, 30_000)),
        st.integers(0, 10_000_000),
    ),
    max_size=60,
)


@pytest.mark.thorough
@given(STEPS, st.integers(1, 5_000_000))
@settings(max_examples=examples(200), deadline=None)
def test_the_rate_and_the_throttle_time_are_kafkas(steps: list[tuple[int, int]], limit: int) -> None:
    ours, kafkas = SampledRate(windows=WINDOWS, window_ms=WINDOW_MS), KafkasRate()
    quick = SampledRate(windows=WINDOWS, window_ms=WINDOW_MS)
    now = 1_000_000
    for pause, value in steps:
        now += pause
        ours.record(value, now)
        kafkas.record(value, now)
        rate, elapsed = kafkas.measure(now)
        assert ours.measure_elapsed_ms(now) == elapsed
        assert abs(ours.rate(now) - rate) <= 1e-6 * max(1.0, rate)
        wanted = round((rate - limit) / limit * elapsed) if rate > limit else 0
        assert abs(ours.excess_ms(limit, now) - wanted) <= 1
        assert quick.add(value, limit, now) == ours.excess_ms(limit, now)


@pytest.mark.thorough
@given(STEPS, st.integers(1_000, 50_000_000))
@settings(max_examples=examples(200), deadline=None)
def test_values_taken_off_the_spare_are_counted_as_others(steps: list[tuple[int, int]], limit: int) -> None:
    """As `broker.requests.throttling` does it: most values are far from the limit."""
    quick, plain = (SampledRate(windows=WINDOWS, window_ms=WINDOW_MS) for _ in range(2))
    now = 1_000_000
    for number, (pause, value) in enumerate(steps):
        now += pause
        plain.record(value, now)
        wanted = plain.excess_ms(limit, now)
        if value <= quick.allowance.spare and now / 1000 < quick.allowance.until:
            quick.allowance.spare -= value
            quick.allowance.spent_at = now / 1000
            assert wanted == 0
        else:
            assert quick.add(value, limit, now) == wanted
        if number % 5 == 4:
            assert quick.measure_elapsed_ms(now) == plain.measure_elapsed_ms(now)
            assert quick.total == plain.total


@given(st.integers(1_000, 100_000), st.lists(st.integers(1, 300_000), min_size=1, max_size=200))
@settings(max_examples=examples(50), deadline=None)
def test_a_client_that_waits_as_told_stays_at_its_quota(limit: int, sizes: list[int]) -> None:
    """The first windows give a burst; after that the whole is within the quota."""
    rate = SampledRate(windows=WINDOWS, window_ms=WINDOW_MS)
    now, sent = 0, 0
    for size in sizes:
        rate.record(size, now)
        sent += size
        now += rate.excess_ms(limit, now) + 1
    burst = limit * WINDOWS
    assert sent <= limit * now / 1000 + burst + max(sizes)


def test_an_idle_client_has_no_rate() -> None:
    rate = SampledRate(windows=WINDOWS, window_ms=WINDOW_MS)
    rate.record(0.1, 0)
    rate.record(0.2, 5)
    assert rate.rate(100_000) == 0.0
    assert rate.total == 0.0


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 500)), max_size=40), st.floats(0.1, 100))
@settings(max_examples=examples(100), deadline=None)
def test_the_bucket_is_kafkas(steps: list[tuple[int, int]], rate: float) -> None:
    bucket = TokenBucket(burst_seconds=11.0)
    tokens, before, now = rate * 11, 1_000, 1_000
    for pause, count in steps:
        now += pause
        tokens = min(rate * 11, tokens + rate * (now - before) / 1000)
        before = now
        assert abs(bucket.tokens(rate, now) - tokens) < 1e-6 * max(1.0, abs(tokens))
        excess = bucket.excess_ms(rate, now)
        assert (excess > 0) == (tokens < 0 and -tokens / rate * 1000 >= 0.5)
        if tokens >= 0:
            bucket.spend(count, rate, now)
            tokens -= count
    assert tokens >= -500


NAMES = st.sampled_from([None, DEFAULT, "a", "b"])
ENTITIES = st.tuples(NAMES, NAMES).filter(lambda pair: pair != (None, None))


def naive(limits: dict[ClientEntity, float], user: str, client: str) -> tuple[Share, float] | None:
    """The eight levels, one after the other."""
    levels: list[tuple[Any, Any, Share]] = [
        (user, client, Share(user, client)),
        (user, DEFAULT, Share(user, client)),
        (user, None, Share(user, "")),
        (DEFAULT, client, Share(user, client)),
        (DEFAULT, DEFAULT, Share(user, client)),
        (DEFAULT, None, Share(user, "")),
        (None, client, Share("", client)),
        (None, DEFAULT, Share("", client)),
    ]
    for user_name, client_name, share in levels:
        if client_name is not None and not client:
            continue
        entity = ClientEntity(user_name, client_name)
        if entity in limits:
            return share, limits[entity]
    return None


@pytest.mark.thorough
@given(
    st.dictionaries(ENTITIES, st.floats(1, 100)), st.sampled_from("abc"), st.sampled_from(["", "a", "b", "c"])
)
@settings(max_examples=examples(300), deadline=None)
def test_the_first_level_with_a_quota_counts(
    given_limits: dict[tuple[str | None, str | None], float], user: str, client: str
) -> None:
    limits = {ClientEntity(*pair): limit for pair, limit in given_limits.items()}
    assert QuotaTable(limits).find(user, client) == naive(limits, user, client)


def rate() -> SampledRate:
    return SampledRate(windows=WINDOWS, window_ms=WINDOW_MS)


def test_meters_are_shared_and_kept_and_forgotten_at_the_bound() -> None:
    meters = Meters(rate, meters_max=3)
    meters.change(QuotaTable({ClientEntity(user="a"): 5.0, ClientEntity(client_id=DEFAULT): 7.0}))
    assert meters.is_on
    of_user = meters.find("User:a", "x")
    assert of_user is not None
    assert of_user is meters.find("User:a", "y")
    assert meters.find("User:b", "") is None
    meters.change(QuotaTable({ClientEntity(user="a"): 6.0, ClientEntity(client_id=DEFAULT): 7.0}))
    assert meters.find("User:a", "x") is of_user
    assert of_user.limit == 6.0
    for name in "pqrs":
        meters.find("User:b", name)
    assert [meter.share.client_id for meter in meters.meters] == ["q", "r", "s"]
    assert meters.find("User:a", "x") is not of_user
    meters.change(QuotaTable({}))
    assert meters.find("User:a", "x") is None
    assert meters.meters == []
