"""A flush in three steps, so that the middle one, which waits for the device, can run on another thread.

`Log.begin_flush` takes down what has to be synced, `Flush.sync` syncs it and touches nothing else, and
`Log.end_flush` moves the recovery point. `Log.flush` does all three where waiting does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.log.files import Disk, DiskFile


class Flush:
    """What has to reach the device for all below `offset` to be safe."""

    __slots__ = ("_directories", "_disk", "_files", "_paths", "generation", "offset")

    def __init__(
        self,
        *,
        offset: int,
        generation: int,
        files: Sequence[DiskFile],
        paths: Sequence[str],
        directories: Sequence[str],
        disk: Disk,
    ) -> None:
        self.offset = offset
        # Tells a flush that was overtaken by a truncation, whose offsets mean other records since.
        self.generation = generation
        self._files = files
        self._paths = paths
        self._directories = directories
        self._disk = disk

    def sync(self) -> None:
        """Wait for the device; on any thread. Raises OSError, to be handed to `Log.end_flush`."""
        for file in self._files:
            file.sync()
        for path in self._paths:
            # Opened by name here, since these files are seldom open; one may have been deleted meanwhile.
            try:
                file = self._disk.open(path)
            except FileNotFoundError:
                continue
            file.sync()
        for directory in self._directories:
            try:
                self._disk.sync_directory(directory)
            except FileNotFoundError:
                continue

    def try_sync(self) -> OSError | None:
        """As `sync`; the error instead of raising it."""
        try:
            self.sync()
        except OSError as error:
            return error
        return None
