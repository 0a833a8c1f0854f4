"""The broker that the command line's tests share, and ways to run a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import odradek
from odradek.cli.main import command_line
from tests.support.command_line import run_command
from tests.support.peers import bootstrap, broker, unique

__all__ = ["bootstrap", "broker", "unique"]

SOURCE = Path(odradek.__file__).parents[1]
COMMAND_SECONDS_MAX = 60


@pytest.fixture(autouse=True)
def no_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration directory of the test's own: the user's profiles must not count."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ODRADEK_PROFILE", raising=False)
    return tmp_path / "config"


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`invoke("topics", "list", input=…)`: the command in this process, without a broker of its own."""
    monkeypatch.delenv("ODRADEK_BOOTSTRAP", raising=False)

    def run(*arguments: str, input: str | bytes | None = None) -> Result:
        return CliRunner().invoke(command_line, list(arguments), input=input, prog_name="odradek")

    return run


class Shell:
    """Runs `odradek` against one broker: `start` as a process, and all else in this one."""

    def __init__(self, bootstrap: str) -> None:
        self.environment = {**os.environ, "PYTHONPATH": str(SOURCE), "ODRADEK_BOOTSTRAP": bootstrap}

    @contextmanager
    def start(self, *arguments: str, stderr: int = subprocess.PIPE) -> Iterator[subprocess.Popen[bytes]]:
        """The process, its three streams as pipes; killed when the block ends before it does."""
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "odradek", *arguments]
        with subprocess.Popen(
            command, env=self.environment, stdin=pipe, stdout=pipe, stderr=stderr
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def run(self, *arguments: str, input: str | bytes = b"", code: int = 0) -> str:
        """What the command printed on stdout, as a call in this process; fails unless it ended with `code`."""
        given = input.encode() if isinstance(input, str) else input
        done = run_command(arguments, environment=self.environment, input=given)
        self.error = done.error.decode()
        assert done.code == code, f"{arguments} ended with {done.code}\n{self.error}"
        return done.out.decode()

    def json(self, *arguments: str, input: str | bytes = b"", code: int = 0) -> Any:
        """The JSON document that the command printed."""
        return json.loads(self.run(*arguments, "--output", "json", input=input, code=code))

    def json_lines(self, *arguments: str) -> list[Any]:
        """The JSON lines that the command printed."""
        return [json.loads(line) for line in self.run(*arguments, "--output", "json").splitlines()]


@pytest.fixture
def shell(bootstrap: str) -> Shell:
    return Shell(bootstrap)
