"""Data directories that cannot be used: the start ends with 1 and says what is wrong, where, and what to do."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from odradek.cli.exit_codes import ExitCode
from odradek.storage.disk_space import error_text, start_advice
from tests.cli.conftest import SOURCE

Mounted = Callable[..., Path]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Mounted]:
    """`mounted("ro,size=1m")`: a file system in memory with these options; only root can mount one."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small file system needs root")
    made: list[Path] = []

    def mount(options: str) -> Path:
        folder = tmp_path / f"mounted-{len(made)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
        made.append(folder)
        return folder

    yield mount
    for folder in made:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    with (folder / "other").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            assert error.errno == errno.ENOSPC


def ends_with(data: str | Path, *, verb: str = "start", code: int = ExitCode.FAILED) -> str:
    """The last line on stderr of a start that ends."""
    command = [sys.executable, "-m", "odradek", verb, "--data", str(data), "--listen", "127.0.0.1:0"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=environment, cwd="/"
    )
    assert ended.returncode == code, ended.stderr
    assert ended.stdout == "" and "Traceback" not in ended.stderr and "[Errno" not in ended.stderr
    return ended.stderr.splitlines()[-1]


@pytest.mark.integration
@pytest.mark.parametrize("verb", ["start", "cluster"])
def test_a_file_in_the_way(tmp_path: Path, verb: str) -> None:
    (tmp_path / "file").touch()
    line = ends_with(tmp_path / "file", verb=verb)
    assert str(tmp_path / "file") in line and "it must be a directory: name another one with --data" in line
    line = ends_with(tmp_path / "file" / "below", verb=verb)
    assert f"Not a directory: {tmp_path}" in line and "it must be a directory" in line


@pytest.mark.integration
@pytest.mark.parametrize("verb", ["start", "cluster"])
def test_a_file_system_that_is_mounted_to_be_read(mounted: Mounted, verb: str) -> None:
    folder = mounted("ro,size=1m")
    for data in (folder, folder / "below"):
        line = ends_with(data, verb=verb)
        assert f"Read-only file system: {data}" in line and "mount it writable" in line


@pytest.mark.integration
@pytest.mark.parametrize("verb", ["start", "cluster"])
def test_a_disk_that_is_full_from_the_beginning(mounted: Mounted, verb: str) -> None:
    folder = mounted("size=256k")
    fill(folder)
    line = ends_with(folder / "data", verb=verb)
    assert str(folder) in line and "elete other files there, or enlarge the volume" in line
    assert "is full" in line or "No space left on device" in line


@pytest.mark.integration
@pytest.mark.parametrize("verb", ["start", "cluster"])
def test_a_name_that_is_empty(verb: str) -> None:
    assert "--data is empty; name a directory, as --data ./" in ends_with("", verb=verb, code=ExitCode.USAGE)


@pytest.mark.parametrize(
    ("number", "words", "advice"),
    [
        (errno.EACCES, "Permission denied: /d", "give the broker's user the right to write there"),
        (errno.EPERM, "Operation not permitted: /d", "give the broker's user the right to write there"),
        (errno.ENOSPC, "No space left on device: /d", "nothing in it was lost: delete other files there"),
        (errno.EDQUOT, "Disk quota exceeded: /d", "or raise the quota"),
        (errno.EROFS, "Read-only file system: /d", "mount it writable"),
        (errno.ENOENT, "No such file or directory: /d", "make the directory, or name another"),
        (errno.EIO, "Input/output error: /d", "repair the disk"),
    ],
)
def test_each_reason_has_its_advice(number: int, words: str, advice: str) -> None:
    error = OSError(number, os.strerror(number), "/d")
    assert error_text(error) == words
    assert advice in start_advice(error)


@pytest.mark.parametrize("verb", ["start", "broker", "cluster"])
def test_the_help_says_what_becomes_of_such_a_start(invoke: Callable[..., Result], verb: str) -> None:
    words = " ".join(invoke(verb, "--help").stdout.split())
    assert "exit code 1" in words and "made when it is missing" in words


@pytest.mark.parametrize(
    "verb",
    [
        "start",
        "start --data data",
        "start --config server.properties",
        "start some --data data",
        "cluster",
        "broker --zookeeper 127.0.0.1:1",
    ],
)
def test_a_folder_that_was_removed_is_named_in_one_line(tmp_path: Path, verb: str) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"cd {gone} && rmdir {gone} && exec {sys.executable} -m odradek {verb}"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "XDG_STATE_HOME": str(tmp_path)}
    ended = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    (line,) = ended.stderr.splitlines()
    assert line.startswith("odradek: the folder of this command is gone, and ")
    assert line.endswith("change to another folder, or give a path that begins with /")
    assert ended.returncode == ExitCode.USAGE
