"""Runs the blocks of a page (`pages`), in order, as a reader with two terminals would.

The page has a folder that looks like a clone (`page_folder`). Where possible it also has a network of its own
(`private_network`), so that 127.0.0.1:9092 is its own. Blocks for Kubernetes are run in the machine's network.

Shell blocks share one terminal: variables and the current folder last from block to block. A background block has a
terminal to itself until the page ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from tests.support.page_folder import REPOSITORY, make_clone, make_programs
from tests.support.page_output import console_steps, difference
from tests.support.pages import SHELL_LANGUAGES, Block
from tests.support.peers import in_ci, skip_or_fail
from tests.support.private_network import PrivateNetwork, available

BLOCK_SECONDS_MAX: Final = 180.0
STOP_SECONDS_MAX: Final = 30.0
# A block may consist of the shell's own commands; then there is no program to wait for.
PROGRAM_SECONDS_MAX: Final = 5.0
_SHELLS: Final = ("bash", "dash", "sh")
_POLL_SECONDS: Final = 0.02
_INTERRUPTED: Final = (0, 130, -signal.SIGINT)
_PORT: Final = re.compile(r"127\.0\.0\.1:(\d{2,5})")

# Everything assigned is exported (-a), so that the next block has it, too; ERR names the command that failed.
_IN_TERMINAL: Final = """\
[ ! -f "$STATE/env" ] || . "$STATE/env"
[ ! -f "$STATE/cwd" ] || cd "$(cat "$STATE/cwd")"
trap 'export -p >"$STATE/env"; pwd >"$STATE/cwd"' EXIT
trap 'echo "$BASH_COMMAND" >"$STATE/failed"' ERR
set -aeE -o pipefail
. "$1"
"""


def _await_program(shell: subprocess.Popen[bytes]) -> None:
    """Wait until a program of the shell's process group runs, as a reader does before Ctrl-C.

    A copy of the shell that has not yet become the program loses the signal, and the shell waits for the program.
    """
    deadline = time.monotonic() + PROGRAM_SECONDS_MAX
    while shell.poll() is None and time.monotonic() < deadline:
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                is_of_group = os.getpgid(int(entry.name)) == shell.pid
                if is_of_group and (entry / "exe").readlink().name not in _SHELLS:
                    return
        time.sleep(_POLL_SECONDS)


class BlockFailed(AssertionError):
    """A block did not do what the page says. The message has the block, what it printed, and the other terminals."""


def _hear_interrupts() -> None:
    """A reader's terminal passes Ctrl-C on; a test run in the background has its processes ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class PageRun:
    """`with PageRun(folder, blocks) as page: page.play()`."""

    def __init__(
        self,
        folder: Path,
        blocks: Sequence[Block],
        *,
        has_kubernetes: bool = False,
        environment: Path = Path(sys.prefix),
    ) -> None:
        """`environment` is the virtual environment whose programs the page's terminals have."""
        self._folder = folder / "page"
        self._programs = environment
        self._state = folder / "state"
        self._blocks = blocks
        self._has_kubernetes = has_kubernetes
        self._network: PrivateNetwork | None = None
        self._running: list[tuple[Block, subprocess.Popen[bytes], Path]] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._session: subprocess.Popen[bytes] | None = None
        self._output = ""
        self.notes: list[str] = []
        """What was left out, and why."""

    def __enter__(self) -> PageRun:
        self._state.mkdir(parents=True)
        make_clone(self._folder, self._programs)
        make_programs(self._state / "bin")
        if self._has_kubernetes:
            pass  # its API server is reached through the machine's own network
        elif available():
            self._network = PrivateNetwork()
            self._network.__enter__()
        else:
            self._require_free_ports()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._session is not None:
                _close(self._session)
            self._stop_background()
        finally:
            for process in self._processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if self._network is not None:
                self._network.__exit__(None, None, None)

    def play(self) -> None:
        """Run every block. Raises BlockFailed at the first that does something else than the page says."""
        for block in self._blocks:
            if block.is_left_out and not (block.kind == "kubernetes" and self._has_kubernetes):
                self.notes.append(f"{block.where}: {block.kind}: {block.directive.words}".rstrip(": "))
                continue
            missing = [name for name in _needs(block) if shutil.which(name) is None]
            if missing and not in_ci():
                self.notes.append(f"{block.where}: left out, as this machine has no {missing[0]}")
                continue
            self._play(block)

    def _play(self, block: Block) -> None:
        for other, process, _ in self._running:
            if process.poll() is not None:
                raise self._failed(other, f"ended with {process.returncode} while the page continued", "")
        if block.kind == "file":
            path = self._folder / block.directive.words
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.kind == "output":
            problem = difference(block.text, self._output)
            if problem:
                raise self._failed(block, "the block before it printed something else", problem)
        elif block.kind == "background":
            self._start_background(block)
        elif block.kind == "interrupt":
            self._interrupt(block)
        elif block.kind == "session":
            self._in_session(block)
        elif block.kind == "kubernetes" and block.language == "yaml":
            name = self._write(f"line_{block.line}.yaml", block.text)
            self._expect(block, *self._in_terminal(block, f"kubectl apply --filename {name}\n"))
        elif block.language == "console":
            self._console(block)
        elif block.language in SHELL_LANGUAGES:
            self._expect(block, *self._in_terminal(block, block.text))
        elif block.kind == "pytest":
            name = self._write(f"test_line_{block.line}.py", block.text)
            self._expect(block, *self._in_terminal(block, f"python -m pytest -p no:cacheprovider {name}\n"))
        else:
            name = self._write(f"example_line_{block.line}.py", block.text)
            self._expect(block, *self._in_terminal(block, f"python {name}\n"))

    # --- kinds ----------------------------------------------------------------------------------------------------

    def _expect(self, block: Block, code: int, output: str) -> None:
        self._output = output
        wanted = int(block.directive.options.get("fails", "0"))
        if code != wanted:
            failed = self._state / "failed"
            command = f" at `{failed.read_text().strip()}`" if failed.exists() else ""
            raise self._failed(block, f"ended with {code} instead of {wanted}{command}", output)

    def _console(self, block: Block) -> None:
        for command, expected in console_steps(block):
            self._expect(block, *self._in_terminal(block, command))
            problem = difference(expected, self._output)
            if problem:
                raise self._failed(block, f"`{command.strip()}` printed something else", problem)

    def _in_terminal(self, block: Block, script: str) -> tuple[int, str]:
        """Run a script in the page's terminal: (exit code, all that it printed)."""
        process, log = self._spawn(script, self._terminal())
        deadline = time.monotonic() + _seconds_max(block)
        try:
            code = process.wait(deadline - time.monotonic())
        except subprocess.TimeoutExpired:
            raise self._failed(block, f"did not end in {_seconds_max(block):g} s", _text(log)) from None
        return code, _text(log)

    def _start_background(self, block: Block) -> None:
        process, log = self._spawn(block.text, ["bash", "-e"])
        self._running.append((block, process, log))
        self._await_output(block, process, log)
        self._output = _text(log)

    def _interrupt(self, block: Block) -> None:
        process, log = self._spawn(block.text, self._terminal())
        self._await_output(block, process, log)
        _await_program(process)
        os.killpg(process.pid, signal.SIGINT)
        try:
            code = process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise self._failed(block, "did not end after Ctrl-C", _text(log)) from None
        self._output = _text(log)
        if code not in _INTERRUPTED:
            raise self._failed(block, f"ended with {code} after Ctrl-C", self._output)

    def _in_session(self, block: Block) -> None:
        if self._session is None:
            self._session = subprocess.Popen(
                [
                    *self._prefix(),
                    str(self._programs / "bin/python"),
                    str(REPOSITORY / "tests/support/python_session.py"),
                ],
                cwd=self._folder,
                env=self._environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            self._processes.append(self._session)
        assert self._session.stdin is not None and self._session.stdout is not None
        self._session.stdin.write(json.dumps({"name": block.where, "code": block.text}).encode() + b"\n")
        self._session.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(self._session.stdout, selectors.EVENT_READ)
            if not selector.select(_seconds_max(block)):
                raise self._failed(block, f"did not end in {_seconds_max(block):g} s", "")
        line = self._session.stdout.readline()
        if not line:
            raise self._failed(block, "ended the Python session", "")
        answer = json.loads(line)
        self._output = answer["output"]
        if answer["failure"] is not None:
            raise self._failed(block, "raised", self._output + answer["failure"])

    def _write(self, name: str, text: str) -> str:
        (self._folder / name).write_text(text)
        return str(self._folder / name)

    # --- processes ------------------------------------------------------------------------------------------------

    def _terminal(self) -> list[str]:
        (self._state / "terminal.sh").write_text(_IN_TERMINAL)
        (self._state / "failed").unlink(missing_ok=True)
        return ["bash", str(self._state / "terminal.sh")]

    def _spawn(self, script: str, shell: list[str]) -> tuple[subprocess.Popen[bytes], Path]:
        number = len(self._processes)
        path, log = self._state / f"{number}.sh", self._state / f"{number}.log"
        path.write_text(script)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*self._prefix(), *shell, str(path)],
                cwd=self._folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_hear_interrupts,
            )
        self._processes.append(process)
        return process, log

    def _prefix(self) -> list[str]:
        return self._network.enter if self._network is not None else []

    def _environment(self) -> dict[str, str]:
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("ODRADEK_", "PYTEST_", "PYTHON", "VIRTUAL_ENV", "COV_", "MAKE", "MFLAGS"))
        }
        programs = f"{self._state / 'bin'}:{self._folder / '.venv/bin'}:{os.environ.get('PATH', os.defpath)}"
        return {
            **kept,
            "PATH": programs,
            "HOME": str(self._folder),
            "STATE": str(self._state),
            # The tests' own Python for what a page hides, and the one of the page's environment.
            "TESTS_PYTHON": sys.executable,
            "PAGE_PYTHON": str(self._programs / "bin" / "python"),
            "COLUMNS": "120",
            "TERM": "dumb",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def _await_output(self, block: Block, process: subprocess.Popen[bytes], log: Path) -> None:
        wanted = block.directive.options["until"]
        deadline = time.monotonic() + _seconds_max(block)
        while wanted not in _text(log):
            if process.poll() is not None and wanted not in _text(log):
                raise self._failed(block, f"ended with {process.returncode} before {wanted!r}", _text(log))
            if time.monotonic() > deadline:
                raise self._failed(
                    block, f"did not print {wanted!r} in {_seconds_max(block):g} s", _text(log)
                )
            time.sleep(_POLL_SECONDS)

    def _stop_background(self) -> None:
        for _, process, _ in reversed(self._running):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
        for block, process, log in reversed(self._running):
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                raise self._failed(block, "did not end after Ctrl-C", _text(log)) from None

    def _require_free_ports(self) -> None:
        text = "".join(block.text for block in self._blocks if not block.is_left_out)
        for port in sorted({9092, *map(int, _PORT.findall(text))}):
            with socket.socket() as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    tried.bind(("127.0.0.1", port))
                except OSError:
                    skip_or_fail(
                        f"no network namespace can be made here (root, or user namespaces), and port {port} is taken"
                    )

    def _failed(self, block: Block, what: str, output: str) -> BlockFailed:
        others = "".join(
            f"--- {other.where} printed in that time\n{_text(log)[-4000:]}\n"
            for other, _, log in self._running
        )
        return BlockFailed(
            f"{block.where}: the block {what}\n{block.text}--- it printed\n{output[-8000:]}\n{others}"
        )


def _needs(block: Block) -> list[str]:
    return [name for name in block.directive.options.get("needs", "").split(",") if name]


def _seconds_max(block: Block) -> float:
    return float(block.directive.options.get("timeout", BLOCK_SECONDS_MAX))


def _text(log: Path) -> str:
    return log.read_text(errors="replace")


def _close(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(BrokenPipeError):
        assert process.stdin is not None
        process.stdin.close()
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    process.stdout.close()
