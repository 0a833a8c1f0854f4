"""A disk in memory that behaves as badly as real ones, under a seed.

- `crash` forgets what was not synced: unsynced pages survive or not, page by page; unsynced names too.
- `fail_call` makes one call fail with an errno of choice, after writing a part of it if asked to.
- `capacity_bytes` fills up: a write goes as far as there is room and then fails with ENOSPC.
- `flip_bit` damages a byte at rest.

Every write, sync, truncate, rename, open-to-create and directory call is counted in `calls`, in order. A test can run
once to count them, and then once for each with that call failing.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from odradek.foundation.errors import DirectoryLocked
from odradek.storage.files import Buffer, DirectoryEntry, DiskUsage, SyncFailed

PAGE_BYTES = 4096


@dataclass(eq=False)
class _Inode:
    data: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    modified_ms: int = 0


class _Names(dict[str, _Inode]):
    """Files by path, and the paths by directory: a disk of a hundred thousand files must stay quick."""

    def __init__(self, names: Mapping[str, _Inode] | None = None) -> None:
        super().__init__()
        self._by_directory: dict[str, dict[str, None]] = {}
        for path, inode in (names or {}).items():
            self[path] = inode

    def __setitem__(self, path: str, inode: _Inode) -> None:
        super().__setitem__(path, inode)
        self._by_directory.setdefault(_parent(path), {})[path] = None

    def __delitem__(self, path: str) -> None:
        super().__delitem__(path)
        self._by_directory[_parent(path)].pop(path)

    def take(self, path: str) -> _Inode | None:
        """Remove a path that may not be there."""
        inode = self.get(path)
        if inode is not None:
            del self[path]
        return inode

    def directly_in(self, directory: str) -> list[str]:
        return list(self._by_directory.get(directory, ()))

    def below(self, directory: str) -> list[str]:
        prefix = directory + "/"
        return [
            path
            for one, paths in self._by_directory.items()
            if one == directory or one.startswith(prefix)
            for path in paths
        ]


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


@dataclass
class Fault:
    """One call that fails."""

    number: int
    """Counted from 0 over `SimulatedDisk.calls`."""
    error: int
    written_part: float = 0.0
    """How much of a write reaches the file before it fails."""


@contextmanager
def _sync_failing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror, error.filename) from error


class SimulatedFile:
    """A handle; after a crash of its disk it fails."""

    def __init__(self, disk: SimulatedDisk, path: str, inode: _Inode) -> None:
        self._disk = disk
        self._generation = disk.generation
        self._inode = inode
        self.path = path
        self.size = len(inode.data)

    def append(self, data: Buffer) -> None:
        self.write(self.size, data)
        self.size += len(data)

    def append_parts(self, head: bytes, rest: memoryview) -> None:
        self.append(head + rest)

    def write(self, position: int, data: Buffer) -> None:
        self._check()
        content = self._inode.data
        assert position <= len(content), "a write may leave no hole"
        fault = self._disk.count("write", self.path)
        allowed = len(data)
        error = 0
        if fault is not None:
            allowed, error = int(len(data) * fault.written_part), fault.error
        room = self._disk.room_bytes() + max(len(content) - position, 0)
        if allowed > room:
            allowed, error = room, errno.ENOSPC
        content[position : position + allowed] = bytes(data[:allowed])
        self._inode.modified_ms = self._disk.now_ms
        if error:
            raise OSError(error, os.strerror(error), self.path)

    def pread(self, position: int, size: int) -> bytes:
        self._check()
        self._disk.count_read(self.path)
        return bytes(self._inode.data[position : position + size])

    def pread_cached(self, position: int, size: int) -> bytes | None:
        return self.pread(position, size)

    def read_into(self, position: int, buffer: Buffer) -> int:
        data = self.pread(position, len(buffer))
        memoryview(buffer)[: len(data)] = data
        return len(data)

    def truncate(self, size: int) -> None:
        self._check()
        self._disk.count_or_raise("truncate", self.path)
        assert size <= len(self._inode.data), "a log never makes a file longer by truncating it"
        del self._inode.data[size:]
        self.size = size

    def sync(self) -> None:
        self._check()
        with _sync_failing():
            self._disk.count_or_raise("sync", self.path)
        self._inode.synced = bytes(self._inode.data)

    def drop_cached(self) -> None:
        self._check()

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        pass

    def _check(self) -> None:
        assert self._generation == self._disk.generation, f"{self.path} is used after the crash"


class _Lock:
    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def close(self) -> None:
        self._disk.locks.discard(self._path)


class SimulatedDisk:
    """One volume. Paths are plain names with slashes; parents are made as needed by `make_directory` alone."""

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self.now_ms = 0
        self.generation = 0
        self.boots = 0
        self.calls: list[tuple[str, str]] = []
        self.faults: list[Fault] = []
        self.failing_paths: dict[str, int] = {}
        self.on_call: Callable[[str, str], None] | None = None
        """Called with kind and path before each call that `calls` counts takes effect."""
        self.locks: set[str] = set()
        self._files = _Names()
        self._directories = _Names({"": _Inode(), "/": _Inode()})
        self._synced_names = _Names()

    # --- faults ----------------------------------------------------------------------------------------------------

    def fail_call(self, number: int, error: int, *, written_part: float = 0.0) -> None:
        """Let call `number` from now on (0 is the next) fail with `error`."""
        self.faults.append(Fault(len(self.calls) + number, error, written_part))

    def fail_path(self, prefix: str, error: int) -> None:
        """Let every call on paths that begin with `prefix` fail, reads too."""
        self.failing_paths[prefix] = error

    def flip_bit(self, path: str, bit: int) -> None:
        """Damage one bit at rest, on the device and in the cache."""
        inode = self._files[path]
        inode.data[bit // 8] ^= 1 << (bit % 8)
        inode.synced = bytes(inode.data)

    def paths(self, suffix: str) -> list[str]:
        """All files whose names end so."""
        return sorted(path for path in self._files if path.endswith(suffix))

    def size_bytes(self, path: str) -> int:
        """The size of one file as it is read."""
        return len(self._existing(path).data)

    @property
    def used_bytes(self) -> int:
        """The sum of all files."""
        return sum(len(inode.data) for inode in self._files.values())

    def put(self, path: str, data: bytes) -> None:
        """A file as if it had always been there."""
        self.make_directory(_parent(path))
        self._files[path] = self._synced_names[path] = _Inode(bytearray(data), data)

    def crash(self, rng: random.Random | None = None) -> None:
        """Lose power. Without `rng` everything unsynced is gone; with it each page and name survives or not."""
        self.generation += 1
        self.boots += 1
        self.locks.clear()
        names = _Names()
        for path in sorted(self._files.keys() | self._synced_names.keys()):
            now, then = self._files.get(path), self._synced_names.get(path)
            inode = then if now is not then and (rng is None or rng.random() < 0.5) else now
            if inode is not None:
                names[path] = inode
        for inode in {id(one): one for one in names.values()}.values():
            inode.data = bytearray(inode.synced) if rng is None else _torn(inode, rng)
            inode.synced = bytes(inode.data)
        self._files = names
        self._synced_names = _Names(names)

    def kill(self) -> None:
        """The process dies, the machine lives on: handles and locks are gone, the page cache is not."""
        self.generation += 1
        self.locks.clear()

    def count(self, kind: str, path: str) -> Fault | None:
        self._raise_for_path(path)
        number = len(self.calls)
        self.calls.append((kind, path))
        if self.on_call is not None:
            self.on_call(kind, path)
        return next((fault for fault in self.faults if fault.number == number), None)

    def count_or_raise(self, kind: str, path: str) -> None:
        fault = self.count(kind, path)
        if fault is not None:
            raise OSError(fault.error, os.strerror(fault.error), path)

    def count_read(self, path: str) -> None:
        self._raise_for_path(path)

    def _raise_for_path(self, path: str) -> None:
        for prefix, error in self.failing_paths.items():
            if path.startswith(prefix):
                raise OSError(error, os.strerror(error), path)

    def room_bytes(self) -> int:
        """How much may still be written."""
        if self.capacity_bytes is None:
            return 1 << 62
        return max(self.capacity_bytes - self.used_bytes, 0)

    # --- the contract of Disk --------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        self._raise_for_path(path)
        inode = self._files.get(path)
        if inode is None:
            if not create or _parent(path) not in self._directories:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self.count_or_raise("create", path)
            inode = self._files[path] = _Inode(modified_ms=self.now_ms)
        return SimulatedFile(self, path, inode)

    def read(self, path: str) -> bytes:
        self._raise_for_path(path)
        return bytes(self._existing(path).data)

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = self.open(path + ".tmp", create=True)
        temporary.truncate(0)
        temporary.append(data)
        if sync:
            temporary.sync()
        self.rename(path + ".tmp", path)
        if sync:
            self.sync_directory(_parent(path))

    def set_modified(self, path: str, modified_ms: int) -> None:
        self._existing(path).modified_ms = modified_ms

    def rename(self, source: str, target: str) -> None:
        if source in self._directories:
            self.count_or_raise("rename", source)
            for names in (self._files, self._synced_names):
                for path in names.below(source):
                    inode = names[path]
                    del names[path]
                    names[target + path[len(source) :]] = inode
            del self._directories[source]
            self._directories[target] = _Inode()
            return
        inode = self._existing(source)
        self.count_or_raise("rename", source)
        del self._files[source]
        self._files[target] = inode

    def remove(self, path: str) -> None:
        self.count_or_raise("remove", path)
        self._files.take(path)

    def remove_tree(self, path: str) -> None:
        self.count_or_raise("remove", path)
        for names in (self._files, self._synced_names):
            for one in names.below(path):
                del names[one]
        for one in [*self._directories.below(path), path]:
            self._directories.take(one)

    def make_directory(self, path: str, *, may_be_link: bool = False) -> None:
        if path in self._directories:
            return
        self.count_or_raise("make", path)
        while path and path not in self._directories:
            self._directories[path] = _Inode()
            path = _parent(path)

    def sync_directory(self, path: str) -> None:
        with _sync_failing():
            self.count_or_raise("sync directory", path)
        for names in (self._files, self._synced_names):
            for one in names.directly_in(path):
                inode = self._files.get(one)
                if inode is not None:
                    if self._synced_names.get(one) is not inode:
                        self._synced_names[one] = inode
                else:
                    del self._synced_names[one]

    def entries(self, path: str) -> list[DirectoryEntry]:
        self._raise_for_path(path)
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        prefix = path.rstrip("/") + "/"
        found = [
            DirectoryEntry(
                name[len(prefix) :], False, len(self._files[name].data), self._files[name].modified_ms
            )
            for name in self._files.directly_in(path.rstrip("/"))
        ]
        found += [
            DirectoryEntry(name[len(prefix) :], True, 0, 0)
            for name in self._directories.directly_in(path.rstrip("/"))
            if name not in ("", "/")
        ]
        return found

    def exposure(self, path: str) -> str:
        return ""

    def exists(self, path: str) -> bool:
        self._raise_for_path(path)
        return path in self._files or path in self._directories

    def usage(self, path: str) -> DiskUsage:
        self._raise_for_path(path)
        total = self.capacity_bytes if self.capacity_bytes is not None else 1 << 40
        return DiskUsage(total, max(total - self.used_bytes, 0))

    def boot_id(self) -> str:
        return f"boot {self.boots}"

    def lock(self, path: str) -> _Lock:
        self.open(path, create=True)
        if path in self.locks:
            raise DirectoryLocked(f"{path} is taken")
        self.locks.add(path)
        return _Lock(self, path)

    def _existing(self, path: str) -> _Inode:
        inode = self._files.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return inode


def _torn(inode: _Inode, rng: random.Random) -> bytearray:
    """What is on the device: of every page that changed since the sync, the old, the new, or zeros beyond the old end.

    The file's size is that of then, of now, or in between.
    """
    old, new = inode.synced, inode.data
    low, high = sorted((len(old), len(new)))
    size = rng.choice((low, high, rng.randint(low, high)))
    result = bytearray(size)
    for start in range(0, size, PAGE_BYTES):
        end = min(start + PAGE_BYTES, size)
        source = new if rng.random() < 0.5 else old
        piece = source[start:end]
        result[start : start + len(piece)] = piece
    return result
