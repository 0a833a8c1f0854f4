"""Up to where every assigned replica of a partition is compacted: tombstones and markers below may go.

A replica that was away may still have a record that a tombstone deletes, or the data of an aborted transaction. Once
the tombstone or the marker is gone elsewhere, that replica never learns of it, and shows the old state when it leads.
So each broker asks the other assigned replicas, in-sync or not, before it removes any. It sends ListOffsets with a
special value that only brokers use. A replica that does not answer delays the removal. A new one counts from its log's
start.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from odradek.broker.replication.broker_transport import BrokerTransport, list_offset
from odradek.broker.replication.partition import Partition
from odradek.foundation.errors import FrameError, OdradekError
from odradek.storage.compaction.candidates import first_dirty_offset

logger = logging.getLogger(__name__)

COMPACTED_UP_TO: Final = -64
"""The special value of ListOffsets. Kafka's own are small negative numbers."""
_LIST_OFFSETS_VERSION: Final = 7
_ANSWER_SECONDS_MAX: Final = 5.0


class RemovalBounds:
    """`transport` carries requests to other brokers; `broker_id` is this one's."""

    def __init__(self, transport: BrokerTransport, *, broker_id: int) -> None:
        self._transport = transport
        self._broker_id = broker_id

    async def find_bound(self, partition: Partition) -> int:
        """The smallest offset up to which an assigned replica is compacted; 0 when one does not say."""
        own = first_dirty_offset(partition.log)
        others = [replica for replica in partition.replica.replicas if replica != self._broker_id]
        answers = await asyncio.gather(*(self._ask_replica(replica, partition) for replica in others))
        return min((own, *answers))

    async def _ask_replica(self, broker_id: int, partition: Partition) -> int:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS_MAX):
                code, offset = await list_offset(
                    self._transport,
                    broker_id,
                    partition.topic_partition,
                    COMPACTED_UP_TO,
                    api_version=_LIST_OFFSETS_VERSION,
                    replica_id=self._broker_id,
                )
        except (OSError, OdradekError, FrameError) as failure:
            logger.info(
                "broker %d does not say up to where %s is compacted, so its tombstones stay: %s",
                broker_id,
                partition.topic_partition,
                failure,
            )
            return 0
        return 0 if code else max(offset, 0)
