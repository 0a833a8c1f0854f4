"""Each check of compacted logs finds what is planted into one that is clean, under the name of the anomaly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.histories.compaction import Kept, check_compacted
from tests.histories.transactions import Breach

WRITTEN: Final = [
    Kept(0, b"a", b"a0", 10),
    Kept(1, b"b", b"b0", 11, (("h", b"1"),)),
    Kept(2, b"a", b"a1", 12),
    Kept(3, b"c", b"c0", 13),
    Kept(4, b"c", None, 14),
    Kept(5, b"a", b"aborted", 15, is_visible=False),
    Kept(6, b"d", b"d0", 16),
    Kept(7, b"d", b"d1", 17),
]
CLEAN_FROM: Final = 6
BELOW: Final = 5

Replicas = dict[int, list[Kept]]


def _kept(*offsets: int) -> list[Kept]:
    return [WRITTEN[offset] for offset in offsets]


def _clean() -> Replicas:
    # The first has forgotten the deletion, the second not yet.
    return {1: _kept(1, 2, 6, 7), 2: _kept(1, 2, 4, 6, 7)}


def _find(replicas: Replicas) -> list[Breach]:
    return list(check_compacted(WRITTEN, replicas, clean_from=CLEAN_FROM, compacted_below=BELOW))


def test_a_clean_log_passes() -> None:
    assert _find(_clean()) == []


def test_a_log_that_waits_for_its_cleaner_passes() -> None:
    whole = [record for record in WRITTEN if record.is_visible]
    assert list(check_compacted(WRITTEN, {1: whole, 2: _kept(1, 2, 6, 7)}, clean_from=CLEAN_FROM)) == []


def _changed_value(replicas: Replicas) -> None:
    replicas[1][1] = WRITTEN[2]._replace(value=b"a0")


def _changed_time(replicas: Replicas) -> None:
    replicas[1][0] = WRITTEN[1]._replace(timestamp_ms=12)


def _lost_headers(replicas: Replicas) -> None:
    replicas[1][0] = WRITTEN[1]._replace(headers=())


def _moved(replicas: Replicas) -> None:
    replicas[1][0] = WRITTEN[1]._replace(offset=0)


def _reordered(replicas: Replicas) -> None:
    replicas[1][:2] = _kept(2, 1)


def _lost_value(replicas: Replicas) -> None:
    replicas[2].remove(WRITTEN[1])


def _resurrected(replicas: Replicas) -> None:
    replicas[1].insert(2, WRITTEN[3])


def _cleaned_too_far(replicas: Replicas) -> None:
    replicas[1].remove(WRITTEN[6])


def _not_compacted(replicas: Replicas) -> None:
    replicas[1].insert(0, WRITTEN[0])


def _aborted_wins(replicas: Replicas) -> None:
    """The map of keys took the aborted record for the newest."""
    replicas[1].remove(WRITTEN[2])


def _replicas_differ(replicas: Replicas) -> None:
    replicas[2][2] = WRITTEN[3]


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (_changed_value, "changed record"),
        (_changed_time, "changed record"),
        (_lost_headers, "changed record"),
        (_moved, "changed record"),
        (_reordered, "reordered"),
        (_lost_value, "lost value"),
        (_aborted_wins, "lost value"),
        (_resurrected, "lost tombstone"),
        (_cleaned_too_far, "cleaned too far"),
        (_not_compacted, "not compacted"),
        (_replicas_differ, "replicas differ"),
    ],
)
def test_what_is_planted_is_found(plant: Callable[[Replicas], None], expected: str) -> None:
    replicas = _clean()
    plant(replicas)
    assert ("I10", expected) in [(breach.invariant, breach.name) for breach in _find(replicas)]
