"""The run that stops processes stops as many as it says, and leaves none behind."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from tests.shaken import STOP_SECONDS, Shaker
from tests.support.polling import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def parent() -> Iterator[psutil.Process]:
    """A process with three children, all of which wait."""
    program = (
        "import subprocess as s; print(flush=True); [c.wait() for c in [s.Popen(['cat']) for _ in range(3)]]"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        root = psutil.Process(process.pid)
        while len(root.children()) < 3:
            root.status()
        yield root
        for child in root.children():
            child.kill()
        process.communicate()


def wait_for_stopped(root: psutil.Process, count: int) -> None:
    """A process that was sent SIGSTOP or SIGCONT shows it once it had a processor."""
    wait_until(
        f"{count} of the children are stopped",
        lambda: sum(child.status() == psutil.STATUS_STOPPED for child in root.children()) == count,
    )


def test_two_are_stopped_at_each_moment_and_none_at_the_end(parent: psutil.Process) -> None:
    shaker = Shaker(parent, stopped_max=2, chance=random.Random(1))
    for moment in range(20):
        shaker.turn(moment * STOP_SECONDS[1])
        wait_for_stopped(parent, 2)
    assert shaker.stops > 20
    shaker.end()
    wait_for_stopped(parent, 0)


def test_a_process_is_stopped_for_its_time_only(parent: psutil.Process) -> None:
    shaker = Shaker(parent, stopped_max=3, chance=random.Random(1))
    shaker.turn(0)
    wait_for_stopped(parent, 3)
    shaker.turn(STOP_SECONDS[0] / 2)
    assert shaker.stops == 3
    shaker.turn(STOP_SECONDS[1])
    assert shaker.stops == 6
    shaker.end()
