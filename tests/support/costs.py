"""What each test costs: seconds of CPU and of wall time. The end of every run writes them to the file of `--costs`.

A test's CPU time is that of its process and of all processes below it, from setup to teardown. So a broker that many
tests share is paid by the test that asks it. A fixture that outlives its test has a row of its own, `fixture:NAME`.

A slow or busy machine takes more seconds for the same test. Each file of tests times a fixed loop as well, the
yardstick. Its median says how slow the machine was during the run, and budgets are scaled by it.

A process that leaves its parent's tree takes its time with it: daemons are not counted. Where there is no /proc, a
process counts once it has ended.
"""

from __future__ import annotations

import gc
import os
import resource
import statistics
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

CHECKOUT: Final = Path(__file__).parents[2]
COSTS: Final = ".cache/costs.tsv"
# Seconds of CPU that the yardstick takes on the machine that budgets are written for.
YARDSTICK_CPU_SECONDS: Final = 0.0011
_STARVATION_CPU_SECONDS: Final = 0.05
_YARDSTICK: Final = "yardstick"
_PROPERTY: Final = "cost"
_MARKS_OF_INTEGRATION: Final = ("integration", "clients", "java", "spark")
# Fields of /proc/PROCESS/stat, counted from the one behind the name: the parent. Then the times of the process, and of
# those that it has reaped, for user and system.
_PARENT: Final = 1
_TIMES: Final = slice(11, 15)


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of CPU and of wall time that something took."""

    cpu_seconds: float
    wall_seconds: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.cpu_seconds + other.cpu_seconds, self.wall_seconds + other.wall_seconds)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.cpu_seconds - other.cpu_seconds, self.wall_seconds - other.wall_seconds)


def spent_so_far() -> Cost:
    """What this process and all processes below it have taken until now."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = own.ru_utime + own.ru_stime + reaped.ru_utime + reaped.ru_stime
    return Cost(cpu + _seconds_of_living_below(), time.monotonic())


def _seconds_of_living_below() -> float:
    """CPU time of the living processes below this one, with what each of them has reaped."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0.0  # most tests start none, and reading /proc takes milliseconds
    ticks: dict[int, int] = {}
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdecimal() and (fields := _stat(name)):
            below.setdefault(int(fields[_PARENT]), []).append(int(name))
            ticks[int(name)] = sum(map(int, fields[_TIMES]))
    found, waiting = 0, [os.getpid()]
    while waiting:
        for process in below.get(waiting.pop(), ()):
            found += ticks[process]
            waiting.append(process)
    return found / os.sysconf("SC_CLK_TCK")


def _stat(process: str) -> list[bytes]:
    """The fields of /proc/PROCESS/stat behind the name, which may hold anything; none once the process is gone."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def set_heap_aside() -> None:
    """Leave what is in memory now out of later searches for garbage.

    A process that has run many tests has millions of objects, and each full search takes a second there.
    """
    gc.collect()
    gc.freeze()


def measure_yardstick() -> float:
    """CPU seconds of a loop of fixed length: the shortest of three, since the first one fills caches."""

    def once() -> float:
        before = time.process_time()
        sum(number * number % 7 for number in range(25_000))
        return time.process_time() - before

    return min(once(), once(), once())


def measure_starvation() -> float:
    """How many times longer this process takes than the processor's time that it gets; 1.0 where it waits for none."""
    begun_at, before = time.monotonic(), time.process_time()
    while (spent := time.process_time() - before) < _STARVATION_CPU_SECONDS:
        pass
    return max(1.0, (time.monotonic() - begun_at) / spent)


