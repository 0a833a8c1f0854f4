"""Offset syncs: pairs of offsets, and the runs that they are of, for a mirror that starts again and for other readers.

MirrorMaker 2 takes the newest pair that is not after a group's offset. An equal one gives its target offset, else it is
that offset plus one. So each pair here is the last record of what was passed. A group that has read a quiet topic to
its end is then translated exactly. Our own readers take the run in the record's header.

A partition that passed records has a sync every five seconds. One that passed `offset.lag.max` offsets of the target
since its last sync is due earlier, as in MirrorMaker 2. That is looked at once a second, so a partition has at most one
sync in a second, whatever its traffic is.
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
from odradek.mirror.offset_translation import OffsetRun, join_runs

# Between two syncs of a partition. With ten transactions in a second a run of that time has fifty markers, by which a
# translation after a restart may be behind.
OFFSET_SYNC_SECONDS: Final = 5.0
# Between two looks for partitions that are due earlier.
OFFSET_SYNC_DUE_SECONDS: Final = 1.0


class PendingSyncs:
    """The batches passed since the last syncs: one run for each partition. `lag_max` is `offset.lag.max`."""

    def __init__(self, lag_max: int) -> None:
        self._lag_max = lag_max
        self._runs: dict[TopicPartition, OffsetRun] = {}
        # The target's offset in the last sync of each partition.
        self._synced: dict[TopicPartition, int] = {}

    def add(self, partition: TopicPartition, run: OffsetRun) -> None:
        """Note what was passed."""
        before = self._runs.get(partition)
        if before is not None and (
            run.source_first_offset >= before.source_end_offset
            and run.target_first_offset >= before.target_end_offset
        ):
            run = join_runs(before, run)
        self._runs[partition] = run

    def keep(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that other workers mirror now; what they had is at the target and needs no sync."""
        kept = set(partitions)
        self._runs = {key: run for key, run in self._runs.items() if key in kept}
        self._synced = {key: offset for key, offset in self._synced.items() if key in kept}

    def take(self, *, is_due: bool = False) -> dict[TopicPartition, OffsetRun]:
        """The runs to write now; with `is_due` those alone that cannot wait."""
        runs = {key: run for key, run in self._runs.items() if not is_due or self._is_due(key, run)}
        self._runs = {key: run for key, run in self._runs.items() if key not in runs}
        self._synced |= {key: sync_of(key, run).target_offset for key, run in runs.items()}
        return runs

    def _is_due(self, partition: TopicPartition, run: OffsetRun) -> bool:
        """Whether readers of the last sync are too far behind: they take its offset at the target plus one."""
        last, offset = self._synced.get(partition), sync_of(partition, run).target_offset
        if last is None or offset < last:
            return True  # no sync yet, or the target's log begins again
        return offset - (last + 1) >= self._lag_max

    def restore(self, runs: dict[TopicPartition, OffsetRun]) -> None:
        """Put back runs that could not be written, in front of what was passed since."""
        later, self._runs = self._runs, dict(runs)
        for partition, run in later.items():
            self.add(partition, run)


def sync_of(partition: TopicPartition, run: OffsetRun) -> OffsetSync:
    """The pair of the last record. Where compaction removed that record, the pair is behind by one and never ahead."""
    return OffsetSync(partition, run.source_end_offset - 1, run.target_end_offset - 1)


class OffsetSyncWriter:
    """Writes the syncs of one flow to its topic, at the source or at the target."""

    def __init__(
        self,
        client: Client,
        topic: str,
        *,
        ids: Callable[[TopicPartition], TopicIds | None],
        lag_max: int,
    ) -> None:
        """`ids` returns the ids of a partition's topic at both sides, if they are known."""
        self._producer = Producer(client)
        self._topic = topic
        self._ids = ids
        self.pending = PendingSyncs(lag_max)
        self.written = 0

    async def start(self) -> None:
        """Begin to write. The topic exists."""
        await self._producer.start()

    async def write(self, *, is_due: bool = False) -> None:
        """Write what is pending, or what of it is due, and wait for it. What fails is pending again, and the error is
        raised.
        """
        runs = self.pending.take(is_due=is_due)
        if not runs:
            return
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
