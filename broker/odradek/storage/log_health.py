"""Whether a log can be used, and what a failing disk means for it.

A disk that is full refuses writes until there is room again. Each refusal is reported to `on_shortage`. Any other
failure makes the log fail for as long as the process lives, and is reported to `on_failure`. After one failure, nothing
that the disk returns is certain.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from odradek.foundation.errors import KafkaStorageError
from odradek.foundation.ids import TopicPartition
from odradek.storage.disk_space import is_shortage, shortage_advice

logger = logging.getLogger(__name__)

OnDiskError = Callable[[str, OSError], None]
"""Called with a log directory's path and what failed there."""


class LogHealth:
    """The state that all parts of one log check before they touch its files."""

    __slots__ = (
        "_on_failure",
        "_on_shortage",
        "_release_files",
        "directory",
        "failure",
        "parent_directory",
        "topic_partition",
    )

    def __init__(
        self,
        directory: str,
        topic_partition: TopicPartition,
        *,
        release_files: Callable[[], None],
        on_failure: OnDiskError | None,
        on_shortage: OnDiskError | None,
    ) -> None:
        self.move_to(directory)
        self.topic_partition = topic_partition
        # Why the log cannot be used any more; None while it can.
        self.failure: str | None = None
        self._release_files = release_files
        self._on_failure = on_failure
        self._on_shortage = on_shortage

    def move_to(self, directory: str) -> None:
        """The log's files are in `directory` from now on."""
        self.directory = directory
        # The log directory that this one is in.
        self.parent_directory = directory.rpartition("/")[0] or "."

    def fail(self, why: str) -> None:
        """Refuse everything from now on: the disk under the log failed, or the log was closed."""
        if self.failure is None:
            self.failure = why
            self._release_files()

    def require_usable(self) -> None:
        """Raises KafkaStorageError when the log has failed or was closed."""
        if self.failure is not None:
            raise self.unusable()

    @contextmanager
    def attempt(self, action: str, *, may_pass: bool = True) -> Iterator[None]:
        """For a block that works on the log's files. Raises KafkaStorageError when the log is not usable, and for an
        OSError in the block: as `disk_failed` says.
        """
        self.require_usable()
        try:
            yield
        except OSError as error:
            raise self.disk_failed(action, error, may_pass=may_pass) from error

    def unusable(self) -> KafkaStorageError:
        """The error of a log that has failed or was closed."""
        return KafkaStorageError(f"{self.topic_partition} cannot be used on this broker: {self.failure}")

    def disk_failed(self, action: str, error: OSError, *, may_pass: bool = True) -> KafkaStorageError:
        """The error to raise for `error`; the log fails unless it is a shortage, which `may_pass`."""
        if may_pass and is_shortage(error):
            self.report_shortage(error)
            return KafkaStorageError(
                f"{action} of {self.topic_partition} was refused and nothing was written: {error.strerror} in "
                f"{self.directory}; {shortage_advice(error)}: writes continue then"
            )
        logger.error("%s of %s in %s failed: %s", action, self.topic_partition, self.directory, error)
        self.fail(f"its disk failed ({error}); see to {self.directory} and restart the broker")
        if self._on_failure is not None:
            self._on_failure(self.parent_directory, error)
        return self.unusable()

    def report_shortage(self, error: OSError) -> None:
        """The log directory has no room for a write."""
        if self._on_shortage is not None:
            self._on_shortage(self.parent_directory, error)