def kind_of(item: pytest.Item) -> str:
    """What budget a test has: `unit` or `integration` in the quick run, or `thorough`."""
    if item.get_closest_marker("thorough"):
        return "thorough"
    return "integration" if any(map(item.get_closest_marker, _MARKS_OF_INTEGRATION)) else "unit"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the file: a test, a shared fixture, or the yardstick."""

    name: str
    kind: str
    cost: Cost


def read_costs(path: Path) -> list[Row]:
    """The rows of a run, the most expensive first."""
    rows = []
    for line in path.read_text().splitlines()[1:]:
        cpu, wall, kind, name = line.split("\t", 3)
        rows.append(Row(name, kind, Cost(float(cpu), float(wall))))
    return rows


def slowness(rows: list[Row]) -> float:
    """How much longer the machine of a run takes than the one that budgets are written for; 1.0 for the same."""
    measured = [row.cost.cpu_seconds for row in rows if row.kind == _YARDSTICK]
    return statistics.median(measured) / YARDSTICK_CPU_SECONDS if measured else 1.0


class Meter:
    """Measures the tests of one process; in the process that reports, collects what all of them measured."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._shared: dict[str, Cost] = {}
        self._to_shared = Cost(0, 0)
        self._began = Cost(0, 0)
        self._folders_file: Path | None = None
        self._rows: dict[str, Row] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Generator[None, Any, Any]:
        if fixturedef.scope == "function":
            return (yield)
        before, inner = spent_so_far(), self._to_shared
        try:
            return (yield)
        finally:
            took = spent_so_far() - before
            # What this fixture's own fixtures took is theirs already.
            own = took - (self._to_shared - inner)
            self._to_shared = inner + took
            name = f"fixture:{fixturedef.argname}"
            self._shared[name] = self._shared.get(name, Cost(0, 0)) + own

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._shared, self._to_shared = {}, Cost(0, 0)
        if item.path != self._folders_file:
            self._folders_file = item.path
            took = measure_yardstick()
            self._shared[f"{_YARDSTICK}:{item.path.relative_to(CHECKOUT)}"] = Cost(took, took)
        self._began = spent_so_far()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            took = spent_so_far() - self._began - self._to_shared
            rows = [(item.nodeid, kind_of(item), took)]
            rows += [(name, name.partition(":")[0], cost) for name, cost in self._shared.items()]
            measured = [[name, kind, cost.cpu_seconds, cost.wall_seconds] for name, kind, cost in rows]
            report.user_properties.append((_PROPERTY, measured))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "teardown":
            return
        for property_name, measured in report.user_properties:
            if property_name != _PROPERTY or not isinstance(measured, list):
                continue
            for name, kind, cpu, wall in measured:
                before = self._rows[name].cost if name in self._rows else Cost(0, 0)
                self._rows[name] = Row(name, kind, before + Cost(cpu, wall))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput") or not self._rows:
            return
        rows = sorted(self._rows.values(), key=lambda row: -row.cost.cpu_seconds)
        lines = [
            f"{row.cost.cpu_seconds:.3f}\t{row.cost.wall_seconds:.3f}\t{row.kind}\t{row.name}\n"
            for row in rows
        ]
        self._file.parent.mkdir(exist_ok=True)
        self._file.write_text("cpu_seconds\twall_seconds\tkind\ttest\n" + "".join(lines))


def print_slowest(path: Path, *, count: int) -> None:
    """The most expensive tests and shared fixtures of a run, and the sums by folder."""
    rows = [row for row in read_costs(path) if row.kind != _YARDSTICK]
    print(f"{'CPU s':>8} {'wall s':>8}  kind         test")
    for row in rows[:count]:
        print(f"{row.cost.cpu_seconds:8.2f} {row.cost.wall_seconds:8.2f}  {row.kind:<12} {row.name}")
    sums: dict[str, list[float]] = {}
    for row in rows:
        folder = row.name if row.kind == "fixture" else "/".join(row.name.split("/")[:2])
        sums.setdefault(folder, []).append(row.cost.cpu_seconds)
    print(f"\n{'CPU s':>8} {'tests':>8}  folder or shared fixture")
    for folder, costs in sorted(sums.items(), key=lambda item: -sum(item[1])):
        print(f"{sum(costs):8.1f} {len(costs):8}  {folder}")
    total = sum(row.cost.cpu_seconds for row in rows)
    factor = slowness(read_costs(path))
    print(f"\n{total / 60:.1f} minutes of CPU; the machine took {factor:.2f} times what budgets assume")


if __name__ == "__main__":
    given = Path(sys.argv[1] if len(sys.argv) > 1 else COSTS)
    if not given.exists():
        sys.exit(f"{given} is not there: `make test` writes it.")
    print_slowest(given, count=int(sys.argv[2]) if len(sys.argv) > 2 else 40)
