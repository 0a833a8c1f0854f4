"""Leader epochs of one partition: which leader wrote from which offset on.

A replica that lost its leader asks the next one where an epoch ended, and truncates its log there. A consumer asks the
same to notice that records which it read were truncated. Entries rise strictly in epoch and in start offset. The file
is Kafka's `leader-epoch-checkpoint`:

    0                   version of the format
    2                   number of entries
    0 0                 epoch, start offset
    3 1042

A lost or damaged file is no loss: recovery reads the epochs from the batches (`assign` for each).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from odradek.foundation.ids import NO_LEADER_EPOCH
from odradek.foundation.named_tuple import NamedTuple
from odradek.storage.checkpoints import CheckpointDamagedError, format_lines, parse_lines
from odradek.storage.files import Disk

FILE_NAME: Final = "leader-epoch-checkpoint"
NO_OFFSET: Final = -1


class EpochEntry(NamedTuple):
    """The first offset that a leader of this epoch wrote, or would have."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """The entries in memory and in their file, which is replaced at every change and not synced.

    `path` None keeps them in memory alone. Every change raises OSError when the file cannot be written.
    """

    def __init__(self, *, disk: Disk | None = None, path: str | None = None) -> None:
        self._disk = disk
        self._path = path
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []
        # The newest epoch, -1 when there is none; every append compares with it.
        self.latest_epoch = NO_LEADER_EPOCH

    def move_to(self, path: str) -> None:
        """The file is at `path` from now on, with what it has now."""
        self._path = path

    @classmethod
    def load(cls, *, disk: Disk, path: str) -> LeaderEpochs:
        """The epochs from the file at `path`; empty when there is none. Raises CheckpointDamagedError."""
        loaded = cls(disk=disk, path=path)
        try:
            data = disk.read(path)
        except FileNotFoundError:
            return loaded
        for line in parse_lines(data, path=path):
            epoch, start_offset = _parse_entry(line, path)
            if loaded._epochs and (epoch <= loaded._epochs[-1] or start_offset < loaded._start_offsets[-1]):
                raise CheckpointDamagedError(
                    f"{path}: epoch {epoch} from offset {start_offset} does not follow the entry before it"
                )
            loaded._epochs.append(epoch)
            loaded._start_offsets.append(start_offset)
            loaded.latest_epoch = epoch
        return loaded

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def entries(self) -> list[EpochEntry]:
        """All entries, oldest first; a copy."""
        return [EpochEntry(*pair) for pair in zip(self._epochs, self._start_offsets, strict=True)]

    def assign(self, *, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` begins at `start_offset`; False when that was known.

        Recovery and replication call this for batches, a new leader once. Entries that the new one contradicts are
        dropped: those of the same or a later epoch, and those that start at or after it. Raises OSError when the file
        cannot be written; nothing is noted then.
        """
        epochs, start_offsets = self._epochs, self._start_offsets
        if epochs and epochs[-1] == epoch and start_offsets[-1] <= start_offset:
            return False
        if epoch < 0 or start_offset < 0:
            return False
        before = epochs[:], start_offsets[:]
        while epochs and (epochs[-1] >= epoch or start_offsets[-1] >= start_offset):
            epochs.pop()
            start_offsets.pop()
        epochs.append(epoch)
        start_offsets.append(start_offset)
        try:
            self.write()
        except OSError:
            epochs[:], start_offsets[:] = before
            raise
        self.latest_epoch = epoch
        return True

    def end_offset_for(self, epoch: int, *, log_end_offset: int) -> EpochEntry:
        """The newest epoch not above `epoch`, and the offset where it ended (exclusive).

        The current epoch ends at `log_end_offset`. (-1, -1) when `epoch` is -1 or newer than all that are
        known. An epoch older than all known ones gives itself and the first known start.
        """
        epochs = self._epochs
        if epoch < 0 or not epochs or epoch > epochs[-1]:
            return EpochEntry(NO_LEADER_EPOCH, NO_OFFSET)
        if epoch == epochs[-1]:
            return EpochEntry(epoch, log_end_offset)
        above = bisect_right(epochs, epoch)
        if above == 0:
            return EpochEntry(epoch, self._start_offsets[0])
        return EpochEntry(epochs[above - 1], self._start_offsets[above])

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch in which `offset` was or will be written; -1 when it lies before all that is known."""
        index = bisect_right(self._start_offsets, offset)
        return self._epochs[index - 1] if index else NO_LEADER_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """The log was truncated to `end_offset`: drop the entries that start there or later."""
        keep = bisect_left(self._start_offsets, end_offset)
        if keep < len(self._epochs):
            del self._epochs[keep:]
            del self._start_offsets[keep:]
            self.latest_epoch = self._epochs[-1] if self._epochs else NO_LEADER_EPOCH
            self.write()

    def truncate_from_start(self, start_offset: int) -> None:
        """The log starts at `start_offset`: drop epochs that ended before, move the one that spans it."""
        spanning = bisect_right(self._start_offsets, start_offset) - 1
        if spanning < 0 or (spanning == 0 and self._start_offsets[0] == start_offset):
            return
        del self._epochs[:spanning]
        del self._start_offsets[:spanning]
        self._start_offsets[0] = start_offset
        self.write()

    def clear(self) -> None:
        """Forget all: the log was emptied."""
        if self._epochs:
            self._epochs.clear()
            self._start_offsets.clear()
            self.latest_epoch = NO_LEADER_EPOCH
            self.write()

    def write(self) -> None:
        """Replace the file with what is in memory; a flush syncs it."""
        if self._disk is None or self._path is None:
            return
        lines = (f"{epoch} {offset}" for epoch, offset in zip(self._epochs, self._start_offsets, strict=True))
        self._disk.replace(self._path, format_lines(lines), sync=False)


def _parse_entry(line: str, path: str) -> tuple[int, int]:
    try:
        epoch, start_offset = line.split()
        return int(epoch), int(start_offset)
    except ValueError:
        raise CheckpointDamagedError(f"{path}: {line!r} is not an epoch and an offset") from None
