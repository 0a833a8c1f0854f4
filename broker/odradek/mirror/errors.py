"""Why a mirror, or one partition of it, stops: each says what happened, to what, and what to do."""

from __future__ import annotations

import shlex
from typing import Final

from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition


class MirrorRefused(OdradekError):
    """The mirror must not run as it is configured, because records would go round in a loop."""


class PositionsNotTakenOver(OdradekError):
    """The mirror cannot begin where MirrorMaker 2 stopped, as things are; it tries again."""


# The kind of a stop that a batch of the source is the reason of.
DAMAGED: Final = "damaged"


class PartitionStopped(OdradekError):
    """One partition is no longer mirrored: continuing could lose or double records. Others continue."""

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class BatchRefused(OdradekError):
    """The target refused a batch for what it is. Reading it again may help once or twice; see `Worker`."""

    def __init__(self, partition: TopicPartition, what: str, *, kind: str) -> None:
        super().__init__(f"partition {partition}: {what}")
        self.partition = partition
        """Of the source."""
        self.what = what
        self.kind = kind


def build_stop_error(
    what: str, *, group_id: str, target_topic: str, partition: int, kind: str, first: str
) -> PartitionStopped:
    """The error for a partition that must not continue by itself, with what its operator can do. `first` comes before
    the commands.
    """
    return PartitionStopped(
        f"{what}. The mirror stopped this partition, because it could lose or double records; others continue. To "
        f"begin it again at consumer.auto.offset.reset: stop all workers{first}, run `odradek groups delete-offsets "
        f"{shlex.quote(group_id)} --topic {target_topic}:{partition} --execute` at the target, and start them. For an "
        "exact offset of the source run `odradek groups reset-offsets` there instead, with the same names and "
        "--to-offset N",
        kind=kind,
    )
