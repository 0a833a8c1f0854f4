"""Control records: what a batch whose control flag is set says. Commit and abort markers end a transaction.

    key    int16 version, int16 type
    value  int16 version, int32 coordinator epoch      (of commit and abort)

The markers are written by the transaction coordinator through the partition's leader, one in a batch of its
own. Types that only a KRaft quorum writes are named, so that a tool can print them, and have no reader here.
"""

from __future__ import annotations

import enum
import struct
from typing import Final

from odradek.foundation.errors import CorruptRecord
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.records.batch import BatchView
from odradek.wire.records.builder import build_batch
from odradek.wire.records.record import Record, records

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0


class ControlType(enum.IntEnum):
    """The announcement of a control record; a number that is none of these is UNKNOWN and is passed over."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


class Marker(NamedTuple):
    """The end of a producer's transaction in one partition."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    timestamp_ms: int


def build_marker(
    *,
    producer_id: int,
    producer_epoch: int,
    is_commit: bool,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """A batch of one commit or abort marker."""
    kind = ControlType.COMMIT if is_commit else ControlType.ABORT
    return build_batch(
        [(timestamp_ms, _KEY.pack(_VERSION, kind), _VALUE.pack(_VERSION, coordinator_epoch))],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_control=True,
        is_transactional=True,
    )


def control_type(record: Record) -> ControlType:
    """The kind of a control record. Raises CorruptRecord when its key cannot say."""
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptRecord(f"the control record at offset {record.offset} has a key of fewer than 4 bytes")
    version, number = _KEY.unpack_from(record.key)
    if version < 0:
        raise CorruptRecord(f"the control record at offset {record.offset} has the version {version}")
    return ControlType(number) if number in _KNOWN else ControlType.UNKNOWN


_KNOWN: Final = frozenset(kind.value for kind in ControlType)


def parse_marker(batch: BatchView) -> Marker | None:
    """The marker in a control batch; None when it holds another type, or nothing since compaction emptied it.

    Raises CorruptRecord when it is damaged.
    """
    header = batch.header
    record = next(iter(records(batch)), None)
    if record is None:
        return None
    kind = control_type(record)
    if kind not in (ControlType.COMMIT, ControlType.ABORT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise CorruptRecord(
            f"the transaction marker at offset {record.offset} has a value of fewer than 6 bytes"
        )
    version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if version < 0:
        raise CorruptRecord(f"the transaction marker at offset {record.offset} has the version {version}")
    return Marker(
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        is_commit=kind == ControlType.COMMIT,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=record.timestamp_ms,
    )
