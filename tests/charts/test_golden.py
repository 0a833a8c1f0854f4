"""Charts render to the texts that were reviewed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.charts.cases import CHART_NAMES, HERE, accepted, golden, rendered

CASES = [case for chart in CHART_NAMES for case in accepted(chart)]


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.stem}")
def test_a_case_renders_to_its_golden_text(case: Path) -> None:
    assert rendered(case) == golden(case).read_text(), (
        "when this is meant: python -m tests.charts.cases, and look at what changed"
    )


def test_every_golden_text_has_its_case() -> None:
    assert sorted((HERE / "golden").rglob("*.yaml")) == sorted(golden(case) for case in CASES)
