"""Pieces of work on log directories that may run beside each other on any thread.

Each is made and taken back by `directory.LogDirectories` on its one thread, and touches nothing of it meanwhile: an
opening makes a log that nobody else has yet, a closing syncs files, a checkpoint write has its own copy of the
offsets. How many run at once is decided above.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from odradek.foundation.errors import CorruptRecord, KafkaStorageError
from odradek.foundation.ids import TopicPartition
from odradek.log.flushing import Flush
from odradek.log.log import Log
from odradek.log.volume import Volume


@dataclass(slots=True)
class LoadProgress:
    """How far the opening of all logs has come."""

    logs: int = 0
    logs_opened: int = 0
    """Those that cannot be opened counted in."""
    scanned_bytes: int = 0
    cut_bytes: int = 0
    started_seconds: float = 0.0
    """When it began, by the monotonic clock."""
    told_seconds: float = 0.0
    """When a line about it was last logged."""


class Opening:
    """One log to be opened. After `run` either `log` or `error` is set."""

    __slots__ = ("_open_log", "clean", "error", "log", "path_of_directory", "topic_partition")

    def __init__(
        self,
        topic_partition: TopicPartition,
        path_of_directory: str,
        *,
        clean: bool,
        open_log: Callable[[], Log],
    ) -> None:
        self.topic_partition = topic_partition
        self.path_of_directory = path_of_directory
        self.clean = clean
        self.log: Log | None = None
        self.error: KafkaStorageError | CorruptRecord | None = None
        self._open_log = open_log

    def run(self) -> None:
        """Open it, which may scan it."""
        try:
            self.log = self._open_log()
        except (KafkaStorageError, CorruptRecord) as error:
            self.error = error


class Closing:
    """One log to be closed. After `run` `error` says what went wrong, if anything did."""

    __slots__ = ("error", "flush", "log")

    def __init__(self, log: Log, flush: Flush | None) -> None:
        self.log = log
        self.flush = flush
        self.error: OSError | None = None

    def run(self) -> None:
        """Wait for the device."""
        if self.flush is not None:
            self.error = self.flush.try_sync()


class RoomTrial:
    """Log directories that refuse writes. After `run`, `with_room` are those that would take some again."""

    __slots__ = ("_directories", "with_room")

    def __init__(self, directories: Sequence[Volume]) -> None:
        self._directories = directories
        self.with_room: list[Volume] = []

    def run(self) -> None:
        """Try each; not two of these at once."""
        self.with_room = [one for one in self._directories if one.has_room()]


class CheckpointWrite:
    """Offsets for the checkpoint files of each directory, as they were when this was made."""

    __slots__ = ("_offsets", "errors")

    def __init__(self, offsets: Sequence[tuple[Volume, Mapping[str, dict[TopicPartition, int]]]]) -> None:
        """`offsets` by directory and name of the file."""
        self._offsets = offsets
        self.errors: list[tuple[str, OSError]] = []
        """(directory, what went wrong)."""

    def run(self) -> None:
        """Write them; not two of these at once."""
        for directory, files in self._offsets:
            try:
                for name, offsets in files.items():
                    directory.write_checkpoint(name, offsets)
            except OSError as error:
                self.errors.append((directory.path, error))
