"""The ends of leader epochs that brokers answered to their clients: they log them at DEBUG.

    python -m tests.chaos.epoch_ends broker --id 1 ...     # the command `odradek`, with those lines in its log

A client that gets too early an end discards what it has read, and reads it again. With too late an end it misses that
records are gone, which its next reads show.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from tests.chaos.history import EpochEndAnswered

_LOGGER: Final = "odradek.broker.requests.offset_for_leader_epoch"
_LINE: Final = re.compile(
    r"^(?P<at>\S+Z) +DEBUG +"
    + re.escape(_LOGGER)
    + r": (?P<topic>\S+)-(?P<partition>\d+): epoch (?P<epoch>-?\d+) ended at "
    r"(?P<end>-?\d+), says the leader of epoch (?P<leader_epoch>-?\d+)$",
    re.MULTILINE,
)


def answered_epoch_ends(process: str, log: Path, *, topic: str) -> Iterator[EpochEndAnswered]:
    """All that a broker's log has of partitions of `topic`."""
    # Logs have the time of day, a history has seconds of the monotonic clock.
    began = time.time() - time.monotonic()
    for match in _LINE.finditer(log.read_text(errors="replace")):
        if match["topic"] == topic:
            yield EpochEndAnswered(
                at=datetime.fromisoformat(match["at"]).timestamp() - began,
                process=process,
                topic=topic,
                partition=int(match["partition"]),
                epoch=int(match["epoch"]),
                end_offset=int(match["end"]),
                leader_epoch=int(match["leader_epoch"]),
            )


def main() -> int:
    from odradek.__main__ import main as odradek

    logging.getLogger(_LOGGER).setLevel(logging.DEBUG)
    return odradek()


if __name__ == "__main__":
    sys.exit(main())
