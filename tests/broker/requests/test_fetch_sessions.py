"""Fetch sessions as KIP-227 has them."""

import itertools

import pytest

from odradek.broker.requests.fetch.sessions import (
    EPOCH_MAX,
    EVICTION_AGE_SECONDS,
    FetchSessionCache,
    next_epoch,
)
from odradek.foundation.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)
from odradek.wire.protocol.hot.fetch_request import AskedPartition


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def sessions(*, slots: int, time: Time) -> FetchSessionCache:
    ids = itertools.count(1)
    return FetchSessionCache(slots=slots, now=time, random_id=lambda: next(ids))


def asked(index: int, *, offset: int = 0, topic: str = "t") -> AskedPartition:
    return topic, index, offset, 100, -1, -1, -1


def test_an_incremental_fetch_changes_adds_and_forgets() -> None:
    cache = sessions(slots=2, time=Time())
    session = cache.create([asked(0), asked(1)], uses_topic_ids=False)
    assert session is not None
    again = cache.advance(session.id, 1, [asked(1, offset=5), asked(2)], [("t", 0)], version=12)
    assert again is session
    assert [(held.index, held.fetch_offset) for held in session.targets.values()] == [(1, 5), (2, 0)]
    assert session.epoch == 2


def test_what_gave_records_moves_to_the_end() -> None:
    cache = sessions(slots=1, time=Time())
    session = cache.create([asked(index) for index in range(3)], uses_topic_ids=False)
    assert session is not None
    session.move_to_end(session.targets["t", 0])
    assert [held.index for held in session.targets.values()] == [1, 2, 0]


def test_wrong_ids_epochs_and_kinds_are_refused() -> None:
    cache = sessions(slots=1, time=Time())
    session = cache.create([asked(0)], uses_topic_ids=False)
    assert session is not None
    with pytest.raises(FetchSessionIdNotFound):
        cache.advance(session.id + 1, 1, [], [], version=12)
    with pytest.raises(InvalidFetchSessionEpoch):
        cache.advance(session.id, 2, [], [], version=12)
    with pytest.raises(FetchSessionTopicIdError):
        cache.advance(session.id, 1, [], [], version=13)
    assert cache.advance(session.id, 1, [], [], version=12) is session


def test_a_session_without_partitions_is_closed() -> None:
    cache = sessions(slots=1, time=Time())
    session = cache.create([asked(0)], uses_topic_ids=False)
    assert session is not None
    assert not cache.advance(session.id, 1, [], [("t", 0)], version=12).targets
    assert len(cache) == 0


def test_a_full_cache_gives_up_what_was_not_used_for_two_minutes() -> None:
    time = Time()
    cache = sessions(slots=1, time=time)
    first = cache.create([asked(0), asked(1)], uses_topic_ids=False)
    time.now = 120.0
    assert cache.create([asked(0)], uses_topic_ids=False) is None
    time.now = 120.1
    second = cache.create([asked(0)], uses_topic_ids=False)
    assert second is not None and first is not None
    assert cache.evictions == 1
    with pytest.raises(FetchSessionIdNotFound):
        cache.advance(first.id, 1, [], [], version=12)


def test_a_larger_session_evicts_an_older_smaller_one() -> None:
    time = Time()
    cache = sessions(slots=1, time=time)
    small = cache.create([asked(0)], uses_topic_ids=False)
    assert small is not None
    for moment in (60.0, 121.0):
        time.now = moment
        cache.advance(small.id, small.epoch, [], [], version=12)
    assert cache.create([asked(0)], uses_topic_ids=False) is None, "not larger"
    assert cache.create([asked(0), asked(1)], uses_topic_ids=False) is not None


def test_followers_sessions_evict_clients_and_not_vice_versa() -> None:
    cache = sessions(slots=2, time=Time())
    clients = [cache.create([asked(0), asked(1)], uses_topic_ids=True) for _ in range(2)]
    followers = [cache.create([asked(0)], uses_topic_ids=True, follower_id=7) for _ in range(2)]
    assert all(session is not None for session in clients + followers)
    assert cache.create([asked(0), asked(1)], uses_topic_ids=True) is None
    assert cache.create([asked(0), asked(1)], uses_topic_ids=True, follower_id=7) is None
    assert len(cache) == 2 and cache.evictions == 2


def test_a_followers_session_ends_a_clients_and_not_a_smaller_followers() -> None:
    time = Time()
    cache = sessions(slots=2, time=time)
    client = cache.create([asked(0), asked(1)], uses_topic_ids=True)
    follower = cache.create([asked(0)], uses_topic_ids=True, follower_id=7)
    assert client is not None and follower is not None
    time.now = EVICTION_AGE_SECONDS + 1
    for session in (client, follower):
        cache.advance(session.id, 1, [], [], version=13)
    assert cache.create([asked(0), asked(1)], uses_topic_ids=True, follower_id=8) is not None
    assert client not in cache and follower in cache


def test_epochs_wrap_to_one() -> None:
    assert next_epoch(1) == 2
    assert next_epoch(EPOCH_MAX) == 1
