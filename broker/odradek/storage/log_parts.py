"""The objects that the parts of one log share: its appender, its reader and its flusher work on the same objects."""

from __future__ import annotations

from odradek.foundation.clock import Clock
from odradek.foundation.named_tuple import NamedTuple
from odradek.storage.epochs import LeaderEpochs
from odradek.storage.files import Disk
from odradek.storage.log_health import LogHealth
from odradek.storage.log_offsets import LogOffsets
from odradek.storage.producers import ProducerStates
from odradek.storage.segment_set import SegmentSet
from odradek.storage.unsynced_files import UnsyncedFiles


class LogParts(NamedTuple):
    """Made once, when the log is opened."""

    segments: SegmentSet
    offsets: LogOffsets
    health: LogHealth
    epochs: LeaderEpochs
    producers: ProducerStates
    unsynced: UnsyncedFiles
    disk: Disk
    clock: Clock
