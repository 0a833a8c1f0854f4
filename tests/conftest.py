"""What every test shares: its order, the time that property tests get, and a ZooKeeper."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

from tests.support import scheduling
from tests.support.costs import COSTS, Meter
from tests.support.examples import load_profile
from tests.support.stalls import register_watch

if TYPE_CHECKING:
    from tests.support.zookeeper import ZooKeeper

pytest_plugins = ["tests.support.pytest_hooks", "tests.support.quiet", "tests.support.watchdog"]

load_profile()

# From the slowest kind to the quickest, after the tests with none of these marks, which run in one process. At the end
# are those on virtual time.
_KINDS_IN_TURN: Final = ("slow", "spark", "java", "clients", "integration", "virtual")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", default=COSTS, metavar="FILE", help="where to write what each test took")


def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C reach what tests start, also in a run that a script started in the background.

    A shell has such a run ignore SIGINT, and every process that it starts inherits that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(Meter(config.rootpath / config.getoption("--costs")), "costs")
    config.pluginmanager.register(scheduling, "scheduling")
    register_watch(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the kinds and keep the random order within each.

    Tests in one process come first: what breaks something simple fails at once. The slowest follow, and the quick ones
    of those that start processes come last. So all workers of pytest-xdist end at about the same time. What runs on
    virtual time for minutes cannot be late, so it is behind them all.
    """

    def turn(item: pytest.Item) -> int:
        return min(
            (turn for turn, mark in enumerate(_KINDS_IN_TURN, 1) if item.get_closest_marker(mark)),
            default=0,
        )

    items.sort(key=turn)


def pytest_collection_finish() -> None:
    """Leave what all tests need out of the search for garbage: a million objects, which no test makes garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A real ZooKeeper for all tests together: each has a chroot of its own, and none stops it."""
    from tests.support.zookeeper import ZooKeeper

    server = ZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.close()
