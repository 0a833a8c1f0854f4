"""What a share consumer makes of the batches and the acquired ranges of an answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from odradek.client.share.deliveries import Acknowledgement, PartitionDelivery, open_delivery
from odradek.foundation.ids import TopicPartition
from odradek.wire.records import batch as batches
from odradek.wire.records.builder import build_batch

KEY = TopicPartition("t", 0)
REJECT = int(Acknowledgement.REJECT)


def batch(base_offset: int, count: int) -> bytearray:
    """A batch of so many records, whose values are their offsets."""
    numbers = range(base_offset, base_offset + count)
    built = bytearray(build_batch([(0, None, b"%d" % number) for number in numbers]))
    batches.assign(built, 0, base_offset=base_offset, leader_epoch=0)
    return built


def opened(data: bytes | bytearray, *ranges: tuple[int, int, int]) -> PartitionDelivery:
    acquired: Any = [
        SimpleNamespace(first_offset=first, last_offset=last, delivery_count=count)
        for first, last, count in ranges
    ]
    return open_delivery(KEY, memoryview(bytes(data)), acquired)


def given(delivery: PartitionDelivery) -> list[tuple[int, bytes | None, int]]:
    records = [record for block in delivery.blocks for record in block.share_records()]
    return [(record.offset, record.value, record.delivery_count) for record in records]


def test_a_range_has_records_of_several_batches_and_a_batch_several_ranges() -> None:
    data = batch(0, 4) + batch(4, 4)
    delivery = opened(data, (1, 1, 2), (3, 5, 1), (7, 7, 3))
    assert given(delivery) == [(1, b"1", 2), (3, b"3", 1), (4, b"4", 1), (5, b"5", 1), (7, b"7", 3)]
    assert delivery.settled == {}


def test_acquired_offsets_without_a_record_are_gaps() -> None:
    delivery = opened(batch(0, 2) + batch(4, 2), (0, 6, 1))
    assert [offset for offset, _, _ in given(delivery)] == [0, 1, 4, 5]
    assert delivery.settled == {2: 0, 3: 0, 6: 0}


def test_what_was_acquired_of_a_damaged_batch_is_rejected() -> None:
    damaged = batch(4, 4)
    damaged[-1] ^= 1
    delivery = opened(batch(0, 4) + damaged, (3, 4, 1), (7, 7, 1))
    assert given(delivery) == [(3, b"3", 1)]
    assert delivery.settled == {4: REJECT, 7: REJECT}


def test_a_frame_that_cannot_be_read_leaves_the_rest_to_its_locks() -> None:
    unreadable = batch(4, 4)
    unreadable[16] = 9  # no such magic
    delivery = opened(batch(0, 4) + unreadable, (2, 5, 1))
    assert given(delivery) == [(2, b"2", 1), (3, b"3", 1)]
    assert delivery.settled == {}


def test_a_batch_is_verified_and_decoded_once_for_all_its_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that come again are acquired one by one: each would cost the whole batch."""
    verified: list[int] = []
    verify = batches.BatchView.verify

    def note(view: batches.BatchView) -> None:
        verified.append(view.position)
        verify(view)

    monkeypatch.setattr(batches.BatchView, "verify", note)
    delivery = opened(batch(0, 100), *((number, number, 2) for number in range(0, 100, 2)))
    assert len(given(delivery)) == 50
    assert verified == [0]
