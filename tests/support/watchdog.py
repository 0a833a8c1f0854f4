"""A test that its time limit does not end has its process ended, which shows what each thread was doing.

pytest-timeout raises the limit once, in whatever the main thread runs. asyncio gives it to the task whose turn it is,
and other tasks continue. A worker that ends is named by pytest-xdist with its test, and another one takes the rest.

`tests/conftest.py` names this module in `pytest_plugins`.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from typing import Any

import pytest

# What a test that was ended may take for its fixtures.
GRACE_SECONDS = 120.0

_errors: pytest.StashKey[int] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    # In a worker, and while a test's output is kept, this descriptor is another file.
    assert sys.__stderr__ is not None
    config.stash[_errors] = os.dup(sys.__stderr__.fileno())


def pytest_unconfigure(config: pytest.Config) -> None:
    if (errors := config.stash.get(_errors, None)) is not None:
        del config.stash[_errors]
        os.close(errors)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Start beside the timer of pytest-timeout, which follows."""
    faulthandler.dump_traceback_later(
        settings.timeout + GRACE_SECONDS, exit=True, file=item.config.stash[_errors]
    )


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer() -> None:
    faulthandler.cancel_dump_traceback_later()
