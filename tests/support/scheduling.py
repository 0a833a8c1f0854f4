"""Which tests of a run one worker of pytest-xdist takes together: those of a file, or of a group of folders.

A group's heavy fixtures exist once in a run instead of once in each worker. They are Spark's session, JVMs with Kafka's
clients and tools, and ZooKeeper. Groups come first, so that none is at work alone when all else is done. The thorough
tests of Spark would be so all the same: they have two sessions.

xdist's own `loadgroup` puts the group behind the name of each test, which then selects nothing on a command line.
"""

from __future__ import annotations

from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import Producer, WorkerController

from tests.support.examples import IS_THOROUGH

_SECOND_SESSION: Final = tuple(
    f"tests/spark/test_{name}"
    for name in ("audit", "bad_records", "connector", "killed", "load", "page_command", "snapshot", "stream")
)
# The longest first. What is left out of a folder starts programs of its own and needs none of its fixtures.
_GROUPS: Final = {
    "spark, second session": _SECOND_SESSION if IS_THOROUGH else (),
    "spark": ("tests/spark/",),
    "java": ("tests/compat/java/", "tests/docs/test_phrase_book.py"),
    "zookeeper": ("tests/metadata/registry/",),
}
_LEFT_OUT: Final = (
    "tests/spark/test_killed_sink.py",
    "tests/compat/java/test_first_kafka.py",
    "tests/compat/java/test_kafka_directory.py",
    "tests/compat/java/test_mixed_group.py",
)


def group_of(test: str) -> str | None:
    """The group of a test by its node id; None where its file is on its own."""
    if test.startswith(_LEFT_OUT):
        return None
    return next((group for group, places in _GROUPS.items() if test.startswith(places)), None)


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """One worker takes a whole file, or a whole group. What ended a worker is not run again by the next."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid) or nodeid.partition("::")[0]

    def remove_node(self, node: WorkerController) -> str | None:
        """The test that ended the worker, if any; its other tests are given to others."""
        units = {scope: unit for scope, unit in self.assigned_work[node].items() if not all(unit.values())}
        if not units:
            return super().remove_node(node)  # type: ignore[no-any-return]
        first = next(iter(units.values()))
        ended_it = next(test for test, is_done in first.items() if not is_done)
        first[ended_it] = True
        # A worker that is given what has ended never answers.
        self.assigned_work[node] = {scope: unit for scope, unit in units.items() if not all(unit.values())}
        super().remove_node(node)
        return ended_it  # type: ignore[no-any-return]

    def _reschedule(self, node: WorkerController) -> None:
        """Give a worker more than its last test, if there are more: it begins no test before it has the next one.

        xdist gives one scope for each test that ends. The scope that a replaced worker begins with may have one test.
        """
        while not node.shutting_down:
            given = len(self.assigned_work[node])
            super()._reschedule(node)
            if len(self.assigned_work[node]) == given:
                return


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling | None:
    """For `--dist loadfile`; every other way is xdist's."""
    return GroupScheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_handlecrashitem(crashitem: str, sched: GroupScheduling) -> None:
    """Name the test at once: a run that does not end has no summary."""
    if (terminal := sched.config.pluginmanager.get_plugin("terminalreporter")) is not None:
        terminal.write_line(f"{crashitem} ended its worker")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a worker, put what belongs to a group first, by groups."""
    if hasattr(config, "workerinput"):
        order = [*_GROUPS, None]
        items.sort(key=lambda item: order.index(group_of(item.nodeid)))
