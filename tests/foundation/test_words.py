"""Nouns beside numbers."""

from __future__ import annotations

import pytest

from odradek.foundation.words import count, is_likely_typo


@pytest.mark.parametrize(("number", "words"), [(0, "0 members"), (1, "1 member"), (2, "2 members")])
def test_a_noun_has_the_number_that_it_needs(number: int, words: str) -> None:
    assert count(number, "member") == words


@pytest.mark.parametrize(
    ("name", "known", "is_typo"),
    [
        ("ordrs", "orders", True),
        ("ordesr", "orders", True),
        ("Orders", "orders", True),
        ("web_clicks", "web-clicks", True),
        ("webclicks", "web-clicks", True),
        ("shop-paymnets", "shop-payments", True),
        ("orders", "orders", False),
        ("orders-2", "orders-1", False),
        ("orders2", "orders", False),
        ("orders-eu", "orders-us", False),
        ("orders-retry", "orders", False),
        ("test", "best-of", False),
        ("a", "b", False),
        ("payments", "shipments", False),
    ],
)
def test_a_mistyped_name_is_told_from_another_one(name: str, known: str, is_typo: bool) -> None:
    assert is_likely_typo(name, known) is is_typo
