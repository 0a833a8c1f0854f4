"""`odradek start NAME`: a broker in the background, with the folder, the port and the options that its name keeps."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

from odradek.cli.cluster.named.named_broker import NamedBroker, RunningProcess, all_names
from odradek.cli.cluster.start_options import LOG_FORMATS, LOG_LEVELS, StartArguments, command_line_of
from odradek.cli.cluster.start_run import entries_of, require_folder, settings_of
from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared import late
from odradek.cli.shared.environment import BOOTSTRAP_VARIABLE
from odradek.cli.shared.output import print_error
from odradek.foundation import interpreter
from odradek.foundation.client_limits import NAMED_BROKER_LOG_BYTES_MAX, NAMED_BROKER_START_SECONDS_MAX
from odradek.foundation.errors import OdradekError, SettingError

FREE_PORT = "127.0.0.1:0"
_POLL_SECONDS = 0.01
_LOG_BYTES_SEARCHED = 8_192


class NamedStartFailed(OdradekError):
    """The process ended before it served, or does not serve yet; the message says where its log is."""


def start_named(name: str, given: StartArguments, *, log_level: str | None, log_format: str | None) -> int:
    """Start the broker unless it runs, and wait until it serves. Returns the exit code.

    `given` has the options of this command line; the others are those that the name keeps. stdout has the line that
    sets the address for other commands. Raises SettingError, NamedStartFailed.
    """
    broker = NamedBroker(name)
    kept = broker.read_kept_start()
    wanted = _merge_options(broker, kept, given, log_level=log_level, log_format=log_format)
    if broker.is_running:
        process = _wait_until_ready(broker)
        serving = broker.read_kept_start()
        if serving is not None and _differences(wanted, serving):
            raise SettingError(
                f"{name!r} runs with other options ({_differences(wanted, serving)}): "
                f"`odradek stop {name}` first, then start it with these"
            )
        return _report(broker, process, "runs already", with_hints=given.hints)
    _check(broker, kept, wanted)
    broker.prepare()
    child = _spawn(broker, wanted)
    try:
        process = _wait_until_ready(broker, child)
    except KeyboardInterrupt:
        child.terminate()
        raise
    finally:
        if child.poll() is None:
            child.returncode = 0  # It outlives this command; Python would warn that nothing waits for it.
    return _report(broker, process, "is ready", with_hints=given.hints)


def _merge_options(
    broker: NamedBroker,
    kept: StartArguments | None,
    given: StartArguments,
    *,
    log_level: str | None,
    log_format: str | None,
) -> StartArguments:
    """The options of this start: each as given, else as kept, else its default. Paths are absolute."""
    before = kept or StartArguments(data=str(broker.folder / "data"), listen=(FREE_PORT,))
    if given.data is not None and not given.data.strip():
        raise SettingError("--data is empty; name a directory, as --data ./data")
    return StartArguments(
        config=_absolute(given.config) or before.config,
        set=given.set or before.set,
        data=_absolute(given.data) or before.data,
        listen=given.listen or before.listen,
        advertise=given.advertise or before.advertise,
        admin=given.admin or before.admin,
        id=given.id or before.id,
        log_level=log_level or (before.log_level if kept else LOG_LEVELS[1]),
        log_format=log_format or (before.log_format if kept else LOG_FORMATS[0]),
    )


def _absolute(path: str | None) -> str | None:
    if path is None:
        return None
    require_folder(path)
    return os.path.abspath(path)


def _check(broker: NamedBroker, kept: StartArguments | None, wanted: StartArguments) -> None:
    """Raises SettingError for settings that cannot be, and for a folder that is not this name's."""
    if kept is not None and kept.data != wanted.data:
        raise SettingError(
            f"{broker.name!r} has its records in {kept.data}, not in {wanted.data}: choose another name, "
            f"or `odradek stop {broker.name} --forget` first, which leaves the records where they are"
        )
    settings_of(wanted)
    folder = entries_of(wanted)["log.dirs"]
    if folder != wanted.data:
        raise SettingError(f"log.dirs={folder} is not for a broker with a name: name its folder by --data")
    real = os.path.realpath(folder)
    for name in all_names():
        other = NamedBroker(name)
        if name != broker.name and os.path.realpath(other.data) == real:
            raise SettingError(
                f"{folder} has the records of {name!r}: give --data another folder, or `odradek start {name}`"
            )


