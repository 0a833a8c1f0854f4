"""Plays tests of a suite in one Java, and says of each method what its tests showed."""

from __future__ import annotations

import hashlib
import json
import subprocess
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.foreign.keeper import Keeper
from tests.foreign.suites import Suite
from tests.support.class_archives import one_at_a_time
from tests.support.java import java_arguments, java_environment

PASSED, FAILED, SILENT = "passed", "failed", "says nothing"
METHOD_SECONDS_MAX: Final = 180
# A test's own time limit wins over ours, and some have none for what comes before and after it.
_SILENCE_SECONDS_MAX: Final = 420
_SAID_CHARACTERS_MAX: Final = 4000


class JavaEndedError(Exception):
    """The process that runs tests ended before they had."""


class Shown(NamedTuple):
    """What one test showed; `status` is JUnit's, or STARTED for one that did not end. `logs` are the cluster's."""

    test: str
    status: str
    display: str = ""
    seconds: float = 0.0
    message: str = ""
    trace: str = ""
    logs: str = ""


class Verdict(NamedTuple):
    """What all tests of a method showed."""

    kind: str
    seconds: float
    message: str
    shown: Sequence[Shown]


def methods_of(suite: Suite, folder: Path) -> list[str]:
    """All test methods of the suite's version, as class#method, in the order in which JUnit has them."""
    classes, launcher = suite.classes(), suite.launcher()
    digest = hashlib.sha256("\n".join([launcher, *classes]).encode()).hexdigest()[:12]
    kept = suite.folder / f"methods-{digest}"
    if not kept.exists():
        named = _written(folder / "classes", classes)
        lines = _lines(suite, launcher, ["list", named], folder / "list.log", ())
        found = list(dict.fromkeys(line["test"] for line in lines))
        with one_at_a_time(suite.folder / "methods"):
            _written(kept, found)
    return kept.read_text().splitlines()


def play(
    suite: Suite,
    methods: Sequence[str],
    folder: Path,
    *,
    kafka: bool = False,
    tell: Callable[[Shown], object] = lambda _: None,
) -> dict[str, Verdict]:
    """Play methods, each named as class#method, against Odradek or Kafka itself. `tell` gets each test as it ends."""
    found: list[Shown] = []
    with ExitStack() as stack:
        options: Sequence[str] = ()
        keeper = None
        if not kafka:
            keeper = stack.enter_context(Keeper(folder))
            options = [f"-Dodradek.keeper.port={keeper.port}"]
        classpath = suite.launcher() if kafka else suite.shadowed()
        left = list(methods)
        while left:
            classes = _written(folder / "classes", sorted({one.partition("#")[0] for one in left}))
            wanted = _written(folder / "methods", left)
            arguments = ["run", classes, wanted, str(METHOD_SECONDS_MAX)]
            before = len(found)
            try:
                for line in _lines(suite, classpath, arguments, folder / "java.log", options):
                    one = Shown(**line, logs=str(keeper.last_folder) if keeper else str(folder / "java.log"))
                    found.append(one)
                    if one.status != "STARTED":
                        tell(one)
                break
            except JavaEndedError:
                if len(found) == before:
                    raise
                # The test at work fails, since it did not end; the others get another Java.
                seen = {one.test for one in found}
                left = [one for one in left if one not in seen]
    return verdicts(methods, found)


def verdicts(methods: Sequence[str], found: Sequence[Shown]) -> dict[str, Verdict]:
    """Of each method what its tests showed together. One that failed, did not end or never ran has failed."""
    ended: dict[str, list[Shown]] = defaultdict(list)
    begun: dict[str, int] = defaultdict(int)
    for one in found:
        if one.status == "STARTED":
            begun[one.test] += 1
        else:
            ended[one.test].append(one)
    return {
        method: _verdict(ended[method], ended[method.partition("#")[0]], begun[method]) for method in methods
    }


def _verdict(ended: Sequence[Shown], of_class: Sequence[Shown], begun: int) -> Verdict:
    """`of_class` are failures of what a class does for all its methods."""
    seconds = sum(one.seconds for one in ended)
    failed = [one for one in (*ended, *of_class) if one.status == "FAILED"]
    if failed:
        return Verdict(FAILED, seconds, failed[0].message, failed)
    if begun > sum(one.status != "SKIPPED" for one in ended):
        return Verdict(FAILED, seconds, "it did not end", ended)
    if any(one.status == "SUCCESSFUL" for one in ended):
        return Verdict(PASSED, seconds, "", ended)
    if ended:
        aborted = [one for one in ended if one.status == "ABORTED"] or ended
        return Verdict(SILENT, seconds, aborted[0].message, aborted)
    return Verdict(FAILED, seconds, "it was not run", of_class)


def _written(file: Path, names: Sequence[str]) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{name}\n" for name in names))
    return str(file)


def _lines(
    suite: Suite, classpath: str, arguments: Sequence[str], log: Path, options: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """The launcher's lines. It is ended when it says nothing for too long."""
    command = java_arguments(
        suite.program,
        arguments,
        classpath=classpath,
        heap=suite.heap,
        options=(*suite.options, *options),
        log_level=suite.log_level,
    )
    with (
        log.open("a") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=log.parent,
            env=java_environment(),
        ) as java,
    ):
        assert java.stdout is not None
        watchdog = threading.Timer(_SILENCE_SECONDS_MAX, java.kill)
        try:
            watchdog.start()
            for line in java.stdout:
                watchdog.cancel()
                yield json.loads(line)
                watchdog = threading.Timer(_SILENCE_SECONDS_MAX, java.kill)
                watchdog.start()
            watchdog.cancel()
            code = java.wait()
            if code != 0:
                said = log.read_text(errors="replace")[-_SAID_CHARACTERS_MAX:]
                raise JavaEndedError(f"the tests' Java ended with {code}:\n{said}")
        finally:
            watchdog.cancel()
            java.kill()
