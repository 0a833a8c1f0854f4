"""Each check of a compacted log's readers finds what is planted into a clean history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.histories.compaction import Kept
from tests.histories.compaction_reads import Scan, check_answers, check_scans
from tests.histories.transactions import Breach

WRITTEN: Final = {
    one.offset: one
    for one in (
        Kept(0, b"a", b"a0"),
        Kept(1, b"b", b"b0"),
        Kept(2, b"a", b"a1"),
        Kept(3, b"b", None),
        Kept(4, b"a", b"aborted", is_visible=False),
        Kept(6, b"c", b"c0"),
    )
}
NAMES: Final = {offset: f"record {offset}" for offset in WRITTEN}
LEFT: Final = (2, 6)


def _scan(*offsets: int) -> Scan:
    found = [(offset, WRITTEN[offset].key, WRITTEN[offset].value) for offset in offsets]
    return Scan("scan", {b"a": 2, b"b": 3, b"c": 6}, found, end=7)


def _find(scan: Scan) -> list[str]:
    return [breach.name for breach in check_scans(WRITTEN, [scan], kept=LEFT)]


@pytest.mark.parametrize("offsets", [(0, 1, 2, 3, 6), (2, 3, 6), (2, 6)])
def test_a_clean_scan_passes_whatever_was_compacted(offsets: tuple[int, ...]) -> None:
    assert _find(_scan(*offsets)) == []


def test_a_key_that_is_written_behind_the_scan_is_not_judged() -> None:
    scan = _scan(2)
    scan.end = 6
    assert _find(scan) == []


def test_a_slow_scan_may_miss_a_deletion() -> None:
    scan = _scan(1, 2, 6)
    scan.is_steady = False
    assert _find(scan) == []


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ((0, 3, 6), "lost value"),
        ((1, 2, 6), "deleted key is back"),
        ((2, 4, 6), "aborted read"),
        ((6, 2), "non-monotonic poll"),
        ((2,), "skipping poll"),
    ],
)
def test_what_is_planted_is_found(offsets: tuple[int, ...], expected: str) -> None:
    assert expected in _find(_scan(*offsets))


def test_another_value_at_an_offset_is_found() -> None:
    scan = _scan(2, 6)
    scan.found[0] = (2, b"a", b"a0")
    assert "inconsistent offset" in _find(scan)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda names, answered: None, None),
        (lambda names, answered: answered.update({"record 2": -1}), None),
        (lambda names, answered: answered.update({"record 2": 3}), "lost write"),
        (lambda names, answered: answered.update({"another": 3}), "lost write"),
        (lambda names, answered: names.update({2: "record 0"}), "duplicate"),
    ],
)
def test_answers_are_compared(
    change: Callable[[dict[int, str], dict[str, int]], None], expected: str | None
) -> None:
    names, answered = dict(NAMES), {"record 0": 0}
    change(names, answered)
    found: list[Breach] = list(check_answers(WRITTEN, names, answered))
    assert [breach.name for breach in found] == ([expected] if expected else [])
