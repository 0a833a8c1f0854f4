"""The tour of `make demo` is true: it ends with 0 only when nothing was lost or doubled over its kill -9."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import CHECKOUT

pytestmark = [
    pytest.mark.integration,
    pytest.mark.clients,
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.thorough,
]


def test_the_tour_ends_well(tmp_path: Path) -> None:
    page = tmp_path / "pages" / "visits.html"
    done = subprocess.run(
        [sys.executable, "-m", "demo", "--page", str(page)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 are missing and 0 came twice" in " ".join(done.stdout.split())
    assert "0 are missing in the other cluster, and 0 came twice" in " ".join(done.stdout.split())
    assert "120,000 are there: none is missing, none is doubled" in " ".join(done.stdout.split())
    assert "'complete': 24}  120,000 of 120,000 events" in done.stdout
    assert str(page) in done.stdout and "Nothing to do" in page.read_text()
    assert done.stderr == ""
