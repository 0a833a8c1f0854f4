"""The allowance of replicas that catch up."""

from __future__ import annotations

from odradek.broker.replication.throttles import PAUSE_SECONDS_MAX, Throttle, is_throttled
from odradek.foundation.settings.declaration import INT64_MAX


class World:
    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.time = 100.0
        self.throttle = Throttle(lambda: self.rate, now=lambda: self.time)

    def moved(self, *, size: int, seconds: float) -> int:
        """The bytes that pass in that time when a client always requests `size` more."""
        end = self.time + seconds
        before = self.throttle.bytes_total
        while self.time < end:
            if self.throttle.holds_back():
                self.time += self.throttle.pause_seconds()
            else:
                self.throttle.record(size)
        return self.throttle.bytes_total - before


def test_the_rate_holds_for_every_size_of_an_answer() -> None:
    for size in (10, 1000, 5000):
        # The second that was saved up at the beginning, and one answer more at the end.
        assert 100_000 <= World(1000).moved(size=size, seconds=100) <= 101_000 + size


def test_idle_time_is_saved_up_for_one_second_only() -> None:
    world = World(1000)
    world.time += 3600
    assert world.moved(size=100, seconds=1) <= 2100


def test_without_a_limit_all_bytes_pass_and_are_counted() -> None:
    world = World(INT64_MAX)
    world.throttle.record(10**12)
    assert (world.throttle.rate, world.throttle.holds_back(), world.throttle.bytes_total) == (
        None,
        False,
        10**12,
    )


def test_a_rate_that_is_set_raised_or_lifted_counts_at_once() -> None:
    world = World(INT64_MAX)
    world.throttle.record(10**9)
    world.rate = 1000
    assert not world.throttle.holds_back()
    world.throttle.record(50_000)
    assert world.throttle.holds_back()
    assert world.throttle.pause_seconds() == PAUSE_SECONDS_MAX
    world.rate = 100_000
    world.time += 0.6
    assert not world.throttle.holds_back()
    world.rate = INT64_MAX
    assert not world.throttle.holds_back()


def test_a_rate_of_zero_passes_nothing() -> None:
    world = World(0)
    assert world.moved(size=1, seconds=10) == 0
    assert world.throttle.times_held_back == 10


def test_replicas_in_sync_leave_no_more_to_wait_off_than_a_while() -> None:
    world = World(1000)
    for _ in range(3600):
        world.time += 1
        world.throttle.record(50_000, is_in_sync=True)
    assert world.throttle.holds_back()
    world.time += 11
    assert not world.throttle.holds_back()
    # What was held back itself is waited off whole.
    world.throttle.record(50_000)
    world.throttle.record(50_000, is_in_sync=True)
    world.time += 40
    assert world.throttle.holds_back()
    world.time += 11
    assert not world.throttle.holds_back()


def test_what_was_not_sent_is_given_back() -> None:
    world = World(1000)
    world.throttle.refund(5000, world.throttle.record(5000))
    assert not world.throttle.holds_back()
    assert world.throttle.bytes_total == 0
    # No more than was waited off for it: what others took is still to be.
    world.throttle.record(8000)
    world.throttle.refund(50_000, world.throttle.record(50_000, is_in_sync=True))
    world.time += 6.9
    assert world.throttle.holds_back()
    assert world.throttle.bytes_total == 8000


def test_replicas_are_named_in_pairs_or_all_together() -> None:
    assert is_throttled(("*",), partition=3, broker_id=9)
    assert is_throttled(("0:1", "3:9"), partition=3, broker_id=9)
    assert not is_throttled(("0:1", "3:9"), partition=9, broker_id=3)
    assert not is_throttled((), partition=0, broker_id=0)
