"""One contract for every disk, the simulated one included, and what only the real one can show."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.foundation.errors import DirectoryLocked
from odradek.storage.files import EMPTY_SLICE, Disk, FileSlice, SystemDisk, take_room
from tests.support.disk import SimulatedDisk

Make = Callable[[], tuple[Disk, str]]


@pytest.fixture(params=["system", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    """A disk and an empty directory on it."""
    if request.param == "system":
        return SystemDisk(), str(tmp_path)
    disk = SimulatedDisk()
    disk.make_directory("root")
    return disk, "root"


def test_appends_follow_each_other_and_are_read_by_position(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/file", create=True)
    file.append(b"hello ")
    file.append_parts(b"wor", memoryview(b"ld"))
    assert file.size == 11
    assert file.pread(0, 100) == b"hello world"
    assert file.pread(6, 3) == b"wor"
    assert file.pread(11, 5) == b""
    assert bytes(file.pread_cached(0, 11) or b"") == b"hello world"
    buffer = bytearray(20)
    assert file.read_into(4, buffer) == 7
    assert buffer[:7] == b"o world"
    file.truncate(5)
    assert (file.size, file.pread(0, 100)) == (5, b"hello")
    file.append(bytearray(b"!"))
    file.write(0, b"J")
    file.sync()
    file.close()
    again = disk.open(f"{root}/file")
    assert (again.size, again.pread(0, 9)) == (6, b"Jello!")


def test_files_that_are_not_there(place: tuple[Disk, str]) -> None:
    disk, root = place
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/absent")
    with pytest.raises(FileNotFoundError):
        disk.read(f"{root}/absent")
    with pytest.raises(FileNotFoundError):
        disk.rename(f"{root}/absent", f"{root}/other")
    with pytest.raises(FileNotFoundError):
        disk.entries(f"{root}/absent")
    disk.remove(f"{root}/absent")
    disk.remove_tree(f"{root}/absent")
    assert not disk.exists(f"{root}/absent")


def test_names(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.make_directory(f"{root}/deep/er")
    disk.make_directory(f"{root}/deep/er")
    disk.replace(f"{root}/deep/small", b"one")
    disk.replace(f"{root}/deep/small", b"two!", sync=False)
    assert disk.read(f"{root}/deep/small") == b"two!"
    entries = {entry.name: entry for entry in disk.entries(f"{root}/deep")}
    assert set(entries) == {"er", "small"}
    assert entries["er"].is_directory and not entries["small"].is_directory
    assert entries["small"].size_bytes == 4
    disk.rename(f"{root}/deep/small", f"{root}/deep/er/moved")
    disk.rename(f"{root}/deep", f"{root}/gone")
    disk.sync_directory(root)
    assert disk.read(f"{root}/gone/er/moved") == b"two!"
    disk.remove_tree(f"{root}/gone")
    assert disk.entries(root) == []
    assert disk.usage(root).total_bytes >= disk.usage(root).usable_bytes > 0


def test_a_lock_is_held_by_one(place: tuple[Disk, str]) -> None:
    disk, root = place
    lock = disk.lock(f"{root}/.lock")
    with pytest.raises(DirectoryLocked):
        disk.lock(f"{root}/.lock")
    lock.close()
    disk.lock(f"{root}/.lock").close()


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_a_lock_is_held_by_one_on_every_system(
    system: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where both kinds of locks are in one table, the second kind would wait for the first."""
    kinds: list[str] = []

    def noted(kind: str) -> Callable[[int, int], None]:
        take: Callable[[int, int], None] = getattr(fcntl, kind)

        def lock(descriptor: int, operation: int) -> None:
            kinds.append(kind)
            take(descriptor, operation)

        return lock

    for kind in ("flock", "lockf"):
        monkeypatch.setattr(fcntl, kind, noted(kind))
    monkeypatch.setattr(sys, "platform", system)
    disk = SystemDisk()
    lock = disk.lock(str(tmp_path / ".lock"))
    assert kinds == (["flock", "lockf"] if system == "linux" else ["flock"])
    with pytest.raises(DirectoryLocked):
        disk.lock(str(tmp_path / ".lock"))
    lock.close()
    disk.lock(str(tmp_path / ".lock")).close()


