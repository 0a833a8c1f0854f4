"""What would be uploaded works where it is installed: each wheel in a fresh environment, started as a user starts it.

The environments are made from the wheels alone: nothing of the checkout is on their path, and the current directory is
an empty one. Dependencies come from the registry that pip is configured for.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from release.commands import ReleaseError

READY_SECONDS_MAX = 60
COMMAND_SECONDS_MAX = 120
INSTALL_SECONDS_MAX = 1200


class TryoutError(ReleaseError):
    """An installed distribution does not do what it is for; the text says which and what it said."""


class Environment:
    """A fresh virtual environment in `folder` with wheels installed, and an empty directory to stand in.

    Dependencies are installed, or found in `dependencies`, a folder that has them.
    """

    def __init__(self, folder: Path, wheels: Sequence[Path], *, dependencies: Path | None = None) -> None:
        self.folder = folder
        self.empty = folder / "empty"
        _run([sys.executable, "-m", "venv", "--without-pip", str(folder)], seconds_max=INSTALL_SECONDS_MAX)
        self.empty.mkdir()
        # This environment's pip installs into the fresh one, which needs none of its own.
        pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
        command = [*pip, "install", "--quiet", "--disable-pip-version-check"]
        if dependencies is not None:
            command.append("--no-deps")
            (self.site / "dependencies.pth").write_text(f"{dependencies}\n")
        _run([*command, *map(str, wheels)], seconds_max=INSTALL_SECONDS_MAX)

    def run(self, program: str, *arguments: str, said: str = "") -> str:
        """Return what an installed program prints, given `said` on standard input. Raises TryoutError."""
        command = [str(self.folder / "bin" / program), *arguments]
        return _run(command, seconds_max=COMMAND_SECONDS_MAX, folder=self.empty, said=said)

    def packages(self) -> set[str]:
        """Names of our import packages that are installed."""
        names = {path.name for path in self.site.iterdir()}
        return {name for name in names if name.startswith("odradek") and "-" not in name}

    @property
    def site(self) -> Path:
        """The folder of all that is installed."""
        (site,) = self.folder.glob("lib/python*/site-packages")
        return site


def broker(environment: Environment) -> None:
    """Start a broker, write a record and read it back. Raises TryoutError."""
    program = str(environment.folder / "bin" / "odradek")
    command = [program, "start", "--listen", "127.0.0.1:0", "--data", "data"]
    log = environment.empty / "broker.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, cwd=environment.empty, env=_clean(), stdout=subprocess.PIPE, stderr=errors, text=True
        )
    watchdog = threading.Timer(READY_SECONDS_MAX, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        address = re.search(r"://(\S+)", ready)
        if address is None:
            raise TryoutError(f"the installed broker did not start:\n{log.read_text()[-3000:]}")
        at = ("--bootstrap", address[1])
        environment.run("odradek", "topics", "create", "tryout", "--partitions", "1", *at)
        environment.run("odradek", "produce", "tryout", *at, said="hello\n")
        read = environment.run("odradek", "consume", "tryout", "--from-beginning", *at)
        if read != "hello\n":
            raise TryoutError(f"the record 'hello' was written, and {read!r} was read")
    finally:
        watchdog.cancel()
        process.terminate()
        process.communicate(timeout=READY_SECONDS_MAX)
    if process.returncode != 0:
        raise TryoutError(f"the installed broker ended with {process.returncode}:\n{log.read_text()[-3000:]}")


def all_of(wheels: Sequence[Path], folder: Path) -> dict[str, Path]:
    """Try each distribution, by its wheel; the folders of what was installed for each. Raises TryoutError."""
    by_name = {path.name.partition("-")[0]: path for path in wheels}
    alone = Environment(folder / "odradek", [by_name["odradek"]])
    if alone.packages() != {"odradek"}:
        raise TryoutError(f"the wheel of odradek brings {sorted(alone.packages())}, not odradek alone")
    broker(alone)
    operator = Environment(folder / "operator", [by_name["odradek"], by_name["odradek_operator"]])
    _says(operator.run("odradek-operator", "--help"), "strip-finalizers")
    pipeline = Environment(folder / "pipeline", [by_name["odradek"], by_name["odradek_pipeline"]])
    _says(pipeline.run("odradek-pipeline", "--help"), "executor")
    _says(pipeline.run("odradek-pipeline", "load", "--help"), "--topic")
    if pipeline.packages() != {"odradek", "odradek_pipeline"}:
        raise TryoutError(
            f"the wheel of odradek-pipeline brings {sorted(pipeline.packages())}, not itself and odradek"
        )
    return {"odradek": alone.site, "odradek-operator": operator.site, "odradek-pipeline": pipeline.site}


def _says(text: str, word: str) -> None:
    if word not in text:
        raise TryoutError(f"{word!r} is missing in what --help says:\n{text}")


def _clean() -> dict[str, str]:
    """The environment without what would put other code on the path."""
    ours = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ours and not name.startswith("ODRADEK_")
    }


def _run(command: Sequence[str], *, seconds_max: float, folder: Path | None = None, said: str = "") -> str:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=_clean(),
            input=said,
            capture_output=True,
            text=True,
            timeout=seconds_max,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TryoutError(f"{' '.join(command)} did not end within {seconds_max:.0f} s") from None
    if done.returncode != 0:
        raise TryoutError(
            f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}"
        )
    return done.stdout
