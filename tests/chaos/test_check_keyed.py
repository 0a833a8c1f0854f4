"""What keyed clients of chaos report becomes a history in which anomalies are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.chaos.check_keyed import check_keyed
from tests.chaos.final_logs import FinalState
from tests.chaos.history import Event, KeyedRead, KeyedReported, from_line, to_line

Log = list[tuple[int, str]]

# name, key, whether it deletes, offset of its answer (-1: none), whether it is aborted
WRITES: Final = [
    ("p.1", "a", False, 0, False),
    ("p.2", "a", False, 1, False),
    ("p.3", "b", False, 2, False),
    ("p.4", "b", True, 3, False),
    ("t.1", "a", False, -1, True),
    ("p.5", "c", False, 5, False),
    ("p.6", "c", True, -1, False),
]
LEFT: Final[Log] = [(1, "p.2"), (5, "p.5")]


def _events(read: Log) -> list[Event]:
    events: list[Event] = [
        KeyedReported(at=1.0, name=name, what=what, key=key, is_deletion=is_deletion, offset=offset)
        for name, key, is_deletion, offset, is_aborted in WRITES
        for what in ("write", *(("answered",) if offset >= 0 else ()), *(("aborted",) if is_aborted else ()))
    ]
    events += [
        KeyedRead(at=2.0, name=name, key="", is_deletion=False, offset=offset) for offset, name in read
    ]
    return [from_line(to_line(event)) for event in events]


def _names(logs: dict[int, Log], read: Log) -> set[str]:
    return {anomaly.name for anomaly in check_keyed(_events(read), FinalState(partitions={}, keyed=logs))}


def test_a_clean_round_passes() -> None:
    waits = [(0, "p.1"), (1, "p.2"), (2, "p.3"), (3, "p.4"), (4, "t.1"), (5, "p.5")]
    # The deletion of c was not answered: it may have been there, and be gone.
    assert _names({1: LEFT, 2: waits, 3: LEFT[:1]}, LEFT) == set()


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (lambda log, read: log.remove((1, "p.2")), "lost value"),
        (lambda log, read: log.insert(1, (2, "p.3")), "deleted key is back"),
        (lambda log, read: log.append((6, "p.2")), "duplicate"),
        (lambda log, read: log.insert(1, (0, "p.1")), "reordered"),
        (lambda log, read: log.insert(1, (3, "p.3")), "inconsistent offset"),
        (lambda log, read: log.append((9, "p.9")), "invented record"),
        (lambda log, read: read.insert(1, (4, "t.1")), "aborted read"),
        (lambda log, read: read.remove((1, "p.2")), "lost value"),
    ],
)
def test_what_is_planted_is_found(plant: Callable[[Log, Log], None], expected: str) -> None:
    log, read = list(LEFT), list(LEFT)
    plant(log, read)
    assert expected in _names({1: log, 2: list(LEFT)}, read)
