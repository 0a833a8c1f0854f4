"""Positions in topics, as people write them."""

from __future__ import annotations

import pytest

from odradek_pipeline.runs.positions import PositionError, position


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2026-03-01T12:00:00Z", 1772366400000),
        ("2026-03-01T13:00:00+01:00", 1772366400000),
        ("2026-03-01T12:00:00", 1772366400000),
        ("1772366400000", 1772366400000),
    ],
)
def test_a_time_is_a_position(text: str, milliseconds: int) -> None:
    assert position(text).time_ms == milliseconds


@pytest.mark.parametrize("text", ["earliest", "latest", " latest "])
def test_words_are_positions(text: str) -> None:
    found = position(text)
    assert (found.text, found.time_ms, found.offsets) == (text.strip(), None, None)


def test_offsets_are_positions_of_one_topic_or_of_several() -> None:
    assert position("1:20,0:7").offsets == {("", 1): 20, ("", 0): 7}
    several = position("orders/0:7,re.turns-2/1:8")
    assert several.offset("orders", 0) == 7
    assert several.offset("re.turns-2", 1) == 8
    assert several.offset("orders", 1) is None


def test_a_partition_with_two_offsets_is_refused() -> None:
    with pytest.raises(PositionError, match="orders/0 has two offsets"):
        position("orders/0:7,orders/0:8")


@pytest.mark.parametrize("text", ["yesterday", "", "0:1,", "0=1", "-5"])
def test_other_texts_are_refused_with_the_forms_that_there_are(text: str) -> None:
    with pytest.raises(PositionError, match="earliest, latest, a time"):
        position(text)
