"""A broker with a name: what is kept of it between its starts, and whether it runs.

All names of a user are in `$XDG_STATE_HOME/odradek/brokers/` (`~/.local/state` without it), a folder each:

    lock           held by the process as long as it lives: a broker runs while the lock is held
    process.json   the process that holds the lock, and its address once it serves
    start.json     the options of the last start that served, with the ports that were chosen
    broker.log     what the process prints
    data/          the records, unless --data names another folder

The kernel frees the lock when a process ends in any way. So a file that a killed process left is never believed, and
no other process that got its number is ever signalled.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from odradek.cli.cluster.start_options import StartArguments
from odradek.cli.shared import late
from odradek.foundation.client_limits import (
    NAMED_BROKER_LOCK_SECONDS_MAX,
    NAMED_BROKER_STOP_SECONDS_MAX,
)
from odradek.foundation.errors import SettingError
from odradek.foundation.private_files import make_private_directory, open_private

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_POLL_SECONDS: Final = 0.01


class NameTakenError(FileExistsError):
    """The process that holds the name's lock is another one."""


class RunningProcess(NamedTuple):
    """The process of a broker; `bootstrap` is None until it serves."""

    pid: int
    bootstrap: str | None


def folder_of_all() -> Path:
    """The folder of all names. An XDG_STATE_HOME that is not absolute is ignored, as specified."""
    base = Path(os.environ.get("XDG_STATE_HOME") or "")
    return (base if base.is_absolute() else Path.home() / ".local" / "state") / "odradek" / "brokers"


def all_names() -> list[str]:
    """The names that are kept, sorted."""
    try:
        found = os.listdir(folder_of_all())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(name for name in found if _NAME.match(name) and NamedBroker(name).is_there)


class NamedBroker:
    """One name. Raises SettingError for what cannot be one."""

    def __init__(self, name: str) -> None:
        if not _NAME.match(name):
            hint = f"; a folder is named by --data {name}" if os.sep in name or name.startswith(".") else ""
            raise SettingError(
                f"{name!r} cannot name a broker: use up to 64 letters, digits, '.', '_' and '-', "
                f"with a letter or a digit first{hint}"
            )
        self.name = name
        self.folder = folder_of_all() / name
        self.log = self.folder / "broker.log"
        self._lock = self.folder / "lock"
        self._process = self.folder / "process.json"
        self._start = self.folder / "start.json"

    # --- what is kept -----------------------------------------------------------------------------------------------

    @property
    def is_there(self) -> bool:
        """Whether a start with this name has served, or is about to."""
        return self._start.exists() or self.is_running

    @property
    def data(self) -> Path:
        """The folder of the records."""
        kept = self.read_kept_start()
        return self.folder / "data" if kept is None or kept.data is None else Path(kept.data)

    def read_kept_start(self) -> StartArguments | None:
        """The options of the last start that served, None before the first. Raises SettingError for a damaged file."""
        try:
            kept = json.loads(self._start.read_text(encoding="utf-8"))
            lists = {key: tuple(value) for key, value in kept.items() if isinstance(value, list)}
            return StartArguments(**{**kept, **lists})
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, AttributeError) as failure:
            raise SettingError(
                f"{self._start} cannot be read ({failure}): `odradek stop {self.name} --forget` removes it, "
                "and the records stay"
            ) from failure

    def keep_start(self, arguments: StartArguments) -> None:
        """Keep the options for later starts. Raises OSError."""
        self._write(self._start, arguments._asdict())

    def forget(self) -> None:
        """Remove all but the records. The broker must not run."""
        for path in (self._start, self._process, self.log, self.log.with_suffix(".log.1"), self._lock):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the records may be in it
            self.folder.rmdir()

    # --- its process ------------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether a process of this name lives."""
        try:
            descriptor = os.open(self._lock, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    @property
    def was_killed(self) -> bool:
        """Whether the last process ended without a stop."""
        return not self.is_running and self._process.exists()

    def running_process(self) -> RunningProcess | None:
        """The process that runs; None while there is none, and until it has noted itself."""
        if not self.is_running:
            return None
        try:
            return RunningProcess(**json.loads(self._process.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def prepare(self) -> None:
        """Make the folder, and remove what a killed process left. Raises OSError."""
        make_private_directory(str(self.folder))
        if not self.is_running:
            self._process.unlink(missing_ok=True)

    def hold(self) -> int:
        """Hold the lock, in the process that is to serve: the descriptor. Raises NameTakenError."""
        descriptor = open_private(str(self._lock), os.O_RDWR | os.O_CREAT)
        # One that asks whether the broker runs holds it for a moment, too.
        if not _wait(lambda: _is_taken(descriptor), NAMED_BROKER_LOCK_SECONDS_MAX):
            os.close(descriptor)
            raise NameTakenError(f"a broker {self.name!r} runs already")
        return descriptor

    def note_process(self, process: RunningProcess | None) -> None:
        """Say which process holds the lock; None before it ends. Raises OSError."""
        if process is None:
            self._process.unlink(missing_ok=True)
        else:
            self._write(self._process, process._asdict())

    def stop(self) -> bool:
        """Stop as SIGTERM does, and wait for the end. Returns whether it ran. Raises TimeoutError."""
        deadline = time.monotonic() + NAMED_BROKER_STOP_SECONDS_MAX
        _wait(lambda: not self.is_running or self.running_process() is not None, deadline - time.monotonic())
        process = self.running_process()
        if process is None:
            return False
        os.kill(process.pid, signal.SIGTERM)
        if not _wait(lambda: not self.is_running, deadline - time.monotonic()):
            raise TimeoutError(
                f"{self.name!r} did not stop within {NAMED_BROKER_STOP_SECONDS_MAX:.0f} s; "
                f"its log is {self.log}, and `kill -9 {process.pid}` ends it without a stop"
            )
        return True

    def _write(self, path: Path, document: Mapping[str, object]) -> None:
        late.replace_file(path, json.dumps(document, indent=2).encode() + b"\n")


def _is_taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait(is_so: Callable[[], bool], seconds_max: float) -> bool:
    """Wait until it is so. Returns whether it is."""
    deadline = time.monotonic() + seconds_max
    while not is_so():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
