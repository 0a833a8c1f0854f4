"""A watch that has died is noticed, one that is merely quiet is not."""

from __future__ import annotations

from odradek_operator.foundation.watches import BEHIND_SECONDS_MAX, WatchStates


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_quiet_watch_is_alive() -> None:
    time = Time()
    watches = WatchStates(["Topic"], time)
    watches.note_watched("Topic", "500")
    for _ in range(10):
        time.now += 300
        watches.note_listed("Topic", ["120", "500"])
        assert watches.find_dead_watch() is None


def test_a_watch_that_owes_a_change_for_long_is_dead() -> None:
    time = Time()
    watches = WatchStates(["Topic", "Cluster"], time)
    watches.note_watched("Topic", "500")
    watches.note_listed("Topic", ["501"])
    assert watches.find_dead_watch() is None
    # What is newer still does not put it off.
    for version in range(502, 510):
        time.now += BEHIND_SECONDS_MAX / 8 + 0.1
        watches.note_listed("Topic", [str(version)])
    reason = watches.find_dead_watch()
    assert reason is not None and "Topic" in reason and "Cluster" not in reason


def test_a_watch_that_catches_up_is_alive_again() -> None:
    time = Time()
    watches = WatchStates(["Topic"], time)
    watches.note_listed("Topic", ["7"])
    time.now += BEHIND_SECONDS_MAX + 1
    assert watches.find_dead_watch() is not None
    watches.note_watched("Topic", "7")
    assert watches.find_dead_watch() is None


def test_an_empty_list_owes_nothing() -> None:
    time = Time()
    watches = WatchStates(["Topic"], time)
    watches.note_listed("Topic", [])
    time.now += 1_000
    assert watches.find_dead_watch() is None


def test_a_late_change_does_not_hide_what_a_later_list_showed() -> None:
    time = Time()
    watches = WatchStates(["Topic"], time)
    watches.note_listed("Topic", ["501"])
    watches.note_listed("Topic", ["501", "502"])
    watches.note_watched("Topic", "501")
    assert watches.find_dead_watch() is None
    time.now += BEHIND_SECONDS_MAX + 1
    assert watches.find_dead_watch() is not None
    watches.note_watched("Topic", "502")
    assert watches.find_dead_watch() is None
