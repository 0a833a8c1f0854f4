"""A test at its time limit fails. One that keeps the limit to itself ends with its process, and is named."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

pytestmark = pytest.mark.integration

CONFTEST = """
from tests.support import watchdog

pytest_plugins = ["tests.support.scheduling", "tests.support.watchdog"]
watchdog.GRACE_SECONDS = {grace_seconds}
watchdog.AGAIN_SECONDS = {again_seconds}
"""
KEPT = """
import contextlib
import time

def test_holds_before(): pass

def test_never_ends():
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(0.05)

def test_holds_after(): pass
"""
IN_CLEANUP = """
import contextlib
import time

import pytest

@pytest.fixture
def stuck():
    yield
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(0.05)

def test_fails_before(stuck): raise AssertionError

def test_holds_after(): pass
"""
# A loop is nearly always in the turn of a task whose result is not awaited.
IN_A_LOOP = """
import asyncio

import pytest

from tests.support import loop

async def work():
    while True:
        sum(range(10_000))
        await asyncio.sleep(0.001)

async def wait():
    busy = asyncio.create_task(work())
    while True:
        await asyncio.sleep(0.01)

@pytest.mark.parametrize("run", [asyncio.run, loop.run])
def test_never_ends(run):
    run(wait())

def test_passes_late():
    try:
        asyncio.run(wait())
    except KeyboardInterrupt:
        pass

@pytest.fixture
def slow():
    asyncio.run(wait())

def test_never_begins(slow): pass

def test_holds_after(): pass
"""


WAITS_IN_CLEANUP = """
import subprocess
import time

def test_never_ends():
    with subprocess.Popen(["sleep", "600"]) as outer:
        try:
            with subprocess.Popen(["sleep", "600"]) as inner:
                time.sleep(600)
        finally:
            inner.kill()
            try:
                outer.wait()
            finally:
                outer.kill()

def test_holds_after(): pass
"""
ENDS_ITS_WORKER = """
import os

def test_ends_its_worker(): os._exit(1)
"""
HOLDS = "def test_holds(): pass\n"
STALLED_CONFTEST = """
from tests.support import stalls

stalls.MARGIN_SECONDS = 14.5

def pytest_configure(config):
    stalls.register_watch(config)

def pytest_xdist_make_scheduler(config, log):
    from tests.support.scheduling import GroupScheduling

    class Forgetful(GroupScheduling):
        def _reschedule(self, node):
            pass

    return Forgetful(config, log)
"""


@pytest.fixture(autouse=True)
def _conftest(
    pytester: pytest.Pytester, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest(CONFTEST)
    monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath))


def test_a_limit_leaves_every_loop(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST.format(grace_seconds=120, again_seconds=20))
    pytester.makepyfile(test_it=IN_A_LOOP)
    result = pytester.runpytest_subprocess("--timeout=0.5", "-p", "no:randomly")
    result.assert_outcomes(passed=1, failed=3, errors=1)
    assert result.stdout.str().count("Failed: Timeout") >= 4


def test_a_report_that_takes_long_is_no_failure_of_its_own(pytester: pytest.Pytester) -> None:
    slow = "import time\n\ndef pytest_runtest_makereport(item, call): time.sleep(bool(call.excinfo))\n"
    pytester.makeconftest(CONFTEST.format(grace_seconds=60, again_seconds=0.3) + slow)
    pytester.makepyfile(test_it=WAITS_IN_CLEANUP)
    result = pytester.runpytest_subprocess("--timeout=0.5", "-p", "no:randomly", timeout=60)
    result.assert_outcomes(passed=1, failed=1)


def test_a_limit_ends_each_wait_of_the_cleanup(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST.format(grace_seconds=60, again_seconds=3))
    pytester.makepyfile(test_it=WAITS_IN_CLEANUP)
    result = pytester.runpytest_subprocess("--timeout=0.5", "-p", "no:randomly", timeout=60)
    result.assert_outcomes(passed=1, failed=1)


def test_a_process_says_where_it_was(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST.format(grace_seconds=0.2, again_seconds=20))
    pytester.makepyfile(test_it=KEPT)
    result = pytester.runpytest_subprocess("--timeout=0.2", "-p", "no:randomly")
    assert result.ret == 1
    result.stderr.fnmatch_lines(["Timeout*", '*test_it.py", line * in test_never_ends'])


def test_the_cleanup_of_a_failed_test_is_bounded(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST.format(grace_seconds=3, again_seconds=20))
    pytester.makepyfile(test_it=IN_CLEANUP)
    result = pytester.runpytest_subprocess("--timeout=0.2", "-p", "no:randomly", timeout=60)
    assert result.ret == 1
    result.stderr.fnmatch_lines(["Timeout*", '*test_it.py", line * in stuck'])


def test_a_worker_is_replaced_and_its_test_named(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST.format(grace_seconds=0.2, again_seconds=20))
    pytester.makepyfile(test_it=KEPT)
    result = pytester.runpytest_subprocess("--timeout=0.2", "-p", "no:randomly", "-n1", "--dist=loadfile")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*crashed while running 'test_it.py::test_never_ends'*"])
    result.stderr.fnmatch_lines(["Timeout*", '*test_it.py", line * in test_never_ends'])


@pytest.mark.parametrize("after", [1, 2, 3])
def test_the_last_workers_successor_takes_what_is_left(pytester: pytest.Pytester, after: int) -> None:
    """All else is given by then: no other worker is left to take the files that follow."""
    pytester.makeconftest(CONFTEST.format(grace_seconds=120, again_seconds=20))
    files = {f"test_{number}": HOLDS for number in range(2, 2 + after)}
    pytester.makepyfile(test_1=ENDS_ITS_WORKER, **files)
    result = pytester.runpytest_subprocess(
        "-n1", "--dist=loadfile", "--no-loadscope-reorder", "-p", "no:randomly", timeout=60
    )
    result.assert_outcomes(passed=after, failed=1)
    result.stdout.fnmatch_lines(["test_1.py::test_ends_its_worker ended its worker"])


def test_a_run_that_stalls_is_interrupted_and_says_so(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(STALLED_CONFTEST)
    pytester.makepyfile(test_1="def test_fails(): assert False\n" + HOLDS, test_2=HOLDS)
    result = pytester.runpytest_subprocess(
        "-n1", "--dist=loadfile", "--no-loadscope-reorder", "-p", "no:randomly", "--timeout=0.5", timeout=60
    )
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stderr.fnmatch_lines(["No test began or ended for 15 s or more: *At work: none"])
    result.stdout.fnmatch_lines(["FAILED test_1.py::test_fails*"])
