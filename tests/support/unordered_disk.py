"""A disk whose device may keep any of the renames and removals that were not synced: all subsets can be tried.

`SimulatedDisk.crash` lets each name survive or not, so that a rename may lose both of its names. The journal of a file
system does not: a rename is there or not. Here the operations since the last sync of the directory are replayed on what
was there then, each of them or not, in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.disk import SimulatedDisk, _Inode, _Names


class DiskDied(Exception):
    """The machine stopped at the call of choice."""


class UnorderedDisk(SimulatedDisk):
    """As its base; it also stops at a call, and then loses a choice of the unsynced renames and removals."""

    def __init__(self) -> None:
        super().__init__()
        self.dies_before_call: int | None = None
        self._changes: list[tuple[str, str, _Inode]] = []

    def count_or_raise(self, kind: str, path: str) -> None:
        if self.dies_before_call is not None and len(self.calls) >= self.dies_before_call:
            raise DiskDied(f"before call {len(self.calls)}: {kind} {path}")
        super().count_or_raise(kind, path)

    def rename(self, source: str, target: str) -> None:
        inode = self._existing(source)
        super().rename(source, target)
        self._changes.append((source, target, inode))

    def remove(self, path: str) -> None:
        inode = self._files.get(path)
        super().remove(path)
        if inode is not None:
            self._changes.append((path, "", inode))

    def sync_directory(self, path: str) -> None:
        super().sync_directory(path)
        self._changes.clear()

    @property
    def unsynced_changes(self) -> int:
        """How many renames and removals the device may have lost."""
        return len(self._changes)

    def lose_power(self, kept: Sequence[bool]) -> None:
        """Crash, with those of the unsynced changes on the device for which `kept` says so."""
        names = _Names(self._synced_names)
        for (source, target, inode), is_kept in zip(self._changes, kept, strict=True):
            if is_kept:
                if names.get(source) is inode:
                    del names[source]
                if target:
                    names[target] = inode
        self.dies_before_call = None
        self._changes.clear()
        self._files = self._synced_names = names
        self.crash()
