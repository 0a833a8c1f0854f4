"""The class `Log` has every method of a log: none is assigned to an object, where no reader would look for it."""

from __future__ import annotations

import inspect

from odradek.storage.log import Log
from odradek.storage.log_appender import LogAppender
from odradek.storage.log_flusher import LogFlusher
from odradek.storage.log_health import LogHealth
from odradek.storage.log_reader import LogReader
from tests.support.disk import SimulatedDisk
from tests.support.logs import open_log


def test_no_method_is_assigned_to_a_log() -> None:
    log = open_log(SimulatedDisk())
    assert [name for name, value in vars(log).items() if inspect.isroutine(value)] == []


def test_methods_of_parts_take_what_the_parts_take() -> None:
    compared = 0
    for part in (LogAppender, LogReader, LogFlusher, LogHealth):
        for name, method in inspect.getmembers(part, inspect.isfunction):
            own = vars(Log).get(name)
            # `is_flush_due` and `reconfigure` add and spread what the log itself knows.
            if name.startswith("_") or not inspect.isfunction(own) or name in ("is_flush_due", "reconfigure"):
                continue
            # The texts of two annotations may name one type by its module or without it.
            expected = [
                (one.name, one.kind, one.default) for one in inspect.signature(method).parameters.values()
            ]
            assert [
                (one.name, one.kind, one.default) for one in inspect.signature(own).parameters.values()
            ] == expected
            compared += 1
    assert compared == 19
