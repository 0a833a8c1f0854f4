"""Two rounds of half a minute on real processes, beside each other; `make chaos SECONDS=3600` runs for longer.

CHAOS_SEED=n takes seeds n and n+1. In the first one hostile clients attack brokers and controllers all the while. The
other is played without namespaces, by proxies, as on machines that have none. `make test` has a round with neither.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.support.broker_process import CHECKOUT

pytestmark = [pytest.mark.integration, pytest.mark.clients, pytest.mark.slow, pytest.mark.thorough]

SECONDS = 30
FIRST_SEED = int(os.environ.get("CHAOS_SEED", "2"))
SEEDS = WITH_ATTACKERS, WITHOUT_NAMESPACES = FIRST_SEED, FIRST_SEED + 1
RUN_SECONDS_MAX = 400


def play(seed: int) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "SECONDS_OF_CHAOS": str(SECONDS),
        "SEED": str(seed),
        **({"CHAOS_ISOLATED": "0"} if seed == WITHOUT_NAMESPACES else {}),
        **({"ATTACKERS": "1"} if seed == WITH_ATTACKERS else {}),
    }
    command = [sys.executable, "-m", "tests.chaos"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=CHECKOUT, env=environment
    )
    try:
        said, errors = process.communicate(timeout=RUN_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.terminate()  # it cleans up; in namespaces of its own nothing but SIGKILL reaches it
        try:
            said, errors = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            said, errors = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode or 0, said, errors)


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[int, Future[subprocess.CompletedProcess[str]]]]:
    """All of them, begun together: most of a round is waiting."""
    with ThreadPoolExecutor(len(SEEDS)) as threads:
        begun = {seed: threads.submit(play, seed) for seed in SEEDS}
        yield begun
        for run in begun.values():
            run.cancel()


@pytest.mark.timeout(2 * RUN_SECONDS_MAX)
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_was_promised_is_broken_by_faults(
    seed: int, runs: dict[int, Future[subprocess.CompletedProcess[str]]]
) -> None:
    done = runs[seed].result()
    print(done.stdout)
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-5_000:]}"
    assert "held: 1 rounds" in done.stdout
