"""A short round of `make chaos`: real processes are killed, stopped and cut off, and nothing acknowledged is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from tests.support.broker_process import CHECKOUT

pytestmark = [pytest.mark.integration, pytest.mark.clients, pytest.mark.quiet]

ROUND_SECONDS_MAX = 1_140  # half a minute at rest


@pytest.mark.timeout(1_200)
def test_a_short_round_keeps_every_promise() -> None:
    """By proxies, which need no rights."""
    environment = {"SECONDS_OF_CHAOS": "10", "SEED": "6", "CHAOS_ISOLATED": "0"}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.chaos"],
        cwd=CHECKOUT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as round_played:
        try:
            output, errors = round_played.communicate(timeout=ROUND_SECONDS_MAX)
        finally:
            # A round that is cut off leaves none of its brokers and clients.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(round_played.pid, signal.SIGKILL)
    assert round_played.returncode == 0, f"{output[-20_000:]}\n{errors[-5_000:]}"
    assert "held: 1 rounds" in output
