"""`helm lint` finds nothing, with every case's values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.charts.cases import CHART_NAMES, accepted
from tests.support.helm import CHARTS, KUBERNETES, helm

CASES = [case for chart in CHART_NAMES for case in accepted(chart)]


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.stem}")
def test_lint_finds_nothing(case: Path) -> None:
    chart = CHARTS / case.parent.name
    said = helm("lint", str(chart), "--strict", "--kube-version", KUBERNETES, "--values", str(case))
    assert "0 chart(s) failed" in said
    assert "[WARNING]" not in said
