"""Kafka's answers to batches that it refuses: the order of its checks, and the refusals that name the log's start.

Kafka checks the frame of a batch first, and answers an error there with INVALID_RECORD. A wrong checksum is
CORRUPT_MESSAGE, after which clients send again. Our log finds both in one check. So which of the two it was is decided
only after a batch was refused.
"""

from __future__ import annotations

import logging
from typing import Final

from odradek.broker.replication.partition import Partition
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import ProduceParts
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import (
    CorruptRecord,
    InvalidRecord,
    InvalidTopic,
    KafkaStorageError,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RecordsRefused,
    RecordTooLarge,
    RequestError,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from odradek.foundation.transaction_errors import TransactionalIdAuthorizationFailed
from odradek.wire.protocol.errors import error_code, error_message
from odradek.wire.protocol.hot.produce import ProducePartitionResult
from odradek.wire.records.batch import COMPRESSION_MASK, HEADER_BYTES, Buffer, read_header
from odradek.wire.records.compression import Compression
from odradek.wire.records.validation import single_batch_bytes

logger = logging.getLogger(__name__)

# Consumers that are as old as producers of versions before this one cannot read zstd.
FIRST_WITH_ZSTD: Final = 7

_ADMIN_CLIENT_ID: Final = "__admin_client"

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


def check_internal(partition: Partition, context: RequestContext[ProduceParts]) -> None:
    """Raises InvalidTopic unless the request comes from Kafka's own admin client.

    The broker keeps its state in the topic, and could not read the records of another client.
    """
    if context.header.client_id != _ADMIN_CLIENT_ID:
        raise InvalidTopic(f"Cannot append to internal topic {partition.topic_partition.topic}")


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


def build_failed_result(
    index: int,
    error: Exception,
    context: RequestContext[ProduceParts],
    key: str | bytes,
    partition: Partition | None,
    records: memoryview | None,
) -> ProducePartitionResult:
    """The result of a batch that was not appended, or not kept safe; it is counted."""
    if not isinstance(error, RequestError):
        logger.error("appending to %r-%d for %r failed", key, index, context.connection, exc_info=error)
    # A denied topic's error is raised for each of its partitions, by a function that has it in a variable.
    error = without_trace(error)
    context.broker.counters.by_api[0].failures += 1
    log_start_offset = -1
    if partition is not None:
        partition.replica.append_failures += 1
        refusal = frame_error(records or b"", context.header.api_version)
        if refusal is not None:
            error = refusal
        elif has_log_start(error):
            log_start_offset = partition.log.log_start_offset
    return ProducePartitionResult(
        index,
        error_code(error),
        log_start_offset=log_start_offset,
        record_errors=error.record_errors if isinstance(error, RecordsRefused) else (),
        error_message=error_message(error),
    )
