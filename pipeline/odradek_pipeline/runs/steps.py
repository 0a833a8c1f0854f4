"""The named steps of a run. They are what a progress display shows and where tests end a driver."""

from __future__ import annotations

from typing import Final, Protocol

METRICS_SERVED: Final = "metrics"
CONNECTED: Final = "connected"
PLANNED: Final = "planned"
DECODED: Final = "decoded"
DEAD_LETTERS: Final = "dead-letters"
WRITING: Final = "writing"
WRITTEN: Final = "written"
PUBLISHING: Final = "publishing"
PUBLISHED: Final = "published"
BATCH: Final = "batch"
SHOWN: Final = "shown"
FINISHED: Final = "finished"


class Steps(Protocol):
    """Called as a run reaches a step, with figures for people."""

    def __call__(self, name: str, /, **figures: object) -> None: ...


def silent(name: str, /, **figures: object) -> None:
    """Steps that nothing shows."""
