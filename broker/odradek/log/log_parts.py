"""The objects that the parts of one log share: its appender, its reader and its flusher work on the same objects."""

from __future__ import annotations

from odradek.foundation.clock import Clock
from odradek.foundation.named_tuple import NamedTuple
from odradek.log.epochs import LeaderEpochs
from odradek.log.files import Disk
from odradek.log.log_health import LogHealth
from odradek.log.log_offsets import LogOffsets
from odradek.log.producers import ProducerStates
from odradek.log.segment_set import SegmentSet
from odradek.log.unsynced_files import UnsyncedFiles


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