@pytest.mark.parametrize("has_call", [True, False], ids=["by the system", "by zeros"])
def test_room_is_taken_on_the_device(has_call: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not has_call:
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    elif not hasattr(os, "posix_fallocate"):
        pytest.skip("this system cannot be asked for room")
    size = 2_500_000
    with (tmp_path / "file").open("w+b") as opened:
        opened.write(b"here before")
        opened.flush()
        take_room(opened.fileno(), size)
        take_room(opened.fileno(), 1_000)
        status = os.fstat(opened.fileno())
        opened.seek(0)
        assert opened.read() == b"here before" + bytes(size - 11)
    assert (status.st_size, status.st_blocks * 512 >= size) == (size, True)


def test_a_full_disk_is_an_error_of_the_one_who_takes_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    monkeypatch.setattr(os, "pwrite", full)
    with (tmp_path / "file").open("w+b") as opened, pytest.raises(OSError) as raised:
        take_room(opened.fileno(), 1)
    assert raised.value.errno == errno.ENOSPC


def test_a_system_without_reads_that_refuse_to_wait_reads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("odradek.storage.files._NO_WAIT", 0)
    file = SystemDisk().open(str(tmp_path / "file"), create=True)
    file.append(b"hello")
    file.drop_cached()
    assert (file.pread_cached(1, 3), file.pread_cached(3, 9), file.pread_cached(9, 1)) == (b"ell", b"lo", b"")


def test_slices(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/file", create=True)
    file.append(b"0123456789")
    part = FileSlice(file, 3, 4)
    assert (len(part), part.read(), bytes(part.read_cached() or b"")) == (4, b"3456", b"3456")
    file.truncate(5)
    with pytest.raises(OSError, match="2 of 4 bytes"):
        part.read()
    assert (len(EMPTY_SLICE), EMPTY_SLICE.read(), EMPTY_SLICE.read_cached()) == (0, b"", b"")


def test_a_slice_keeps_its_file_open_after_others_close(tmp_path: Path) -> None:
    disk = SystemDisk()
    file = disk.open(str(tmp_path / "file"), create=True)
    file.append(b"still here")
    part = FileSlice(file, 0, 10)
    del file
    disk.remove(str(tmp_path / "file"))
    assert part.read() == b"still here"
    assert part.fileno() >= 0


def test_another_process_finds_the_directory_locked(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    lock = SystemDisk().lock(str(path))
    program = (
        "import sys; from odradek.foundation.errors import DirectoryLocked\n"
        "from odradek.storage.files import SystemDisk\n"
        "try: SystemDisk().lock(sys.argv[1])\n"
        "except DirectoryLocked as error: print(error)"
    )
    run = [sys.executable, "-c", program, str(path)]
    said = subprocess.run(run, capture_output=True, text=True, check=True, env={"PYTHONPATH": "broker"})
    assert "another process uses the log directory" in said.stdout
    lock.close()
    assert subprocess.run(run, capture_output=True, check=True, env={"PYTHONPATH": "broker"}).stdout == b""


def test_a_listing_leaves_out_what_is_removed_in_the_middle_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread removes files that are due, and the names are read before the sizes."""
    for name in ("0.log", "1.log.deleted", "2.log"):
        (tmp_path / name).write_bytes(b"records")
    scandir = os.scandir

    @contextmanager
    def removing(path: str) -> Iterator[list[os.DirEntry[str]]]:
        with scandir(path) as listing:
            found = list(listing)
        (tmp_path / "1.log.deleted").unlink()
        yield found

    monkeypatch.setattr(os, "scandir", removing)
    assert sorted(one.name for one in SystemDisk().entries(str(tmp_path))) == ["0.log", "2.log"]


def test_what_the_page_cache_cannot_give_fails_only_when_it_is_read() -> None:
    disk = SimulatedDisk()
    disk.make_directory("root")
    file = disk.open("root/file", create=True)
    file.append(b"hello")
    part = FileSlice(file, 0, 5)
    assert part.read_cached() == b"hello"
    disk.failing_paths["root"] = errno.EIO
    assert part.read_cached() is None
    with pytest.raises(OSError, match="Input/output error"):
        part.read()
