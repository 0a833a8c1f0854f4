"""The tour of `make demo` is true: it ends with 0 only when nothing was lost or doubled over its kill -9."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.broker_process import CHECKOUT

pytestmark = [pytest.mark.integration, pytest.mark.clients, pytest.mark.spark, pytest.mark.timeout(300)]


def test_the_tour_ends_well() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demo"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 are missing and 0 came twice" in " ".join(done.stdout.split())
    assert "120,000 are there: none is missing, none is doubled" in " ".join(done.stdout.split())
    assert done.stderr == ""
