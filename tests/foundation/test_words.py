"""Nouns beside numbers."""

from __future__ import annotations

import pytest

from odradek.foundation.words import count


@pytest.mark.parametrize(("number", "words"), [(0, "0 members"), (1, "1 member"), (2, "2 members")])
def test_a_noun_has_the_number_that_it_needs(number: int, words: str) -> None:
    assert count(number, "member") == words
