"""franz-go's own integration tests, judged by `run`: every test named in `allow` must pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import require_franz_go

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.thorough]

RUN = Path(__file__).parent / "run"


def test_every_allowed_test_passes(bootstrap: str) -> None:
    require_franz_go()
    command = [sys.executable, str(RUN), "--seeds", bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1150)
    print(done.stdout[-15_000:])
    assert done.returncode == 0, done.stdout.splitlines()[-1:] or done.stderr
