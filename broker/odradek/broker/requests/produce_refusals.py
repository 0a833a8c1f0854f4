"""Kafka's answers to batches that it refuses: the order of its checks, and the refusals that name the log's start.

Kafka checks the frame of a batch first, and answers an error there with INVALID_RECORD. A wrong checksum is
CORRUPT_MESSAGE, after which clients send again. Our log finds both in one check. So which of the two it was is decided
only after a batch was refused.
"""

from __future__ import annotations

from typing import Final

from odradek.foundation.errors import (
    CorruptRecord,
    InvalidRecord,
    InvalidTopic,
    KafkaStorageError,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RecordTooLarge,
    RequestError,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from odradek.wire.records.batch import COMPRESSION_MASK, HEADER_BYTES, Buffer, read_header
from odradek.wire.records.compression import Compression
from odradek.wire.records.validation import single_batch_bytes

# Consumers that are as old as producers of versions before this one cannot read zstd.
FIRST_WITH_ZSTD: Final = 7

_WITHOUT_LOG_START: Final = (
    CorruptRecord,
    InvalidTopic,
    KafkaStorageError,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RecordTooLarge,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
)


def has_log_start(error: Exception) -> bool:
    """Whether the answer to a batch that the log refused with `error` names the log start offset."""
    return not isinstance(error, _WITHOUT_LOG_START)


def frame_error(records: Buffer, version: int) -> RequestError | None:
    """Why a produce request of `version` may not hold `records` for any partition, independent of its log.

    None when nothing is wrong with the frame; checksum and contents are not looked at.
    """
    try:
        size = single_batch_bytes(records)
    except (CorruptRecord, InvalidRecord) as error:
        return error
    is_zstd = size >= HEADER_BYTES and read_header(records).attributes & COMPRESSION_MASK == Compression.ZSTD
    if version < FIRST_WITH_ZSTD and is_zstd:
        return UnsupportedCompressionType(
            f"zstd is allowed from version {FIRST_WITH_ZSTD} of Produce on and the request has {version}; use a newer"
            " client or another compression.type"
        )
    return None
