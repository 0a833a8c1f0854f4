"""One log directory: its lock, whose it is, its checkpoints, and whether it was closed cleanly.

`log_manager` owns the logs in it. Everything here raises OSError when the disk fails; `directory_set` takes the
directory offline then.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Mapping
from typing import Final

from odradek.foundation.errors import SettingError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.limits import LOG_DIRECTORY_ROOM_BYTES_MIN
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.private_files import link_refused
from odradek.storage.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    META_PROPERTIES_FILE,
    CheckpointDamagedError,
    MetaProperties,
    OffsetCheckpoint,
    format_id,
    read_meta_properties,
    take_clean_shutdown,
    write_clean_shutdown,
    write_meta_properties,
)
from odradek.storage.disk_space import Shortage
from odradek.storage.files import Disk, DiskLock, DiskUsage
from odradek.storage.log_copy import COPY_FILE
from odradek.storage.segment import LOG_SUFFIX

logger = logging.getLogger(__name__)

LOCK_FILE: Final = ".lock"
DELETE_SUFFIX: Final = "-delete"
# Kafka gives this name to a log whose replica the cluster's metadata does not know.
STRAY_SUFFIX: Final = "-stray"
# The copy of a log that moves between directories, as Kafka names it too.
FUTURE_SUFFIX: Final = "-future"
# Kafka's own metadata log.
_IGNORED_PREFIX: Final = "__cluster_metadata-"
# The machine's life in which the directory was last known to lack nothing.
BOOT_FILE: Final = ".odradek-boot"
_NAME_BYTES_MAX: Final = 255
# There for a moment while a full directory is tried.
SPACE_CHECK_FILE: Final = ".odradek-room"


class DirectoryDescription(NamedTuple):
    """One log directory, as DescribeLogDirs returns it."""

    path: str
    failure: str | None
    """Why it is offline; None when it is not."""
    total_bytes: int
    """Of the volume; -1 when unknown."""
    usable_bytes: int
    """The bytes that the broker may still write; 0 where a quota leaves nothing."""
    is_full: bool
    """Whether writes are refused for want of room."""
    log_bytes: dict[TopicPartition, int]
    """The size of each log in it."""


def parse_partition(name: str) -> TopicPartition | None:
    """The partition whose log a subdirectory of this name is; None when it is none's."""
    topic, _, partition = name.rpartition("-")
    if not topic or not (partition.isascii() and partition.isdigit()):
        return None
    return TopicPartition(topic, int(partition))


def path_with_suffix(parent_directory: str, topic_partition: TopicPartition, suffix: str) -> str:
    """A directory's path for a log that is not served there: a name of its own that ends in `suffix`."""
    end = f".{uuid.uuid4().hex}{suffix}"
    return f"{parent_directory}/{str(topic_partition)[: _NAME_BYTES_MAX - len(end)]}{end}"