def _differences(wanted: StartArguments, serving: StartArguments) -> str:
    """The options that differ, as `--set`. Port 0 is any port."""
    different = [
        key
        for key, value in wanted._asdict().items()
        if value != getattr(serving, key)
        and not (key == "listen" and _fits_all(wanted.listen, serving.listen))
    ]
    return ", ".join(f"--{key.replace('_', '-')}" for key in different)


def _fits_all(wanted: tuple[str, ...], serving: tuple[str, ...]) -> bool:
    return len(wanted) == len(serving) and all(
        one == other or (one.endswith(":0") and one.rpartition(":")[0] == other.rpartition(":")[0])
        for one, other in zip(wanted, serving, strict=True)
    )


# --- the process ----------------------------------------------------------------------------------------------------


def _spawn(broker: NamedBroker, arguments: StartArguments) -> subprocess.Popen[bytes]:
    """Start the process in a session of its own, so that neither Ctrl-C nor a closed terminal ends it."""
    if broker.log.exists() and broker.log.stat().st_size > NAMED_BROKER_LOG_BYTES_MAX:
        broker.log.replace(broker.log.with_suffix(".log.1"))
    command = interpreter.command(
        "odradek.cli.cluster.named.process", broker.name, *command_line_of(arguments)
    )
    with broker.log.open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=broker.folder,
            env=interpreter.environment(),
        )


def _wait_until_ready(broker: NamedBroker, child: subprocess.Popen[bytes] | None = None) -> RunningProcess:
    """Wait until the broker serves. `child` is None where another command has started it.

    Raises SettingError and NamedStartFailed where it ends.
    """
    deadline = time.monotonic() + NAMED_BROKER_START_SECONDS_MAX
    while True:
        process = broker.running_process()
        if process is not None and process.bootstrap is not None:
            return process
        if child is None:
            if not broker.is_running:
                raise NamedStartFailed(f"{broker.name!r} did not start: {_last_words(broker.log)}")
        elif (code := child.poll()) == ExitCode.EXISTS:
            child = None  # another command was first
        elif code is not None:
            kind = SettingError if code == ExitCode.USAGE else NamedStartFailed
            words = _last_words(broker.log)
            # The port is one that the name keeps: another program may have taken it since.
            hint = f"; --listen {FREE_PORT} chooses another port" * (os.strerror(errno.EADDRINUSE) in words)
            raise kind(f"{broker.name!r} did not start: {words}{hint}; its log is {broker.log}")
        if time.monotonic() >= deadline:
            raise NamedStartFailed(
                f"{broker.name!r} does not serve after {NAMED_BROKER_START_SECONDS_MAX:.0f} s, and its start "
                f"continues: {broker.log} says how far it is"
            )
        time.sleep(_POLL_SECONDS)


def _last_words(log: Path) -> str:
    """The last line of the log, without the name of the program."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _LOG_BYTES_SEARCHED))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        lines = []
    last = next((line for line in reversed(lines) if line.strip()), "it printed nothing")
    return last.removeprefix("odradek: ").removeprefix("cannot start: ")


def _report(broker: NamedBroker, process: RunningProcess, what: str, *, with_hints: bool) -> int:

    bootstrap = str(process.bootstrap)
    print_error(f"{broker.name!r} {what}: {bootstrap}, process {process.pid}, records in {broker.data}")
    print(f"export {BOOTSTRAP_VARIABLE}={bootstrap}")
    if with_hints:
        print(late.hints(bootstrap, command=late.command_name()))
    sys.stdout.flush()
    return ExitCode.OK
