"""Records of `__transaction_state`, beside bytes that Apache Kafka's definition gives."""

from __future__ import annotations

import pytest

from odradek.broker.transactions.metadata import TV0, TV2, TransactionMetadata, TransactionState
from odradek.broker.transactions.schema import decode_key, decode_value, encode_key, encode_value
from odradek.foundation.errors import CorruptRecord
from odradek.foundation.ids import TopicPartition

ONGOING = TransactionMetadata(
    producer_id=7,
    previous_producer_id=6,
    next_producer_id=8,
    producer_epoch=3,
    last_producer_epoch=2,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions=frozenset({TopicPartition("b", 1), TopicPartition("a", 2), TopicPartition("a", 0)}),
    start_ms=1000,
    updated_ms=2000,
    client_version=TV2,
)


def test_a_key_is_a_kind_and_the_id() -> None:
    assert encode_key("tx") == bytes.fromhex("0000 0002 7478")
    assert decode_key(encode_key("tx-é")) == "tx-é"


def test_a_value_of_version_0_has_no_tags() -> None:
    data = encode_value(ONGOING, version_level=TV0)
    assert data == bytes.fromhex(
        "0000 0000000000000007 0003 0000ea60 01 00000002"
        "0001 61 00000002 00000000 00000002 0001 62 00000001 00000001"
        "00000000000007d0 00000000000003e8"
    )
    back = decode_value(data)
    assert back.partitions == ONGOING.partitions
    assert (back.previous_producer_id, back.client_version, back.last_producer_epoch) == (-1, 0, -1)


def test_a_value_of_version_1_keeps_what_a_failover_needs() -> None:
    assert decode_value(encode_value(ONGOING, version_level=TV2)) == ONGOING


def test_an_empty_value_has_null_partitions() -> None:
    empty = TransactionMetadata(
        producer_id=1, producer_epoch=0, timeout_ms=5, state=TransactionState.EMPTY, updated_ms=9
    )
    data = encode_value(empty, version_level=TV2)
    # Version 1, no tags but the defaults, null array 00.
    assert data == bytes.fromhex(
        "0001 0000000000000001 0000 00000005 00 00 0000000000000009 ffffffffffffffff 00"
    )
    assert decode_value(data) == empty
    assert decode_value(encode_value(empty, version_level=TV0)) == empty


def test_what_kafka_4_1_writes_is_read() -> None:
    # Tag 2, the client's version, is the only tag that it writes.
    data = bytes.fromhex(
        "0001 0000000000000001 0000 00000005 04 01 0000000000000009 0000000000000008 01 02 02 0002"
    )
    found = decode_value(data)
    assert (found.state, found.client_version) == (TransactionState.COMPLETE_COMMIT, TV2)


@pytest.mark.parametrize("state", [6, 7, 8, -1])
def test_states_that_are_never_on_disk_are_damage(state: int) -> None:
    data = bytearray(encode_value(ONGOING, version_level=TV0))
    data[16] = state & 0xFF
    with pytest.raises(CorruptRecord, match="state"):
        decode_value(bytes(data))
    with pytest.raises(CorruptRecord):
        decode_value(bytes(data[:20]))
