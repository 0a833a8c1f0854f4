"""The page of proofs has the last figures of each, and every proof is a target of make."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.proof import CHECKOUT, PAGE, PROOFS, figures_of, with_row

TARGETS = set(re.findall(r"^([a-z0-9-]+):", Path(CHECKOUT, "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("proof", PROOFS, ids=[proof.name for proof in PROOFS])
def test_a_proof_is_a_target(proof: object) -> None:
    assert {one.arguments[0] for one in PROOFS if one is proof} <= TARGETS


def test_a_row_is_added_and_then_replaced() -> None:
    page = PAGE.read_text()
    once = with_row(page, "nothing A=1", "| `make nothing A=1` | first |")
    assert once.count("make nothing A=1") == 1
    twice = with_row(once, "nothing A=1", "| `make nothing A=1` | second |")
    assert twice == once.replace("first |", "second |")
    other = with_row(twice, "nothing A=2", "| `make nothing A=2` | third |")
    assert other.replace("| `make nothing A=2` | third |\n", "") == twice


def test_a_page_without_its_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no table of proofs"):
        with_row("# Proofs\n", "sim", "| `make sim` |")


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (
            "10 of 10 seeds in 7 s, 1.4 a second, 0 failed\nheld: 10 seeds from 1\n",
            "10 of 10 seeds in 7 s, 1.4 a second, 0 failed",
        ),
        ("Traceback\nValueError: odd\n", "ValueError: odd"),
        ("", "nothing was printed"),
    ],
)
def test_the_line_of_figures_is_found(printed: str, expected: str) -> None:
    (simulation,) = (one for one in PROOFS if one.name == "sim")
    assert figures_of(printed, simulation.figures) == expected


def test_what_pytest_ends_with_is_found() -> None:
    (shaken,) = (one for one in PROOFS if one.name == "shaken")
    printed = "=== 8 passed, 1 skipped in 3.21s (0:00:03) ===\n41 stops; again with --seed 7\n"
    assert figures_of(printed, shaken.figures) == "8 passed, 1 skipped in 3.21s (0:00:03)"
