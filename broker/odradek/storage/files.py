"""The disk as an object, and the only user of the operating system's file calls below `storage`.

Everything that a log does to a disk goes through `Disk` and `DiskFile`. So a test can use a disk that forgets unsynced
pages at a crash, tears a write, fills up or fails at a chosen call. `SystemDisk` is the real one.

Files are addressed by position, never by a shared cursor. An append is one `pwrite` at the size that this process
knows. So the next one overwrites a write that failed half-way, even where truncating it failed too. Errors are
OSErrors: `storage.log_health` and `storage.directories.directory_set` decide what they mean for a partition.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import sys
from contextlib import suppress
from typing import Protocol

from odradek.foundation.errors import DirectoryLocked
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.private_files import exposure, make_private_directory, open_private
from odradek.foundation.syncing import sync as sync_file
from odradek.foundation.syncing import sync_data

Buffer = bytes | bytearray | memoryview

# preadv with this flag answers EAGAIN instead of waiting for the device; 0 where the platform lacks it.
_NO_WAIT = getattr(os, "RWF_NOWAIT", 0)
# Written at a time, where the system cannot be asked for room.
_ZEROS_BYTES = 1024 * 1024
_BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"


class SyncFailed(OSError):
    """Earlier writes may be gone: the kernel drops pages that it could not write to the device."""


class DirectoryEntry(NamedTuple):
    """One name in a directory; size and times only of files. A link is not a directory, whatever it points to."""

    name: str
    is_directory: bool
    size_bytes: int
    modified_ms: int
    is_link: bool = False


class DiskUsage(NamedTuple):
    """The volume under a directory, in bytes; `usable_bytes` is what an unprivileged process may still write."""

    total_bytes: int
    usable_bytes: int


class DiskFile(Protocol):
    """One open file. Reads may come from any thread; writes from one at a time."""

    path: str
    size: int

    def append(self, data: Buffer) -> None:
        """Write all of `data` at the end. After an OSError `size` is what it was before."""
        ...

    def append_parts(self, head: bytes, rest: memoryview) -> None:
        """As `append` of `head + rest`, without a copy of `rest`."""
        ...

    def write(self, position: int, data: Buffer) -> None:
        """Write all of `data` over what is at `position`, which must not lie behind the end."""
        ...

    def pread(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""
        ...

    def pread_cached(self, position: int, size: int) -> bytes | None:
        """As `pread`, but None when any of it would have to be fetched from the device."""
        ...

    def read_into(self, position: int, buffer: Buffer) -> int:
        """Fill the writable `buffer` from `position`; how many bytes there were."""
        ...

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes, which must not be more than it has."""
        ...

    def sync(self) -> None:
        """Return once everything written so far is on the device. Raises SyncFailed."""
        ...

    def drop_cached(self) -> None:
        """Let the page cache forget what is on the device already; only speed depends on it."""
        ...

    def fileno(self) -> int:
        """The descriptor, for sendfile; -1 where there is none."""
        ...

    def close(self) -> None:
        """Give the descriptor back; a second call does nothing."""
        ...


class DiskLock(Protocol):
    """Holds a lock file until closed."""

    def close(self) -> None:
        """Let another process have it."""
        ...


class Disk(Protocol):
    """The file system as a log uses it. Paths are absolute or relative to the process, as str.

    A link in the place of a file is refused with an OSError. What is made is private (`foundation.private_files`).
    """

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """Open for reading and writing. FileNotFoundError when it is not there and `create` is false."""
        ...

    def read(self, path: str) -> bytes:
        """A whole small file."""
        ...

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Put `data` at `path` in one step: after a crash there is the old content or the new one."""
        ...

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Set the time of a file's last change, in ms since the epoch."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory, taking the place of a file that has the name."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; it need not be there."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all in it; it need not be there."""
        ...

    def make_directory(self, path: str, *, may_be_link: bool = False) -> None:
        """Make the directory and those above it; they may be there already."""
        ...

    def sync_directory(self, path: str) -> None:
        """Return once the names in the directory are on the device. Raises SyncFailed."""
        ...

    def entries(self, path: str) -> list[DirectoryEntry]:
        """The directory's entries, in no order. A file that is removed at the same time may be missing."""
        ...

    def exposure(self, path: str) -> str:
        """What other users of the machine may do in a directory: "change", "read" or ""."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name is there."""
        ...

    def usage(self, path: str) -> DiskUsage:
        """The size of the volume, and its free part."""
        ...

    def boot_id(self) -> str:
        """The machine's boot id: another one after every event that loses the page cache; "" when unknown."""
        ...

    def lock(self, path: str) -> DiskLock:
        """Take the lock file, making it when needed. Raises DirectoryLocked when another process has it."""
        ...


