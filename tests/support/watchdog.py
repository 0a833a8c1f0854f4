"""The time limit of a test ends it, whatever has the main thread; and where it does not, the process ends.

pytest-timeout raises its failure once, in whatever runs. asyncio keeps it in the task whose turn it is, and the other
tasks continue without that one. Only KeyboardInterrupt and SystemExit leave a loop, so the failure takes their form.
What waits for the end of something in its cleanup, as `subprocess.Popen` does, is interrupted likewise: the limit
comes again.

A test that code in C holds for longer has its process ended, and shows its stacks.
pytest-xdist names a worker that ends with its test, and another worker takes the rest.

`tests/conftest.py` names this module in `pytest_plugins`.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Generator
from types import FrameType
from typing import Any

import pytest

# What a test that was ended may take for its fixtures.
GRACE_SECONDS = 120.0
# Between the interrupts of a test whose cleanup waits.
AGAIN_SECONDS = 20.0

_errors: pytest.StashKey[int] = pytest.StashKey()
_is_running: pytest.StashKey[bool] = pytest.StashKey()
_seconds_max: pytest.StashKey[float] = pytest.StashKey()
_reached: pytest.StashKey[str] = pytest.StashKey()
_is_late: pytest.StashKey[bool] = pytest.StashKey()


class LimitReached(KeyboardInterrupt):
    """Of the kind that leaves an event loop."""


def pytest_configure(config: pytest.Config) -> None:
    # In a worker, and while a test's output is kept, this descriptor is another file.
    assert sys.__stderr__ is not None
    config.stash[_errors] = os.dup(sys.__stderr__.fileno())


def pytest_unconfigure(config: pytest.Config) -> None:
    if (errors := config.stash.get(_errors, None)) is not None:
        del config.stash[_errors]
        os.close(errors)


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, object, object]:
    item.stash[_seconds_max] = settings.timeout + GRACE_SECONDS
    _end_late(item)
    is_set = yield
    fail = signal.getsignal(signal.SIGALRM)
    if callable(fail):  # else pytest-timeout uses a thread, which ends the process

        def reach(number: int, frame: FrameType | None) -> None:
            try:
                fail(number, frame)
            except pytest.fail.Exception as failure:
                item.stash[_reached], item.stash[_is_late] = str(failure), True
                signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
                if item.stash.get(_is_running, False):
                    raise LimitReached from None

        signal.signal(signal.SIGALRM, reach)
    return is_set


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer() -> None:
    faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _fail_at_limit(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _fail_at_limit(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    if _seconds_max in item.stash:
        # pytest ceases to watch a test that has failed, for the sake of debuggers.
        _end_late(item)
    return (yield from _fail_at_limit(item))


def _end_late(item: pytest.Item) -> None:
    """End the process when the test is not over in its time, counted from now."""
    faulthandler.dump_traceback_later(item.stash[_seconds_max], exit=True, file=item.config.stash[_errors])


def _fail_at_limit(item: pytest.Item) -> Generator[None, object, object]:
    """Fail what reached its limit, also where the interrupt was kept, or the limit was before this part of the test."""
    item.stash[_is_running] = True
    if item.stash.get(_is_late, False):
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
    try:
        return (yield)
    finally:
        item.stash[_is_running] = False
        if item.stash.get(_is_late, False):
            # While the failure is reported nothing waits. An interrupt then would fail the part that comes next.
            signal.setitimer(signal.ITIMER_REAL, 0)
        if (reached := item.stash.get(_reached, None)) is not None:
            del item.stash[_reached]
            # What an interrupted loop leaves shows tracebacks when it is collected. Within the compiler, which reads
            # the sources for the report, that is an error of Python 3.11.7.
            gc.collect()
            pytest.fail(reached)
