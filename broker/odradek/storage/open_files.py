"""A bound on the files that closed segments keep open for readers.

Descriptors belong to the process, so all logs of a broker share one of these. Any thread may open a segment's files:
each step here is one operation of a dict, which the interpreter does not interrupt. A file that is released while
another thread reads it stays open until that thread is done, since the thread holds the file object.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from odradek.foundation.limits import CLOSED_SEGMENTS_OPEN_MAX


class FileHolder(Protocol):
    """A closed segment."""

    def release(self) -> None:
        """Drop the open files; they open again when they are needed."""
        ...


class OpenFiles:
    """Holders with open files, the one that opened first in front."""

    __slots__ = ("_count_max", "_holders")

    def __init__(self, count_max: int = CLOSED_SEGMENTS_OPEN_MAX) -> None:
        self._count_max = count_max
        self._holders: OrderedDict[FileHolder, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._holders)

    def add(self, holder: FileHolder) -> None:
        """Count a holder that has opened a file; over the bound, those that opened first are released."""
        self._holders[holder] = None
        while len(self._holders) > self._count_max:
            try:
                oldest, _ = self._holders.popitem(last=False)
            except KeyError:
                return  # Other threads have released them.
            oldest.release()

    def discard(self, holder: FileHolder) -> None:
        """The holder has no files open."""
        self._holders.pop(holder, None)
