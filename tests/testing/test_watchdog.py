"""A test that keeps its time limit to itself ends with its process, by name and with its stack."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

CONFTEST = """
from tests.support import watchdog

pytest_plugins = ["tests.support.scheduling", "tests.support.watchdog"]
watchdog.GRACE_SECONDS = 0.2
"""
TESTS = """
import contextlib
import time

def test_holds_before(): pass

def test_never_ends():
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(0.05)

def test_holds_after(): pass
"""


@pytest.fixture(autouse=True)
def _tests(
    pytester: pytest.Pytester, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_it=TESTS)
    monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath))


def test_a_process_says_where_it_was(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--timeout=0.2", "-p", "no:randomly")
    assert result.ret == 1
    result.stderr.fnmatch_lines(["Timeout*", '*test_it.py", line * in test_never_ends'])


def test_a_worker_is_replaced_and_its_test_named(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--timeout=0.2", "-p", "no:randomly", "-n1", "--dist=loadfile")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*crashed while running 'test_it.py::test_never_ends'*"])
    result.stderr.fnmatch_lines(["Timeout*", '*test_it.py", line * in test_never_ends'])