class FileSlice:
    """A range of a log file that a fetch answers with: sent by `sendfile` or read when it is sent.

    The file stays open as long as a slice of it lives, also after the segment is deleted.
    """

    __slots__ = ("file", "position", "size")

    def __init__(self, file: DiskFile | None, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def fileno(self) -> int:
        """The descriptor to send from; -1 for an empty slice or a disk without descriptors."""
        return -1 if self.file is None else self.file.fileno()

    def read(self) -> bytes:
        """The bytes; may wait for the device. Raises OSError, or when the file has become shorter than the slice."""
        if self.file is None:
            return b""
        data = self.file.pread(self.position, self.size)
        if len(data) != self.size:
            raise OSError(
                errno.EIO,
                f"{len(data)} of {self.size} bytes are left at position {self.position}",
                self.file.path,
            )
        return data

    def read_cached(self) -> bytes | None:
        """The bytes when the page cache has them all, else None: then `read` on a thread that may wait.

        A disk that fails gives None too. What reads then fails for this log alone, not for an answer about many.
        """
        if self.file is None:
            return b""
        try:
            return self.file.pread_cached(self.position, self.size)
        except OSError:
            return None


EMPTY_SLICE = FileSlice(None, 0, 0)


class SystemFile:
    """A file of the operating system."""

    __slots__ = ("_descriptor", "_never_waits", "path", "size")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        # A file system that does not know RWF_NOWAIT (tmpfs on older kernels) keeps its files in memory anyway.
        self._never_waits = not _NO_WAIT
        self.size = os.fstat(descriptor).st_size

    def append(self, data: Buffer) -> None:
        size = len(data)
        written = os.pwrite(self._descriptor, data, self.size)
        if written != size:
            self.write(self.size + written, memoryview(data)[written:])
        self.size += size

    def append_parts(self, head: bytes, rest: memoryview) -> None:
        written = os.pwritev(self._descriptor, (head, rest), self.size)
        if written != len(head) + len(rest):
            self.write(self.size + written, (head + rest)[written:])
        self.size += len(head) + len(rest)

    def write(self, position: int, data: Buffer) -> None:
        # A disk that fills up in the middle, or a signal, makes a write short; the next one shows which.
        view = memoryview(data)
        while view:
            count = os.pwrite(self._descriptor, view, position)
            if count == 0:
                raise OSError(errno.ENOSPC, "the file takes no more bytes", self.path)
            view = view[count:]
            position += count

    def pread(self, position: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) < size and data:
            # One call moves at most 2 GiB, and a signal may shorten it.
            parts = [data]
            while size := size - len(data):
                position += len(data)
                if not (data := os.pread(self._descriptor, size, position)):
                    break
                parts.append(data)
            return b"".join(parts)
        return data

    def pread_cached(self, position: int, size: int) -> bytes | None:
        if self._never_waits:
            return self.pread(position, size)
        buffer = bytearray(size)
        try:
            count = os.preadv(self._descriptor, (buffer,), position, _NO_WAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
            self._never_waits = True
            return self.pread(position, size)
        return buffer if count == size else None  # type: ignore[return-value]

    def read_into(self, position: int, buffer: Buffer) -> int:
        total = 0
        view = memoryview(buffer)
        while total < len(view):
            count = os.preadv(self._descriptor, (view[total:],), position + total)
            if count == 0:
                break
            total += count
        return total

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self.size = size

    def sync(self) -> None:
        try:
            sync_data(self._descriptor)
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror, self.path) from error

    def drop_cached(self) -> None:
        if sys.platform == "linux" and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        # A deleted segment's file closes when the last fetch that still sends from it is done.
        self.close()


def take_room(descriptor: int, size: int) -> None:
    """Make the file `size` bytes long, with blocks of the device under all of them. Raises OSError."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
        return
    position = os.fstat(descriptor).st_size
    while position < size:
        position += os.pwrite(descriptor, bytes(min(size - position, _ZEROS_BYTES)), position)


class SystemDisk:
    """The host's file systems."""

    def open(self, path: str, *, create: bool = False) -> SystemFile:
        return SystemFile(path, open_private(path, os.O_RDWR | (os.O_CREAT if create else 0)))

    def read(self, path: str) -> bytes:
        with io.FileIO(open_private(path, os.O_RDONLY)) as file:
            return file.readall()

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        descriptor = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            if sync:
                sync_file(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
        if sync:
            self.sync_directory(os.path.dirname(path) or ".")

    def set_modified(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000), follow_symlinks=False)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        # Imported here because it loads three compressors, which would delay the start.
        import shutil

        with suppress(FileNotFoundError):
            shutil.rmtree(path)

    def make_directory(self, path: str, *, may_be_link: bool = False) -> None:
        make_private_directory(path, may_be_link=may_be_link)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sync_file(descriptor)
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror, path) from error
        finally:
            os.close(descriptor)

    def entries(self, path: str) -> list[DirectoryEntry]:
        found = []
        with os.scandir(path) as listing:
            for entry in listing:
                if entry.is_symlink():
                    found.append(DirectoryEntry(entry.name, False, 0, 0, is_link=True))
                elif entry.is_dir(follow_symlinks=False):
                    found.append(DirectoryEntry(entry.name, True, 0, 0))
                else:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        # Files that wait for their removal are removed on another thread.
                        continue
                    found.append(
                        DirectoryEntry(entry.name, False, status.st_size, status.st_mtime_ns // 1_000_000)
                    )
        return found

    def exposure(self, path: str) -> str:
        return exposure(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def usage(self, path: str) -> DiskUsage:
        status = os.statvfs(path)
        return DiskUsage(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize)

    def boot_id(self) -> str:
        try:
            # A container sees its host's, and the page cache is its host's too.
            with open(_BOOT_ID_FILE, encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return ""

    def lock(self, path: str) -> SystemFile:
        # The kernel releases it when the file is closed or the process dies.
        descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Kafka locks the file with fcntl (lockf), which flock does not see on Linux: taking both keeps a JVM broker
            # out too. BSD and macOS have one table for both kinds, in which the second lock would wait for the first.
            if sys.platform == "linux":
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise DirectoryLocked(
                f"another process uses the log directory {os.path.dirname(path)!r} (it holds {path}): "
                "stop it, or give this broker a directory of its own"
            ) from error
        return SystemFile(path, descriptor)
