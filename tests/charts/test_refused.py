"""Wrong values are refused before anything reaches a cluster, by a message that points at the value."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.charts.cases import CHART_NAMES, refused
from tests.support.helm import CHARTS, HelmFailed, template

pytestmark = pytest.mark.thorough

CASES = [case for chart in CHART_NAMES for case in refused(chart)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.stem}")
def test_a_wrong_value_is_refused_by_its_path(case: Path) -> None:
    path, says = (line.partition(": ")[2] for line in case.read_text().splitlines()[:2])
    with pytest.raises(HelmFailed) as failure:
        template(CHARTS / case.parent.name, values=[case])
    pointed = [line for line in str(failure.value).splitlines() if f"at '{path.rstrip('/')}'" in line]
    assert pointed, failure.value
    assert any(says in line for line in pointed), pointed