class LogDirectory:
    """A log directory; nothing is touched before `open`."""

    def __init__(self, path: str, *, disk: Disk) -> None:
        self.path = path
        # Why it is offline; None while it is not.
        self.failure: str | None = None
        # What to do about the failure.
        self.advice = ""
        # What refuses its writes for now; None while nothing does.
        self.shortage: Shortage | None = None
        self.meta: MetaProperties | None = None
        # How many logs it has; of no account once it is offline.
        self.log_count = 0
        # Whether the stop before this start was clean; known once the logs are loaded.
        self.was_clean = False
        # Whether it holds all that was ever written to it, the page cache included.
        self.is_complete = False
        self._disk = disk
        self._lock: DiskLock | None = None
        # What the checkpoint files hold, so that they are written only when something changed.
        self._written: dict[str, dict[TopicPartition, int]] = {}
        # The newest job that wrote each of them. Jobs run on any thread, two of them at once where one cannot wait.
        self._written_by: dict[str, int] = {}
        self._checkpoint_lock = threading.Lock()

    def open(self, *, broker_id: int) -> None:
        """Make the directory when needed, lock it and learn whose it is; `broker_id` -1 takes any.

        Raises DirectoryLocked, SettingError when it is another broker's, CheckpointDamagedError, OSError.
        """
        self._disk.make_directory(self.path, may_be_link=True)
        self._say_exposure()
        self._lock = self._disk.lock(f"{self.path}/{LOCK_FILE}")
        # A process that was killed in a trial may have left it.
        self._disk.remove(f"{self.path}/{SPACE_CHECK_FILE}")
        self.meta = read_meta_properties(self._disk, f"{self.path}/{META_PROPERTIES_FILE}")
        if self.meta is not None and broker_id >= 0 and self.meta.node_id not in (-1, broker_id):
            raise SettingError(
                f"the log directory {self.path} belongs to broker {self.meta.node_id}, and node.id is {broker_id}: "
                f"set node.id={self.meta.node_id}, or log.dirs to another directory"
            )

    def _say_exposure(self) -> None:
        """An existing directory keeps its mode: programs of other users may be meant to read it."""
        exposure = self._disk.exposure(self.path)
        if exposure:
            logger.log(
                logging.WARNING if exposure == "change" else logging.INFO,
                "other users of this machine may %s what is in the log directory %s: unless that is meant, run "
                "`chmod 700 %s`",
                exposure,
                self.path,
                self.path,
            )

    def unlock(self) -> None:
        """Let another process have it."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def require_cluster(self, cluster_id: str) -> None:
        """Raises SettingError when the directory is marked as another cluster's."""
        if self.meta is not None and self.meta.cluster_id not in ("", cluster_id):
            raise SettingError(
                f"the log directory {self.path} belongs to the cluster {self.meta.cluster_id}, and the registry to "
                f"the cluster {cluster_id}. Nothing was changed. Connect this broker to the registry of "
                f"{self.meta.cluster_id}; if that registry's data was lost, put it back from a backup"
            )

    def mark(self, *, cluster_id: str, broker_id: int) -> None:
        """Write down whose it is, unless that is there already. Raises OSError."""
        known = self.meta
        if known is not None and known.cluster_id and known.directory_id:
            return
        meta = MetaProperties(
            cluster_id=cluster_id,
            node_id=broker_id if known is None or known.node_id < 0 else known.node_id,
            directory_id=(known.directory_id if known else "") or format_id(uuid.uuid4()),
        )
        write_meta_properties(self._disk, f"{self.path}/{META_PROPERTIES_FILE}", meta)
        self.meta = meta

    def describe(self, log_bytes: dict[TopicPartition, int]) -> DirectoryDescription:
        """The directory with the logs in it and the room under it. Raises OSError."""
        usage = DiskUsage(-1, -1) if self.failure is not None else self._disk.usage(self.path)
        is_full = self.failure is None and self.shortage is not None and self.shortage.is_full
        # The volume may have room that a quota does not give.
        hides_it = is_full and usage.usable_bytes >= LOG_DIRECTORY_ROOM_BYTES_MIN
        return DirectoryDescription(
            path=self.path,
            failure=self.failure,
            total_bytes=usage.total_bytes,
            usable_bytes=0 if hides_it else usage.usable_bytes,
            is_full=is_full,
            log_bytes=log_bytes,
        )

    def free_bytes(self) -> int:
        """Free bytes of the volume; -1 when unknown."""
        try:
            return self._disk.usage(self.path).usable_bytes
        except OSError:
            return -1

    def has_space(self) -> bool:
        """Whether LOG_DIRECTORY_ROOM_BYTES_MIN bytes can be written, tried for real; waits for the device.

        Free bytes alone are no proof: a quota, a limit or a network's disk may refuse what the volume has.
        """
        path = f"{self.path}/{SPACE_CHECK_FILE}"
        try:
            if self._disk.usage(self.path).usable_bytes < LOG_DIRECTORY_ROOM_BYTES_MIN:
                return False
            try:
                file = self._disk.open(path, create=True)
                try:
                    file.truncate(0)
                    file.append(bytes(LOG_DIRECTORY_ROOM_BYTES_MIN))
                    file.sync()
                finally:
                    file.close()
            finally:
                self._disk.remove(path)
        except OSError:
            return False
        return True

    def take_clean(self) -> bool:
        """Whether the directory was closed cleanly; from now on it counts as open. Raises OSError."""
        self.was_clean = take_clean_shutdown(self._disk, f"{self.path}/{CLEAN_SHUTDOWN_FILE}")
        self.is_complete = self.was_clean or self._is_of_this_boot()
        return self.was_clean

    def _is_of_this_boot(self) -> bool:
        """Whether only the process ended since `mark_complete`: the machine, and so its page cache, lived on."""
        path, boot_id = f"{self.path}/{BOOT_FILE}", self._disk.boot_id()
        return bool(boot_id) and self._disk.exists(path) and self._disk.read(path) == boot_id.encode()

    def mark_complete(self) -> None:
        """From now on only a crash of the machine loses records that others rely on. Raises OSError."""
        if self._is_of_this_boot():
            return
        # Not flushed: after a loss of power it counts for nothing.
        self._disk.replace(f"{self.path}/{BOOT_FILE}", self._disk.boot_id().encode(), sync=False)

    def note_loss(self) -> None:
        """Damaged records are about to be removed, which others may rely on. Raises OSError.

        A start that fails afterwards leaves whole logs. So the mark is what the next one learns it from.
        """
        self.is_complete = False
        self.unmark_complete()

    def unmark_complete(self) -> None:
        """Records may be gone, since the disk fails. Raises OSError."""
        path = f"{self.path}/{BOOT_FILE}"
        if self._disk.exists(path):
            self._disk.remove(path)

    def mark_clean(self) -> None:
        """The directory is closed cleanly: the next start scans nothing. Raises OSError."""
        # The names of all that the marker covers are on the device before it is.
        self._disk.sync_directory(self.path)
        write_clean_shutdown(self._disk, f"{self.path}/{CLEAN_SHUTDOWN_FILE}")

    def list_logs(self) -> tuple[list[TopicPartition], list[str], list[str]]:
        """The partitions whose logs are here, the paths of deleted logs, and of incomplete copies. Raises OSError."""
        found, deleted, copies = [], [], []
        for entry in self._disk.entries(self.path):
            name = entry.name
            if entry.is_link and (name.endswith(DELETE_SUFFIX) or parse_partition(name) is not None):
                raise link_refused(f"{self.path}/{name}")
            if not entry.is_directory or name.startswith(_IGNORED_PREFIX):
                continue
            if name.endswith(DELETE_SUFFIX):
                deleted.append(f"{self.path}/{name}")
            elif name.endswith(FUTURE_SUFFIX) and self._is_own_copy(f"{self.path}/{name}"):
                copies.append(f"{self.path}/{name}")
            elif name.endswith(FUTURE_SUFFIX):
                logger.warning(
                    "%s/%s is left as it is: logs that Kafka was moving are not taken over", self.path, name
                )
            elif name.endswith(STRAY_SUFFIX):
                logger.warning(
                    "%s/%s has the records of a replica that the cluster does not know; it is kept, and not served. "
                    "Remove the directory if they are not needed",
                    self.path,
                    name,
                )
            elif (topic_partition := parse_partition(name)) is not None:
                found.append(topic_partition)
        return found, deleted, copies

    def _is_own_copy(self, path: str) -> bool:
        """Whether a copy is no future replica of Kafka's, which has a segment from its first moment on."""
        names = {entry.name for entry in self._disk.entries(path)}
        return COPY_FILE in names or not any(name.endswith(LOG_SUFFIX) for name in names)

    def read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """The offsets in a checkpoint file; none when it is absent or damaged. Raises OSError."""
        try:
            found = OffsetCheckpoint(disk=self._disk, path=f"{self.path}/{name}").read()
        except CheckpointDamagedError as error:
            # Without recovery points everything is scanned, without start offsets deleted records reappear.
            logger.error("a checkpoint is damaged and passed over: %s", error)
            return {}
        self._written[name] = dict(found)
        return found

    def checkpoint_offset(self, name: str, topic_partition: TopicPartition) -> int:
        """The offset of a partition in a checkpoint file that was read or written; -1 without one."""
        return self._written.get(name, {}).get(topic_partition, -1)

    def write_checkpoint(self, name: str, offsets: Mapping[TopicPartition, int], *, job_number: int) -> None:
        """Replace a checkpoint file when something changed, on any thread. Raises OSError.

        Nothing happens when a job with a higher number has written it.
        """
        with self._checkpoint_lock:
            if job_number < self._written_by.get(name, 0):
                return
            self._written_by[name] = job_number
            if self._written.get(name) != offsets:
                OffsetCheckpoint(disk=self._disk, path=f"{self.path}/{name}").write(offsets)
                self._written[name] = dict(offsets)

    def remove_checkpoint(self, name: str) -> None:
        """Remove a checkpoint file, which needs no room on the disk. Raises OSError."""
        with self._checkpoint_lock:
            self._disk.remove(f"{self.path}/{name}")
            self._written[name] = {}
