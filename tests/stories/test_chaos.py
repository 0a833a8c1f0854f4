"""A short round of `make chaos`: real processes are killed, stopped and cut off, and nothing acknowledged is lost."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.broker_process import CHECKOUT

pytestmark = [pytest.mark.integration, pytest.mark.clients]

ROUND_SECONDS_MAX = 280


def test_a_short_round_keeps_every_promise() -> None:
    """By proxies, which need no rights."""
    environment = {"SECONDS_OF_CHAOS": "10", "SEED": "6", "CHAOS_ISOLATED": "0"}
    played = subprocess.run(
        [sys.executable, "-m", "tests.chaos"],
        cwd=CHECKOUT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=ROUND_SECONDS_MAX,
    )
    assert played.returncode == 0, f"{played.stdout[-20_000:]}\n{played.stderr[-5_000:]}"
    assert "held: 1 rounds" in played.stdout
