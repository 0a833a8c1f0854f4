"""What every test shares: fast ones first, and property tests are never failed for being slow: machines may be busy."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.support.zookeeper import ZooKeeper

# A failing example is printed with a blob that replays it; time is pytest's to bound, not a single example's.
settings.register_profile(
    "odradek", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("odradek")

# From the quickest kind to the slowest; what has none of these marks is in one process and comes first.
_SLOWER_AND_SLOWER: Final = ("integration", "clients", "java", "spark", "slow")


def pytest_configure() -> None:
    """Let Ctrl-C reach what tests start, also in a run that a script started in the background.

    A shell has such a run ignore SIGINT, and every process that it starts inherits that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the random order within a kind, and sort the kinds: what breaks something simple fails at once."""

    def slowness(item: pytest.Item) -> int:
        return max(
            (rank for rank, mark in enumerate(_SLOWER_AND_SLOWER, 1) if item.get_closest_marker(mark)),
            default=0,
        )

    items.sort(key=slowness)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A real ZooKeeper for all tests together: each keeps to a chroot of its own, and nobody stops it."""
    from tests.support.zookeeper import ZooKeeper

    server = ZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.close()
