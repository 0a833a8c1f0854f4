"""Where the source ends, for partitions without fetches: those of a worker that waits, and those that stopped.

Each answer to a fetch has the end of the readable records. While none arrives, the source is asked for it now and then.
Where it does not answer the end is unknown, and so is the lag: a number that stands still would look like an idle
topic.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from odradek.client.admin.logs import LATEST, LogAdmin
from odradek.client.admin.results import ListedOffset
from odradek.client.client import Client
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.mirror_limits import MIRROR_ENDS_SECONDS
from odradek.mirror.counters import FlowCounters

logger = logging.getLogger(__name__)

_MS_PER_SECOND: Final = 1000


class SourceEnds:
    """Keeps the ends of one flow's partitions known. Call `look` every `MIRROR_ENDS_SECONDS`."""

    def __init__(self, source: Client, counters: FlowCounters) -> None:
        self._source = source
        self._counters = counters

    async def look(self) -> None:
        """Ask for each end that is not known, or was seen too long ago. It is forgotten where no answer comes."""
        counters = self._counters
        seen_since_ms = counters.wall_ms() - int(MIRROR_ENDS_SECONDS * _MS_PER_SECOND)
        asked = [
            partition
            for partition, of in counters.partitions.items()
            # Without a position there is no lag.
            if of.position is not None and (of.end_offset is None or of.end_seen_ms <= seen_since_ms)
        ]
        if not asked:
            return
        answers = await self._answers(asked)
        for partition in asked:
            answer = answers.get(partition)
            kept = counters.partitions.get(partition)
            if isinstance(answer, ListedOffset):
                counters.at(partition, end_offset=answer.offset)
            elif kept is not None and kept.end_seen_ms <= seen_since_ms:
                kept.forget()

    async def _answers(
        self, asked: list[TopicPartition]
    ) -> dict[TopicPartition, ListedOffset | OdradekError]:
        try:
            async with asyncio.timeout(MIRROR_ENDS_SECONDS):
                return await LogAdmin(self._source).list_offsets_each(
                    dict.fromkeys(asked, LATEST), read_committed=True
                )
        except (TimeoutError, OdradekError) as failure:
            source = self._counters.source_alias
            logger.info(
                "the ends of %d partitions of %s are not known: %s",
                len(asked),
                source,
                failure or "no answer",
            )
            return {}
