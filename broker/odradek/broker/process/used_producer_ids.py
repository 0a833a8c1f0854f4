"""The producer ids that another broker has used in a directory of logs, so that none of them is allocated again.

Two producers of one id take each other's batches for duplicates, and fence each other. An id may be in use although no
log of records has it: its batches have expired, or its transactional id has not written yet. So there are three places:

    the producers of each log                the ids that have written within a day
    the transaction log                      the ids of transactional ids, used or not
    the metadata log that Kafka leaves       the next id that Kafka would have allocated
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from odradek.foundation.errors import CorruptRecord
from odradek.metadata.image.topic_names import TRANSACTION_STATE
from odradek.storage.log import Log
from odradek.wire.records.batch import split
from odradek.wire.records.record import records

if TYPE_CHECKING:
    from odradek.broker.process.kraft_metadata import KraftMetadata

logger = logging.getLogger(__name__)

NONE: Final = -1
_READ_BYTES: Final = 1 << 20


async def highest_producer_id(logs: Mapping[str, Sequence[Log]], metadata: KraftMetadata) -> int:
    """The highest producer id that was used in these logs, by topic; -1 for none. Raises OSError."""
    found = metadata.next_producer_id - 1
    for topic, of_topic in logs.items():
        for log in of_topic:
            found = max([found, *(entry.producer_id for entry in log.producers.entries())])
            if topic == TRANSACTION_STATE:
                async for producer_id in _of_transactional_ids(log):
                    found = max(found, producer_id)
    return found


def highest_coordinator_epoch(logs: Mapping[str, Sequence[Log]]) -> int:
    """The highest coordinator epoch of the markers in these logs, -1 for none.

    A coordinator that stopped between a marker and its own record has left no such epoch in the transaction log. The
    next one must be above it, or the leaders refuse its markers.
    """
    return max(
        (
            entry.coordinator_epoch
            for of_topic in logs.values()
            for log in of_topic
            for entry in log.producers.entries()
        ),
        default=NONE,
    )


async def _of_transactional_ids(log: Log) -> AsyncIterator[int]:
    """The producer ids in a partition of the transaction log, up to a record that cannot be read."""
    # Imported here: only the directory of another broker needs it.
    from odradek.broker.coordination.records import kind_of
    from odradek.broker.transactions.schema import KIND_TRANSACTION, decode_value

    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, bytes_max=_READ_BYTES, at_least_one_batch=True).read()
        try:
            for batch in split(memoryview(data), may_be_cut=True):
                offset = batch.last_offset + 1
                for record in () if batch.is_control else records(batch):
                    if record.key is None or record.value is None or kind_of(record.key) != KIND_TRANSACTION:
                        continue
                    value = decode_value(record.value)
                    yield max(value.producer_id, value.previous_producer_id, value.next_producer_id)
        except CorruptRecord as error:
            logger.error(
                "the producer ids in %s are not known from offset %d on: %s",
                log.topic_partition,
                offset,
                error,
            )
            return
        await asyncio.sleep(0)
