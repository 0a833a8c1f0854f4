"""Reads one log: ranges of its files for consumers and followers, and look-ups by time and epoch.

A read looks at a few batch headers. The index gives a position to start from, and the positions of readers that follow
the log's end are remembered. It returns a range of a file, not bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.foundation.errors import OffsetOutOfRange
from odradek.storage import lookup
from odradek.storage.config import LogConfig
from odradek.storage.epochs import EpochEntry
from odradek.storage.files import EMPTY_SLICE, FileSlice
from odradek.storage.index import IndexDamagedError
from odradek.storage.log_parts import LogParts
from odradek.storage.lookup import TimestampOffset
from odradek.storage.recovery import rebuild_indexes
from odradek.storage.segment import Segment
from odradek.storage.transaction_index import AbortedTxn


class LogReader:
    """Changes nothing but remembered positions, and indexes that turn out to be damaged."""

    __slots__ = ("_config", "_epochs", "_health", "_offsets", "_segments")

    def __init__(self, parts: LogParts, config: LogConfig) -> None:
        self._segments, self._offsets = parts.segments, parts.offsets
        self._health, self._epochs = parts.health, parts.epochs
        self.reconfigure(config)

    def reconfigure(self, config: LogConfig) -> None:
        """Use these settings from now on."""
        self._config = config

    # --- read ------------------------------------------------------------------------------------------------------

    def read(
        self,
        fetch_offset: int,
        *,
        bytes_max: int,
        offset_limit: int | None = None,
        at_least_one_batch: bool = True,
    ) -> FileSlice:
        """The batches from the one that holds `fetch_offset` on: at most `bytes_max`, all below `offset_limit`.

        The bound may tear the last batch, as in Kafka; a reader asks for it again. The first is whole: when it is
        larger than `bytes_max`, `at_least_one_batch` returns it and else nothing is returned. Empty at the end.
        Raises OffsetOutOfRange, KafkaStorageError, CorruptRecord when the file is damaged.
        """
        if self._health.failure is not None:
            raise self._health.unusable()
        offsets = self._offsets
        end_offset = offsets.log_end_offset
        if not offsets.log_start_offset <= fetch_offset <= end_offset:
            raise OffsetOutOfRange(
                f"offset {fetch_offset} of {self._health.topic_partition} is asked for; it has "
                f"{offsets.log_start_offset} to {end_offset}"
            )
        if offset_limit is None or offset_limit > end_offset:
            offset_limit = end_offset
        segments = self._segments
        if fetch_offset >= offset_limit:
            if fetch_offset == end_offset:
                # A reader that waits here asks for this offset again once it has a record.
                segments.active.remember_position(end_offset, segments.active.size_bytes)
            return EMPTY_SLICE
        try:
            for number in range(max(segments.floor(fetch_offset), 0), len(segments.all)):
                segment = segments.all[number]
                position = self._position_of(segment, fetch_offset)
                # No batch of this segment reaches up to the offset when its last ones were compacted away.
                if 0 <= position < segment.size_bytes:
                    return self._slice(number, segment, position, bytes_max, offset_limit, at_least_one_batch)
        except OSError as error:
            raise self._health.disk_failed("a read", error) from error
        return EMPTY_SLICE

    def _slice(
        self,
        number: int,
        segment: Segment,
        position: int,
        bytes_max: int,
        offset_limit: int,
        at_least_one_batch: bool,
    ) -> FileSlice:
        end = segment.size_bytes
        if offset_limit < self._segments.upper_offset(number, end_offset=self._offsets.log_end_offset):
            limit_position = self._position_of(segment, offset_limit)
            if limit_position >= 0:
                end = limit_position
        available = end - position
        if available <= 0:
            return EMPTY_SLICE
        if available <= bytes_max:
            # The reader fetches what follows this slice next.
            segment.remember_position(offset_limit, end)
            return segment.slice(position, available)
        first_batch_bytes = segment.batch_size_at(position)
        if first_batch_bytes > bytes_max:
            return segment.slice(position, first_batch_bytes) if at_least_one_batch else EMPTY_SLICE
        return segment.slice(position, bytes_max)

    def _position_of(self, segment: Segment, offset: int) -> int:
        try:
            return segment.position_of(offset)
        except IndexDamagedError as damage:
            self._rebuild_indexes(segment, damage)
            return segment.position_of(offset)

    def _rebuild_indexes(self, segment: Segment, damage: IndexDamagedError) -> None:
        name = str(self._health.topic_partition)
        rebuild_indexes(segment, config=self._config, name=name, why=str(damage))

    # --- look up ---------------------------------------------------------------------------------------------------

    def highest_timestamp(self) -> int:
        """The newest timestamp in the log in ms, -1 for none. Raises KafkaStorageError."""
        with self._health.attempt("a look-up"):
            return max(segment.max_timestamp()[0] for segment in self._segments.all)

    def offset_for_timestamp(
        self, timestamp_ms: int, *, offset_limit: int | None = None
    ) -> TimestampOffset | None:
        """The first record that is not older than `timestamp_ms`; None when all below `offset_limit` are.

        Raises KafkaStorageError, CorruptRecord.
        """
        return lookup.finish_search(self.search_timestamp(timestamp_ms, offset_limit=offset_limit))

    def offset_of_max_timestamp(self, *, offset_limit: int | None = None) -> TimestampOffset | None:
        """The first of the records with the newest timestamp, also below the log's start; None in an empty log.

        Raises as the other.
        """
        return lookup.finish_search(self.search_newest(offset_limit=offset_limit))

    def search_timestamp(self, timestamp_ms: int, *, offset_limit: int | None = None) -> lookup.Search:
        """`offset_for_timestamp` in steps, between which the log may change."""
        return self._run_search(
            lambda segments, limit: lookup.first_at_or_after(
                segments,
                timestamp_ms,
                offset_min=self._offsets.log_start_offset,
                offset_limit=limit,
            ),
            offset_limit,
        )

    def search_newest(self, *, offset_limit: int | None = None) -> lookup.Search:
        """`offset_of_max_timestamp` in steps, between which the log may change."""
        return self._run_search(
            lambda segments, limit: lookup.newest(segments, offset_limit=limit), offset_limit
        )

    def _run_search(
        self, begin: Callable[[Sequence[Segment], int], lookup.Search], offset_limit: int | None
    ) -> lookup.Search:
        limit = self._offsets.log_end_offset if offset_limit is None else offset_limit
        is_rebuilt = False
        while True:
            segments = self._segments.all
            search = begin(segments, limit)
            found: TimestampOffset | None = None
            # What was found in a batch counts. A search that continues after segments were removed starts again.
            while found is not None or self._has_all(segments):
                with self._health.attempt("a look-up"):
                    try:
                        opened = search.send(found)
                    except StopIteration as end:
                        result: TimestampOffset | None = end.value
                        return result
                    except IndexDamagedError as damage:
                        if is_rebuilt:
                            raise
                        is_rebuilt = True
                        for segment in self._segments.all:
                            self._rebuild_indexes(segment, damage)
                        break
                    found = yield opened

    def _has_all(self, segments: Sequence[Segment]) -> bool:
        return segments is self._segments.all or set(segments) <= set(self._segments.all)

    def end_offset_for_epoch(self, epoch: int) -> EpochEntry:
        """The newest epoch not above `epoch` and the offset where it ended; (-1, -1) when there is none."""
        return self._epochs.end_offset_for(epoch, log_end_offset=self._offsets.log_end_offset)

    def find_aborted_transactions(self, fetch_offset: int, upper_offset: int) -> list[AbortedTxn]:
        """The aborted transactions with records in [fetch_offset, upper_offset), in the order of their markers.

        Raises KafkaStorageError, CorruptRecord.
        """
        found: list[AbortedTxn] = []
        with self._health.attempt("a look-up"):
            for segment in self._segments.from_offset(fetch_offset):
                aborted, is_complete = segment.transaction_index.overlapping(fetch_offset, upper_offset)
                found += aborted
                if is_complete:
                    break
        return found

    def find_aborted_in(
        self, records: FileSlice, fetch_offset: int, *, offset_limit: int
    ) -> list[AbortedTxn]:
        """The aborted transactions with records in what a read from `fetch_offset` below `offset_limit` has given.

        As in Kafka the bound is the next index entry behind the slice, else the next segment: a few more may be named.
        Raises as `find_aborted_transactions`.
        """
        segments = self._segments
        first = max(segments.floor(fetch_offset), 0)
        if all(segment.transaction_index.is_empty for segment in segments.all[first:]):
            return []
        upper_offset = offset_limit
        for number in range(first, len(segments.all)):
            segment = segments.all[number]
            if segment.file is not records.file:
                continue
            try:
                behind = segment.offset_index.offset_behind(records.position + records.size)
            except IndexDamagedError:
                behind = None
            except OSError as error:
                raise self._health.disk_failed("a look-up", error) from error
            if behind is None:
                behind = segments.upper_offset(number, end_offset=self._offsets.log_end_offset)
            upper_offset = min(behind, offset_limit)
            break
        return self.find_aborted_transactions(fetch_offset, upper_offset)
