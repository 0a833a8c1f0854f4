"""Records of `__transaction_state`, byte for byte those of Apache Kafka 4.1.

A key is int16 0, then the transactional id. A value has version 0, or version 1, which is flexible and has tags:

    0  the previous producer id     2  the client's transaction version
    1  the next producer id         3  the last epoch of the producer, before the current one

Kafka 4.1 writes tag 2 alone, and forgets the others when the coordinator moves. A producer that repeats its request
after the last epoch is then refused (KAFKA-20310, KAFKA-20357). Here all are written, and Kafka skips those that it
does not know. A tombstone ends an id. The partitions are null while the state is Empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.broker.coordination.records import RecordKey, RecordValue
from odradek.broker.transactions.metadata import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TV0,
    StoredPartitions,
    TransactionMetadata,
    TransactionState,
)
from odradek.foundation.errors import CorruptRecord
from odradek.foundation.ids import flat
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.declared import Declaration, FieldRow

KIND_TRANSACTION: Final = 0
VALUE_VERSION_MAX: Final = 1


class _Key(NamedTuple):
    transactional_id: str


def _metadata(
    *, state: int, stored_partitions: Sequence[StoredPartitions] | None, **others: int
) -> TransactionMetadata:
    if not TransactionState.EMPTY <= state <= TransactionState.COMPLETE_ABORT:
        raise CorruptRecord(f"a transaction in the state {state}; 0 to 5 are known")
    return TransactionMetadata(
        state=TransactionState(state), partitions=frozenset(flat(stored_partitions or ())), **others
    )


_KEY: Final[RecordKey[_Key]] = RecordKey(
    KIND_TRANSACTION, Declaration(_Key, FieldRow("transactional_id", "string"))
)
_PARTITIONS: Final = Declaration(
    StoredPartitions, FieldRow("topic", "string"), FieldRow("partitions", "int32", is_array=True)
)
_VALUE: Final[RecordValue[TransactionMetadata]] = RecordValue(
    "a transaction",
    Declaration(
        _metadata,
        FieldRow("producer_id", "int64"),
        FieldRow("producer_epoch", "int16"),
        FieldRow("timeout_ms", "int32"),
        FieldRow("state", "int8"),
        FieldRow("stored_partitions", structure=_PARTITIONS, is_array=True, is_nullable=True),
        FieldRow("updated_ms", "int64"),
        FieldRow("start_ms", "int64"),
        FieldRow("previous_producer_id", "int64", since=1, tag=0, default=NO_PRODUCER_ID),
        FieldRow("next_producer_id", "int64", since=1, tag=1, default=NO_PRODUCER_ID),
        FieldRow("client_version", "int16", since=1, tag=2, default=TV0),
        FieldRow("last_producer_epoch", "int16", since=1, tag=3, default=NO_PRODUCER_EPOCH),
    ),
    version_written=VALUE_VERSION_MAX,
    version_max=VALUE_VERSION_MAX,
    flexible_since=1,
)


def encode_key(transactional_id: str) -> bytes:
    return _KEY.encode(_Key(transactional_id))


def decode_key(key: bytes) -> str:
    """The transactional id. Raises CorruptRecord."""
    return _KEY.decode(key).transactional_id


def encode_value(metadata: TransactionMetadata, *, version_level: int) -> bytes:
    """The value in the version that the finalized transaction.version allows."""
    return _VALUE.encode(metadata, version=min(version_level, VALUE_VERSION_MAX))


def decode_value(data: bytes) -> TransactionMetadata:
    """Versions 0 and 1. Raises CorruptRecord, also for a state that is never on disk."""
    return _VALUE.decode(data)
