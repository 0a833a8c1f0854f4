"""A driver that runs one subcommand and dies by SIGKILL at a named point, with its JVM and its Python.

    python -m tests.spark.killed_run FOLDER LAKE POINT COMMAND OPTION…

A point is a step of the run, or something that appears on disk. `data-visible` is a first new data file, also a hidden
one. `commit-visible` is the new manifest, commit or metadata file, before the run knows that it is there. A driver that
survives its point ends with the exit code of its command.

A point with `stop:` in front stops the process group with SIGSTOP, once. The test lets it continue.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from odradek_pipeline.cli import console
from odradek_pipeline.cli.main import run
from tests.support.spark import spark_session

DATA_VISIBLE: Final = "data-visible"
COMMIT_VISIBLE: Final = "commit-visible"
STOP: Final = "stop:"
_COMMITS: Final = ("_odradek/manifests", "_delta_log", "metadata")


def die() -> None:
    """End the whole process group: the JVM belongs to it."""
    os.killpg(0, signal.SIGKILL)


def stop() -> None:
    """Stop the whole process group until SIGCONT."""
    os.killpg(0, signal.SIGSTOP)


def table_folder(lake: Path, output: str) -> Path:
    """Where the files of a table are."""
    return lake.joinpath(*output.split(".")[1:]) if output.startswith("lake.") else Path(output)


def seen(folder: Path, point: str) -> set[str]:
    """The names of files that matter for a point."""
    found: set[str] = set()
    for parent, _, names in os.walk(folder):
        place = Path(parent).relative_to(folder).as_posix()
        is_commit = place in _COMMITS
        of_kind = _is_commit if is_commit else _is_data
        if is_commit == (point == COMMIT_VISIBLE):
            found.update(f"{place}/{name}" for name in names if of_kind(place, name))
    return found


def _is_data(place: str, name: str) -> bool:
    return name.endswith(".parquet")


def _is_commit(place: str, name: str) -> bool:
    # Iceberg's catalog of folders writes `v3.metadata.json` under another name first.
    return name.startswith("v") if place == "metadata" else name.endswith(".json") and name[0].isdigit()


def end_when_seen(folder: Path, point: str, end: Callable[[], None]) -> None:
    """Watch a folder from a thread, and call `end` when a new file of that kind is there."""
    before = seen(folder, point)

    def watch() -> None:
        while not seen(folder, point) - before:
            time.sleep(0.001)
        end()

    threading.Thread(target=watch, daemon=True).start()


def arm(point: str, folder: Path) -> Callable[[str], None]:
    """What to call at each step. It has an effect once."""
    end = stop if point.startswith(STOP) else die
    point = point.removeprefix(STOP)
    armed = [point]

    def reached(step: str) -> None:
        if armed and step == point:
            armed.clear()
            end()
        if armed and step == "writing" and point in (DATA_VISIBLE, COMMIT_VISIBLE):
            armed.clear()
            end_when_seen(folder, point, end)

    return reached


class DyingConsole(console.JsonConsole):
    """Prints as usual, and dies at the point."""

    reached: Callable[[str], None] = staticmethod(lambda step: None)

    def _show_step(self, name: str, /, **figures: object) -> None:
        super()._show_step(name, **figures)
        type(self).reached(name)


def main(folder: Path, lake: Path, point: str, arguments: list[str]) -> int:
    output = arguments[arguments.index("--output") + 1]
    DyingConsole.reached = staticmethod(arm(point, table_folder(lake, output)))
    console.JsonConsole = DyingConsole  # type: ignore[misc]
    with spark_session(folder, memory="512m", tables=lake):
        return run([*arguments, "--report", "json"])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4:]))
