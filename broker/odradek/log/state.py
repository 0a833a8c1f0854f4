"""What is known of an open log, and what a failing disk means for it.

A disk that is full refuses writes until there is room again; each refusal is reported to `on_shortage`. Any other
failure makes the log fail (`failure`) for as long as the process lives, and is reported to `on_failure`: a disk that
failed once cannot be believed about what it still holds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from odradek.foundation.clock import Clock
from odradek.foundation.errors import KafkaStorageError
from odradek.foundation.ids import TopicId, TopicPartition
from odradek.log.appending import AppendRules
from odradek.log.config import LogConfig
from odradek.log.disposal import Disposal
from odradek.log.epochs import FILE_NAME as EPOCHS_FILE
from odradek.log.files import Disk
from odradek.log.index import OFFSET_ENTRY, TIME_ENTRY
from odradek.log.loading import Loaded
from odradek.log.retention import RetentionStrategy
from odradek.log.room import is_shortage, room_advice
from odradek.log.segments import Segments

logger = logging.getLogger(__name__)


class LogState:
    """The part of a log that all others work on. One thread at a time."""

    def __init__(
        self,
        directory: str,
        topic_partition: TopicPartition,
        loaded: Loaded,
        *,
        topic_id: TopicId | None,
        config: LogConfig,
        disk: Disk,
        clock: Clock,
        on_failure: Callable[[str, OSError], None] | None,
        on_shortage: Callable[[str, OSError], None] | None,
        strategies: Sequence[RetentionStrategy],
    ) -> None:
        self.directory = directory
        # The log directory that this one is in.
        self.path_of_directory = directory.rpartition("/")[0] or "."
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        # What opening the log had to read in full and what it had to cut off, for whoever reports the start.
        self.recovered_bytes = loaded.bytes_scanned
        self.cut_bytes = loaded.bytes_cut
        # Why the log cannot be used any more; None while it can.
        self.failure: str | None = None
        self.segments = Segments(loaded.segments)
        for segment in loaded.segments[:-1]:
            segment.close_to_appends()
        self._disk = disk
        self._clock = clock
        self._on_failure = on_failure
        self._on_shortage = on_shortage
        self._strategies = tuple(strategies)
        self._disposal = Disposal(disk)
        self._opened_at_offset = loaded.log_end_offset
        self._generation = 0
        self._flushed_at_ms = clock.wall_ms()
        # Whether as many records are unflushed since the last append as flush.messages allows, or more.
        self.must_flush = False
        # What a flush has to sync besides log files: names that are new, and the epochs' file when it changed.
        self._unsynced_directories = {directory, self.path_of_directory}
        self._unsynced_paths = {f"{directory}/{EPOCHS_FILE}"}
        # Whether such a file was written since the log was opened or flushed: a stop vouches for it too.
        self._has_changed_small_files = False
        self._last_epoch = loaded.epochs.latest_epoch
        self.reconfigure(config)

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset})"

    def reconfigure(self, config: LogConfig) -> None:
        """Go by these settings from now on."""
        self.config = config
        self._rules = AppendRules(config, self.topic_partition)
        self._offset_entries_max = config.segment_index_bytes // OFFSET_ENTRY.size
        self._time_entries_max = config.segment_index_bytes // TIME_ENTRY.size - 1

    def _small_file_changed(self, name: str) -> None:
        self._unsynced_paths.add(f"{self.directory}/{name}")
        self._has_changed_small_files = True

    @property
    def size_bytes(self) -> int:
        """Bytes of the log files."""
        return self.segments.size_bytes

    # --- failure ---------------------------------------------------------------------------------------------------

    def fail(self, why: str) -> None:
        """Refuse everything from now on: the disk under the log failed, or the log was closed."""
        if self.failure is None:
            self.failure = why
            for segment in self.segments.all:
                segment.release()

    def _require_usable(self) -> None:
        if self.failure is not None:
            raise self._unusable()

    def _unusable(self) -> KafkaStorageError:
        return KafkaStorageError(f"{self.topic_partition} cannot be used on this broker: {self.failure}")

    def _disk_failed(self, action: str, error: OSError, *, may_pass: bool = True) -> KafkaStorageError:
        """What to raise for `error`; the log fails unless it is a shortage, which `may_pass`."""
        if may_pass and is_shortage(error):
            self._fell_short(error)
            return KafkaStorageError(
                f"{action} of {self.topic_partition} was refused and nothing was written: {error.strerror} in "
                f"{self.directory}; {room_advice(error)}: writes go on then"
            )
        logger.error("%s of %s in %s failed: %s", action, self.topic_partition, self.directory, error)
        self.fail(f"its disk failed ({error}); see to {self.directory} and restart the broker")
        if self._on_failure is not None:
            self._on_failure(self.path_of_directory, error)
        return self._unusable()

    def _fell_short(self, error: OSError) -> None:
        """The log directory has no room for a write."""
        if self._on_shortage is not None:
            self._on_shortage(self.path_of_directory, error)
