"""Offset syncs: pairs of offsets, and the runs that they are of, for a mirror that starts again and for other readers.

MirrorMaker 2 takes the newest pair that is not after a group's offset. An equal one gives its target offset, else it is
that offset plus one. So each pair here is the last record of what was passed. A group that has read a quiet topic to
its end is then translated exactly. Our own readers take the run in the record's header.

A partition that passed records has one sync for every few seconds, whatever its traffic is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from odradek.foundation.ids import TopicPartition
from odradek.mirror.formats import (
    OffsetSync,
    TopicIds,
    offset_sync_key,
    offset_sync_value,
    run_header,
    topics_header,
)
from odradek.mirror.offset_index import Run, joined

# Between two syncs of a partition. With ten transactions in a second a run of that time has fifty markers, by which a
# translation after a restart may be behind.
OFFSET_SYNC_SECONDS: Final = 5.0


class PendingSyncs:
    """What was passed since the last syncs: one run for each partition."""

    def __init__(self) -> None:
        self._runs: dict[TopicPartition, Run] = {}

    def add(self, partition: TopicPartition, run: Run) -> None:
        """Note what was passed."""
        before = self._runs.get(partition)
        if before is not None and (
            run.source_first_offset >= before.source_end_offset
            and run.target_first_offset >= before.target_end_offset
        ):
            run = joined(before, run)
        self._runs[partition] = run

    def keep(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that other workers mirror now; what they had is at the target and needs no sync."""
        kept = set(partitions)
        self._runs = {key: run for key, run in self._runs.items() if key in kept}

    def take(self) -> dict[TopicPartition, Run]:
        """The runs to write now."""
        runs, self._runs = self._runs, {}
        return runs

    def restore(self, runs: dict[TopicPartition, Run]) -> None:
        """Put back runs that could not be written, in front of what was passed meanwhile."""
        later, self._runs = self._runs, dict(runs)
        for partition, run in later.items():
            self.add(partition, run)


def sync_of(partition: TopicPartition, run: Run) -> OffsetSync:
    """The pair of the last record. Where compaction removed that record, the pair is behind by one and never ahead."""
    return OffsetSync(partition, run.source_end_offset - 1, run.target_end_offset - 1)


class OffsetSyncWriter:
    """Writes the syncs of one flow to its topic, at the source or at the target."""

    def __init__(
        self, client: Client, topic: str, *, ids: Callable[[TopicPartition], TopicIds | None]
    ) -> None:
        """`ids` returns the ids of a partition's topic at both sides, if they are known."""
        self._producer = Producer(client)
        self._topic = topic
        self._ids = ids
        self.pending = PendingSyncs()
        self.written = 0

    async def start(self) -> None:
        """Begin to write. The topic exists."""
        await self._producer.start()

    async def write(self) -> None:
        """Write what is pending and wait for it. What fails is pending again, and the error is raised."""
        runs = self.pending.take()
        try:
            for partition, run in runs.items():
                if not run.record_count:
                    continue
                sync = sync_of(partition, run)
                ids = self._ids(partition)
                headers = [run_header(run), *([topics_header(ids)] if ids is not None else [])]
                await self._producer.send(
                    self._topic,
                    offset_sync_value(sync),
                    key=offset_sync_key(sync),
                    headers=headers,
                    partition=0,
                )
            await self._producer.flush()
        except BaseException:
            self.pending.restore(runs)
            raise
        self.written += len(runs)

    async def close(self) -> None:
        """Stop. What is pending is not written."""
        await self._producer.close(is_flushing=False)
