"""What `e2e/boot.py` does with a one-node Kubernetes that an earlier run left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e import boot
from tests.support.polling import SECONDS_MAX, wait_until

DOWN = """#!/bin/bash
for file in "$CLUSTER_DIR"/pids/*; do [ -f "$file" ] && kill "$(cat "$file")"; done
rm -r "$CLUSTER_DIR"
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cluster's folder, which is not there yet; its `down` is a short one."""
    programs = tmp_path / "programs"
    programs.mkdir()
    write_down(programs, DOWN)
    state = tmp_path / "cluster"
    monkeypatch.setattr(boot, "ONE_NODE", programs)
    monkeypatch.setenv("CLUSTER_DIR", str(state))
    monkeypatch.setenv("CI", "true")
    return state


def write_down(programs: Path, text: str) -> None:
    (programs / "down").write_text(text)
    (programs / "down").chmod(0o755)


def component(state: Path, name: str) -> subprocess.Popen[bytes]:
    """A process that the folder knows by its name, as `up` does."""
    (state / "pids").mkdir(parents=True, exist_ok=True)
    program = state / name
    shutil.copy("/bin/sleep", program)
    return started(state, name, [str(program), "60"])


def started(state: Path, name: str, command: list[str]) -> subprocess.Popen[bytes]:
    (state / "pids").mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(command)
    wait_until(
        "the program runs",
        lambda: Path("/proc", str(process.pid), "cmdline").read_bytes(),
        pause_seconds=0.01,
    )
    (state / "pids" / name).write_text(f"{process.pid}\n")
    return process


@contextmanager
def killed_at_the_end(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_nothing_is_ended_where_nothing_was_left(state: Path) -> None:
    boot.end_left_cluster()
    assert not state.exists()


def test_ci_ends_what_still_runs(state: Path) -> None:
    with killed_at_the_end(component(state, "etcd")) as etcd:
        boot.end_left_cluster()
        assert etcd.wait(timeout=SECONDS_MAX) == -signal.SIGTERM
    assert not state.exists()


def test_a_user_is_told_how_to_end_what_still_runs(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI")
    with (
        killed_at_the_end(component(state, "etcd")) as etcd,
        killed_at_the_end(component(state, "kubelet")) as kubelet,
    ):
        with pytest.raises(boot.ClusterInUseError, match=r"still runs etcd, kubelet: .*/down ends it"):
            boot.end_left_cluster()
        assert etcd.poll() is None
        assert kubelet.poll() is None
    assert state.exists()


@pytest.mark.parametrize("ci", ["true", "false"])
def test_a_process_that_has_the_number_now_is_left_alone(
    state: Path, monkeypatch: pytest.MonkeyPatch, ci: str
) -> None:
    monkeypatch.setenv("CI", ci)
    with killed_at_the_end(started(state, "kubelet", ["sleep", "60"])) as other:
        boot.end_left_cluster()
        assert other.poll() is None
    assert not state.exists()


def test_what_was_left_without_processes_is_removed(state: Path) -> None:
    (state / "etcd").mkdir(parents=True)
    boot.end_left_cluster()
    assert not state.exists()


def test_an_interrupt_does_not_stop_the_end(state: Path) -> None:
    write_down(boot.ONE_NODE, f'#!/bin/bash\nkill -INT {os.getpid()} $$\nsleep 0.2\nrm -r "$CLUSTER_DIR"\n')
    state.mkdir()
    boot.end_left_cluster()
    assert not state.exists()
