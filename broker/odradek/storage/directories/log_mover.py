"""Moves of logs between the log directories of a broker, step by step and through every crash (KIP-113).

    <new>/<topic>-<partition>.<id>-future/odradek-copy      names the log, and the directory from which it moves

The move is done once the copy has the log's own name: one rename. A start that finds both names serves the one with
that file, and removes the other. A start that finds a copy removes it, and the move begins again. Kafka ignores the
file.

Nothing is written to the directory from which a log moves, which may be full.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping

from odradek.foundation.ids import TopicPartition
from odradek.foundation.limits import LOG_DIRECTORIES_CHOSEN_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.storage.checkpoints import PARTITION_METADATA_FILE, write_topic_id
from odradek.storage.directories.directory_set import DirectorySet
from odradek.storage.directories.log_directory import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    LogDirectory,
    parse_partition,
    path_with_suffix,
)
from odradek.storage.files import Disk
from odradek.storage.log import Log
from odradek.storage.log_copy import COPY_FILE, LogCopy

logger = logging.getLogger(__name__)


class _Note(NamedTuple):
    """What the file says."""

    topic_partition: TopicPartition
    origin: str


class LogMover:
    """Belongs to the thread of the `LogManager`, except where a method says otherwise."""

    def __init__(
        self,
        *,
        disk: Disk,
        directories: DirectorySet,
        logs: Mapping[TopicPartition, Log],
        placed: Callable[[], Mapping[str, set[TopicPartition]]],
        remove_later: Callable[[str], None],
        on_moved: Callable[[Log], None],
    ) -> None:
        """`placed` reads which directory was last said to hold what. `on_moved` is called with a log that has moved."""
        self._disk = disk
        self._directories = directories
        self._logs = logs
        self._placed = placed
        self._remove_later = remove_later
        self._on_moved = on_moved
        self.under_way: dict[TopicPartition, LogCopy] = {}
        """The copies that are being made, at most one of each log."""
        self.unfinished: dict[TopicPartition, str] = {}
        """Moves that the last stop interrupted: where each log was to move to."""
        # Directories of partitions that are not here yet, the newest last.
        self._chosen: dict[TopicPartition, str] = {}

    # --- at a start --------------------------------------------------------------------------------------------------

    def note_unfinished(self, copy_directory: str) -> None:
        """A copy that a stop left incomplete: its move is to begin again. Raises OSError."""
        note = self._read_note(copy_directory)
        if note is not None:
            self.unfinished[note.topic_partition] = copy_directory.rpartition("/")[0]

    def newer_of(self, topic_partition: TopicPartition, first: str, second: str) -> str | None:
        """Which of two log directories has the log, where it moved from one to the other. Raises OSError.

        None where nothing says so.
        """
        for directory, other in ((first, second), (second, first)):
            note = self._read_note(f"{directory}/{topic_partition}")
            if note is not None and note.origin == other:
                return directory
        return None

    def put_away(self, parent_directory: str, topic_partition: TopicPartition) -> None:
        """Rename what a log left behind when it moved; it is removed later. Raises OSError."""
        away = path_with_suffix(parent_directory, topic_partition, DELETE_SUFFIX)
        self._disk.rename(f"{parent_directory}/{topic_partition}", away)
        self._remove_later(away)

    def find_elsewhere(self, directory: LogDirectory) -> set[TopicPartition]:
        """The logs that moved from here to a directory that failed since: what is here of them is old."""
        failed = self._directories.offline
        if not failed:
            return set()
        placed = self._placed()
        return (
            set().union(*(placed.get(path, ()) for path in failed)).difference(placed.get(directory.path, ()))
        )

    def _read_note(self, directory: str) -> _Note | None:
        try:
            note = json.loads(self._disk.read(f"{directory}/{COPY_FILE}"))
            topic_partition = parse_partition(note["log"])
            return None if topic_partition is None else _Note(topic_partition, str(note["from"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            # It is written in one step: only a failing disk damages it.
            logger.warning("%s/%s cannot be read, and is passed over: %s", directory, COPY_FILE, error)
            return None

    # --- where new logs are made -------------------------------------------------------------------------------------

    def choose(self, topic_partition: TopicPartition, path: str) -> None:
        """A log that is not here is to be made in this directory, should it come."""
        self._chosen.pop(topic_partition, None)
        while len(self._chosen) >= LOG_DIRECTORIES_CHOSEN_MAX:
            del self._chosen[next(iter(self._chosen))]
        self._chosen[topic_partition] = path

    def take_chosen(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """The directory that was chosen for a log which is made now; None for none, or one that failed."""
        chosen = self._directories.by_path.get(self._chosen.pop(topic_partition, ""))
        return None if chosen is None or chosen.failure is not None else chosen

    # --- a move ------------------------------------------------------------------------------------------------------

    def begin(self, topic_partition: TopicPartition, path: str) -> LogCopy:
        """The copy of a log that moves to the directory `path`; no other copy of it is there."""
        copy = LogCopy(
            self._logs[topic_partition],
            path_with_suffix(path, topic_partition, FUTURE_SUFFIX),
            disk=self._disk,
        )
        self.under_way[topic_partition] = copy
        return copy

    def mark(self, copy: LogCopy) -> None:
        """Make the copy's directory, with a word of what it is; on any thread. Raises OSError."""
        log = copy.log
        # The word of an earlier move would contradict this one's.
        self._disk.remove(f"{log.directory}/{COPY_FILE}")
        self._disk.sync_directory(log.directory)
        self._disk.make_directory(copy.directory)
        note = {"from": log.parent_directory, "log": str(log.topic_partition)}
        self._disk.replace(f"{copy.directory}/{COPY_FILE}", json.dumps(note).encode())
        if log.topic_id is not None:
            metadata = f"{copy.directory}/{PARTITION_METADATA_FILE}"
            write_topic_id(self._disk, metadata, log.topic_id)
            self._disk.open(metadata).sync()
        self._disk.sync_directory(copy.parent_directory)

    def cancel(self, topic_partition: TopicPartition) -> None:
        """The log moves no more: it has gone, or goes elsewhere. Its maker removes the copy."""
        copy = self.under_way.pop(topic_partition, None)
        if copy is not None:
            copy.is_cancelled = True

    def discard(self, copy_directory: str) -> None:
        """Remove a copy that does not become a log; on any thread. It need not be there. Raises OSError.

        It has the name of a deleted log first. A kill in between would leave records without the word of what they are.
        """
        if not self._disk.exists(copy_directory):
            return
        away = copy_directory.removesuffix(FUTURE_SUFFIX) + DELETE_SUFFIX
        self._disk.rename(copy_directory, away)
        self._disk.sync_directory(copy_directory.rpartition("/")[0])
        self._disk.remove_tree(away)

    def note_truncation(self, log: Log) -> None:
        """The log was truncated."""
        copy = self.under_way.get(log.topic_partition)
        if copy is not None and copy.log is log:
            copy.forget_truncated()

    def finish(self, copy: LogCopy, *, must_sync: bool) -> str:
        """Serve the log from its copy from now on, which lacks little (`LogCopy.next_piece`).

        Returns the log directory where it was, for `settle`. Raises OSError; nothing has changed then.
        """
        log = copy.log
        old, path = log.parent_directory, copy.parent_directory
        copy.finish(must_sync=must_sync)
        new = f"{path}/{log.topic_partition}"
        self._disk.rename(copy.directory, new)
        del self.under_way[log.topic_partition]
        log.move_to(new)
        self._directories.by_path[old].log_count -= 1
        self._directories.by_path[path].log_count += 1
        self._on_moved(log)
        return old

    def settle(self, copy: LogCopy) -> None:
        """The new name reaches the device, before the old one goes; on any thread. Raises OSError."""
        self._disk.sync_directory(copy.parent_directory)
