"""The lock by which tests on Kubernetes learn that only tests on virtual time are left."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from tests.support.quiet import NICENESS_MAX, BusyLock


def is_quiet(path: Path) -> bool:
    """As `e2e/conftest.py` asks."""
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_it_is_quiet_once_each_process_has_released_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    one, other = BusyLock(str(path)), BusyLock(str(path))
    assert is_quiet(path)
    for lock in (one, other, one):
        lock.hold()
    one.release()
    assert not is_quiet(path)
    # A process that was forked has the same open file.
    with subprocess.Popen(["sleep", "60"], pass_fds=[other._held or 0]) as child:
        other.release()
        assert is_quiet(path)
        child.kill()
    one.hold()
    assert not is_quiet(path)
    one.release()
    one.release()
    assert is_quiet(path)


def test_nothing_is_held_where_no_lock_is_named(tmp_path: Path) -> None:
    lock = BusyLock(None)
    lock.hold()
    lock.release()
    assert os.listdir(tmp_path) == []


def test_what_gives_way_is_last_in_its_own_session() -> None:
    program = (
        "import os; from tests.support.quiet import give_way; give_way(); "
        "print(os.nice(0), os.getsid(0) == os.getpid())"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout.split() == [str(NICENESS_MAX), "True"]
