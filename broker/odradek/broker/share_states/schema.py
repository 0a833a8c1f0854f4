"""Records of `__share_group_state` (KIP-932), byte for byte those of Apache Kafka 4.4.

    0  a snapshot: the whole state of a share-partition    group, topic id, partition
    1  an update: what has changed since                   group, topic id, partition

Values are flexible structures of version 0. A snapshot without a value removes the state.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.coordination.records import RecordKey, RecordValue
from odradek.broker.share_states.states import ShareKey, StateRange
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.declared import Declaration, FieldRow

KIND_SNAPSHOT: Final = 0
KIND_UPDATE: Final = 1
KINDS: Final = frozenset((KIND_SNAPSHOT, KIND_UPDATE))


class SnapshotValue(NamedTuple):
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    create_timestamp_ms: int
    write_timestamp_ms: int
    state_batches: tuple[StateRange, ...] = ()
    delivery_complete_count: int = -1


class UpdateValue(NamedTuple):
    """A start offset of -1 stays as it is."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    state_batches: tuple[StateRange, ...] = ()
    delivery_complete_count: int = -1


_KEY: Final = Declaration(
    ShareKey, FieldRow("group_id", "string"), FieldRow("topic_id", "uuid"), FieldRow("partition", "int32")
)
_KEYS: Final[dict[int, RecordKey[ShareKey]]] = {kind: RecordKey(kind, _KEY) for kind in KINDS}
_BATCHES: Final = FieldRow(
    "state_batches",
    structure=Declaration(
        StateRange,
        FieldRow("first_offset", "int64"),
        FieldRow("last_offset", "int64"),
        FieldRow("delivery_state", "int8"),
        FieldRow("delivery_count", "int16"),
    ),
    is_array=True,
)
_COMPLETE: Final = FieldRow("delivery_complete_count", "int32", tag=0, default=-1)
_SNAPSHOT: Final[RecordValue[SnapshotValue]] = RecordValue(
    "a snapshot of a share-partition",
    Declaration(
        SnapshotValue,
        FieldRow("snapshot_epoch", "int32"),
        FieldRow("state_epoch", "int32"),
        FieldRow("leader_epoch", "int32"),
        FieldRow("start_offset", "int64"),
        _COMPLETE,
        FieldRow("create_timestamp_ms", "int64"),
        FieldRow("write_timestamp_ms", "int64"),
        _BATCHES,
    ),
    version_written=0,
    version_max=0,
    flexible_since=0,
)
_UPDATE: Final[RecordValue[UpdateValue]] = RecordValue(
    "an update of a share-partition",
    Declaration(
        UpdateValue,
        FieldRow("snapshot_epoch", "int32"),
        FieldRow("leader_epoch", "int32"),
        FieldRow("start_offset", "int64"),
        _COMPLETE,
        _BATCHES,
    ),
    version_written=0,
    version_max=0,
    flexible_since=0,
)


def encode_key(kind: int, key: ShareKey) -> bytes:
    return _KEYS[kind].encode(key)


def decode_key(kind: int, key: bytes) -> ShareKey:
    """The whole key, its kind included. Raises CorruptRecord."""
    return _KEYS[kind].decode(key)


def encode_snapshot(value: SnapshotValue) -> bytes:
    return _SNAPSHOT.encode(value)


def decode_snapshot(value: bytes) -> SnapshotValue:
    """Raises CorruptRecord."""
    return _SNAPSHOT.decode(value)


def encode_update(value: UpdateValue) -> bytes:
    return _UPDATE.encode(value)


def decode_update(value: bytes) -> UpdateValue:
    """Raises CorruptRecord."""
    return _UPDATE.decode(value)
