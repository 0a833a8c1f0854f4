"""Keys land where Java's client puts them; keyless records stick."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.producer.partitioners import StickyPartitioner, murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_javas(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_a_key_has_one_partition_within_the_count(key: bytes, count: int) -> None:
    partition = partition_for_key(key, count)
    assert 0 <= partition < count
    assert partition == partition_for_key(key, count)


def test_keyless_records_stick_until_the_batch_is_full() -> None:
    partitioner = StickyPartitioner(Random(7))
    first = partitioner.partition("t", range(4))
    assert [partitioner.partition("t", range(4)) for _ in range(10)] == [first] * 10
    partitioner.batch_full("t", first, range(4))
    assert partitioner.partition("t", range(4)) != first


def test_a_partition_that_lost_its_leader_is_left() -> None:
    partitioner = StickyPartitioner(Random(7))
    first = partitioner.partition("t", [0, 1])
    assert partitioner.partition("t", [1 - first]) == 1 - first


def test_a_topic_of_one_partition_keeps_it() -> None:
    partitioner = StickyPartitioner(Random(7))
    assert partitioner.partition("t", [0]) == 0
    partitioner.batch_full("t", 0, [0])
    assert partitioner.partition("t", [0]) == 0
