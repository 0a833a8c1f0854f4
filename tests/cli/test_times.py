"""Moments and durations as people type them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cli.shared.times import format_moment, format_seconds, parse_duration_ms, parse_moment_ms

NOW_MS = 1_772_366_400_000  # 2026-03-01T12:00:00Z


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("500ms", 500),
        ("90s", 90_000),
        ("1.5s", 1_500),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("PT1H30M", 5_400_000),
        ("P1DT0.5S", 86_400_500),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "5", "5x", "m", "-5m", "P", "PT", "5m!", "1h 30m"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write it like"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "moment_ms"),
    [
        ("now", NOW_MS),
        ("5m", NOW_MS - 300_000),
        ("PT5M", NOW_MS - 300_000),
        ("2026-03-01T12:00:00Z", NOW_MS),
        ("2026-03-01T12:00:00", NOW_MS),
        ("2026-03-01T13:00:00+01:00", NOW_MS),
        ("2026-03-01", NOW_MS - 12 * 3_600_000),
        ("2026-03-01T12:00:00.250Z", NOW_MS + 250),
        (str(NOW_MS), NOW_MS),
    ],
)
def test_moments(text: str, moment_ms: int) -> None:
    assert parse_moment_ms(text, now_ms=NOW_MS) == moment_ms


@pytest.mark.parametrize("text", ["", "yesterday", "12345", "2026-13-01"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time; write it like"):
        parse_moment_ms(text, now_ms=NOW_MS)


@given(st.integers(0, 4_000_000_000_000))
def test_a_moment_is_read_as_it_was_printed(moment_ms: int) -> None:
    assert parse_moment_ms(format_moment(moment_ms), now_ms=0) == moment_ms


def test_no_timestamp_and_spans() -> None:
    assert format_moment(-1) == "-"
    spans = [0.04, 9.94, 10, 59.4, 65, 3_660, 90_000]
    assert [format_seconds(s) for s in spans] == ["0.0s", "9.9s", "10s", "59s", "1m 05s", "1h 01m", "1d 01h"]
