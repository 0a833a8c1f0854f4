"""Names and small files that a flush of one log has to sync besides log files and indexes."""

from __future__ import annotations

from odradek.storage.epochs import FILE_NAME as EPOCHS_FILE


class UnsyncedFiles:
    """Noted by the parts of the log that write them, read and cleared by its flusher."""

    __slots__ = ("_directory", "directories", "has_changed_files", "paths")

    def __init__(self, directory: str) -> None:
        self.begin_in(directory)

    def begin_in(self, directory: str) -> None:
        """Nothing of the log in `directory` is known to be on the device."""
        self._directory = directory
        # Directories with new names, and small files that changed.
        self.directories = {directory, directory.rpartition("/")[0] or "."}
        self.paths = {f"{directory}/{EPOCHS_FILE}"}
        # Whether a small file changed since the log was opened or flushed: a clean stop covers them too.
        self.has_changed_files = False

    def add_file(self, name: str) -> None:
        """A small file of the log was replaced."""
        self.paths.add(f"{self._directory}/{name}")
        self.has_changed_files = True

    def add_names(self) -> None:
        """The log's directory has new names."""
        self.directories.add(self._directory)

    def clear(self) -> None:
        """A flush covers everything so far."""
        self.paths.clear()
        self.directories.clear()
        self.has_changed_files = False
