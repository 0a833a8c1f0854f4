"""Versions that work together: what is known, what is refused, and the page that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.foundation.version import __version__
from odradek_operator.foundation.versions import Refusal, Series, check, is_version, newer_of, page, series_of

TABLE = (
    Series(major=1, minor=0, data_format=1, registry_format=1),
    Series(major=1, minor=1, data_format=1, registry_format=1),
    Series(major=1, minor=2, data_format=2, registry_format=1),
    Series(major=2, minor=0, data_format=2, registry_format=2),
)


def refusal(wanted: str | None, newest: str | None) -> Refusal | None:
    found = check(image="odradek", wanted=wanted, newest=newest, known=TABLE)
    return found.reason if found is not None else None


def test_the_version_of_this_distribution_is_known() -> None:
    assert series_of(__version__) is not None, "a new series needs a row in versions.SERIES"


@pytest.mark.parametrize("text", ["0.1.0", "v0.1.0", "0.1", "0.1.0-adb0479", "0.1.0.site3", "12.34.56+x"])
def test_a_tag_that_is_a_version(text: str) -> None:
    assert is_version(text)


@pytest.mark.parametrize("text", ["", "1", "latest", "sha256:00", "main-0.1.0", "0.x", "2026-01-02", None])
def test_a_tag_that_is_none(text: str | None) -> None:
    assert not is_version(text)


@pytest.mark.parametrize(
    ("wanted", "newest", "refused"),
    [
        ("1.0.0", None, None),
        ("1.0.5", "1.0.9", None),
        ("2.0.0", "1.0.0", None),
        ("1.0.0", "1.1.3", None),
        ("1.1.0", "1.2.0", Refusal.DOWNGRADE),
        ("1.2.0", "2.0.0", Refusal.DOWNGRADE),
        ("2.1.0", "2.0.0", Refusal.UNKNOWN_VERSION),
        ("1.2.0", "3.0.0", Refusal.UNKNOWN_VERSION),
        (None, "1.0.0", Refusal.UNKNOWN_VERSION),
        ("latest", None, Refusal.UNKNOWN_VERSION),
    ],
)
def test_what_may_follow(wanted: str | None, newest: str | None, refused: Refusal | None) -> None:
    assert refusal(wanted, newest) is refused


def test_a_refusal_says_what_to_do() -> None:
    def message(wanted: str | None, newest: str | None) -> str:
        found = check(image="odradek", wanted=wanted, newest=newest, known=TABLE)
        assert found is not None
        return found.message

    assert "brokers of 1.0 to 2.0" in message("2.1.0", None) and "upgrade the operator" in message(
        "2.1.0", None
    )
    assert "spec.version" in message(None, None)
    both = message("1.1.0", "2.0.1")
    assert "broker directories and the registry" in both and "2.0 or newer" in both


@pytest.mark.parametrize(
    ("one", "other", "newer"),
    [("1.0.0", "1.1.0", "1.1.0"), ("1.1.0", "1.1.9", "1.1.0"), (None, "1.0.0", "1.0.0"), (None, "x", None)],
)
def test_the_newer_of_two_series(one: str | None, other: str | None, newer: str | None) -> None:
    assert newer_of(one, other) == newer


@pytest.mark.generated
def test_the_page_names_every_series() -> None:
    text = page()
    there = (Path(__file__).parents[3] / "docs" / "reference" / "versions.md").read_text()
    assert there == text, "make reference"
    assert "| 0.1 |" in text and "| 0.2 |" in text
