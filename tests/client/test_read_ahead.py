"""Records read ahead for another thread: each is given once, and positions are before those that no thread took."""

from __future__ import annotations

import threading

from odradek.client.consumer.ahead import NOTHING_AHEAD, ReadAhead
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.foundation.ids import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def records(partition: int, *offsets: int, epoch: int = 3) -> list[ConsumerRecord]:
    return [ConsumerRecord("t", partition, offset, 0, 0, None, b"", (), epoch) for offset in offsets]


def test_a_partition_continues_at_its_first_record_that_is_left() -> None:
    ahead = ReadAhead([records(0, 5, 7), records(0, 9, epoch=4), records(1, 2)], {ZERO: 2, ONE: -1})
    assert ahead.find_next(ZERO) == (5, 2)
    assert ahead.find_next(ONE) == (2, -1)
    assert ahead.find_next(TopicPartition("other", 0)) is None
    taken = [ahead.take() for _ in range(2)]
    assert [record and record.offset for record in taken] == [5, 7]
    assert ahead.find_next(ZERO) == (9, 3)
    assert [record.offset for record in ahead.take_many(1)] == [9]
    assert ahead.find_next(ZERO) is None
    assert ahead.find_next(ONE) == (2, -1)
    assert [record.offset for record in ahead.take_many(5)] == [2]
    assert ahead.find_next(ONE) is None
    assert ahead.take() is None
    assert not ahead.has_left


def test_what_is_left_is_given_back_once() -> None:
    ahead = ReadAhead([records(0, 5, 7), records(1, 2, 3)], {ZERO: 1})
    ahead.take()
    assert ahead.give_back() == {ZERO: (7, 3), ONE: (2, -1)}
    assert ahead.give_back() == {}
    assert ahead.take() is None
    assert NOTHING_AHEAD.give_back() == {}


def test_threads_get_each_record_once() -> None:
    ahead = ReadAhead([records(0, *range(5_000))], {})
    taken: list[list[int]] = [[], []]

    def take(own: list[int]) -> None:
        while (record := ahead.take()) is not None:
            own.append(record.offset)

    threads = [threading.Thread(target=take, args=(own,)) for own in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken[0] + taken[1]) == list(range(5_000))
