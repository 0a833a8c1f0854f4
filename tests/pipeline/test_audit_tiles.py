"""Tilings against a model of single offsets: what is done to a table is named, and nothing else is."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek_pipeline.audit.spans import (
    append,
    count_offsets,
    find_overlaps,
    intersect_spans,
    join_spans,
    subtract_spans,
)
from odradek_pipeline.audit.tiles import LogPicture, RangesRead, RowsHeld, find_gaps, lay_tiles
from odradek_pipeline.runs.ranges import PartitionKey
from tests.support.examples import examples

KEY = PartitionKey("orders", "id", 0)
SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8)


@given(st.lists(st.integers(1, 4), max_size=12), st.integers(0, 5))
def test_spans_are_appended_without_gaps(steps: list[int], start: int) -> None:
    appended: list[tuple[int, int]] = []
    at = start
    for step in steps:
        append(appended, (at, at + step))
        at += step + step % 2
    assert appended == join_spans(appended)
    assert count_offsets(appended) == sum(steps)


def offsets(spans: list[tuple[int, int]]) -> list[int]:
    return [offset for start, end in spans for offset in range(start, end)]


def single(found: set[int]) -> list[tuple[int, int]]:
    return [(one, one + 1) for one in sorted(found)]


@given(SPANS, SPANS)
def test_spans_are_sets_of_offsets(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    mine, theirs = set(offsets(first)), set(offsets(second))
    assert set(offsets(join_spans(first))) == mine and count_offsets(join_spans(first)) == len(mine)
    assert set(offsets(subtract_spans(first, second))) == mine - theirs
    assert set(offsets(intersect_spans(first, second))) == mine & theirs
    counted = offsets(first)
    assert set(offsets(find_overlaps(first))) == {one for one in counted if counted.count(one) > 1}
    for made in (
        join_spans(first),
        subtract_spans(first, second),
        intersect_spans(first, second),
        find_overlaps(first),
    ):
        assert all(one[1] < other[0] for one, other in pairwise(made)), "they do not touch"


# What an offset of the log is: a record, an aborted one, a marker, compacted within a batch, or nothing at all.
LOG = st.lists(st.sampled_from("rrrracxn"), min_size=1, max_size=40)
DAMAGE = st.sampled_from(["", "", "", "lost", "double", "dead", "passed"])


@pytest.mark.thorough
@settings(max_examples=examples(300))
@given(LOG, st.lists(DAMAGE, min_size=40, max_size=40), st.integers(0, 10), st.integers(1, 9), st.booleans())
def test_each_damage_is_named_and_nothing_else(
    log: list[str], damage: list[str], log_start: int, step: int, is_compacted: bool
) -> None:
    end = len(log)
    at = {kind: {one for one, found in enumerate(log) if found == kind} for kind in "racxn"}
    records = {one for one in at["r"] if one >= log_start}
    lost = {one for one in at["r"] if damage[one] == "lost"}
    dead = {one for one in at["r"] if damage[one] == "dead"}
    passed = {one for one in at["r"] if damage[one] == "passed"}
    rows = at["r"] - lost - dead - passed
    doubled = {one for one in rows if damage[one] == "double"}
    ranges = [(start, min(start + step, end)) for start in range(0, end, step)]
    read = RangesRead(KEY, (0, end), ranges, single(passed))
    held = RowsHeld(single(rows), single(doubled), single(dead))
    unread = set(offsets(find_gaps(read, held, log_start, single(records))))
    assert unread == set(range(min(log_start, end), end)) - records - dead
    above = set(range(log_start, end))
    picture = LogPicture(
        log_start,
        single(records),
        single(at["c"] & above),
        single(at["a"] & above),
        single(at["x"] & above),
        is_compacted,
    )
    found = lay_tiles(read, held, picture)
    wanted = {("missing", one) for one in lost & above} | {("doubled", one) for one in doubled}
    if not is_compacted:
        wanted |= {("unexplained", one) for one in at["n"] & above}
    assert {(fault.what, one) for fault in found.faults for one in range(fault.start, fault.end)} == wanted
    assert (found.rows, found.dead, found.passed_over) == (len(rows), len(dead), len(passed))
    assert (found.control, found.aborted) == (len(at["c"] & above), len(at["a"] & above))
    unexplained = count_offsets(
        [(one.start, one.end) for one in found.faults if one.what in ("missing", "unexplained")]
    )
    total = found.rows + found.dead + found.control + found.aborted + found.compacted + found.passed_over
    assert total + found.unchecked + unexplained == end, "every offset is counted once"


def test_ranges_and_rows_that_cannot_be() -> None:
    log = LogPicture(0, [(0, 30)])
    read = RangesRead(KEY, (0, 30), [(0, 10), (8, 20), (25, 30)])
    named = [str(one) for one in lay_tiles(read, RowsHeld([(0, 20), (25, 31)]), log).faults]
    assert named == ["orders-0 20..25 hole", "orders-0 8..10 overlap", "orders-0 30..31 foreign"]
    later = RangesRead(KEY, (0, 30), [(10, 30)], is_whole=False)
    assert lay_tiles(later, RowsHeld([(0, 30)]), log).faults == ()
    aborted = LogPicture(0, [(0, 5), (8, 10)], control=[(7, 8)], aborted=[(5, 7)])
    whole = RangesRead(KEY, (0, 10), [(0, 10)])
    named = [str(one) for one in lay_tiles(whole, RowsHeld([(0, 6), (7, 10)]), aborted).faults]
    assert named == ["orders-0 5..6 uncommitted", "orders-0 7..8 unknown"]
    compacted = LogPicture(0, [(0, 3)], is_compacted=True)
    assert lay_tiles(whole, RowsHeld([(0, 10)]), compacted).faults == (), "rows outlive their records"
