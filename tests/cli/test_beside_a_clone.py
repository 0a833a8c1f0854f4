"""A folder `odradek/` in the current directory, whatever it holds, is not taken for the product."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.foundation import interpreter
from tests.support.broker_process import CHECKOUT

SOURCE = str(CHECKOUT / "broker")
WAIT_SECONDS = 60


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A directory with a package `odradek` that ends every program which imports it."""
    impostor = tmp_path / "odradek"
    impostor.mkdir()
    (impostor / "__init__.py").write_text("raise SystemExit('the folder beside was imported')\n")
    return tmp_path


def run(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python code in `folder`; the current directory is on its path only where the code's children put it there."""
    return subprocess.run(
        [sys.executable, "-P", "-c", program, str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )


@pytest.mark.integration
def test_a_broker_for_a_test_starts_beside_a_folder_of_its_name(beside: Path) -> None:
    program = (
        "import sys\nfrom odradek.testing import TestBroker\n"
        "with TestBroker(sys.argv[1] + '/broker') as broker:\n    broker.create_topic('t')\n    print('made')\n"
    )
    done = run(program, beside)
    assert (done.returncode, done.stdout) == (0, "made\n"), done.stderr


@pytest.mark.thorough
@pytest.mark.integration
def test_a_cluster_starts_beside_a_folder_of_its_name(beside: Path) -> None:
    command = [sys.executable, "-P", "-m", "odradek", "cluster", "--brokers", "1", "--controllers", "1"]
    command += ["--data", "cluster", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        command,
        cwd=beside,
        env={**os.environ, "PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready = next((line for line in process.stdout if line.startswith("cluster ready")), "")
        process.send_signal(2)
        _, said = process.communicate(timeout=WAIT_SECONDS)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(WAIT_SECONDS)
    assert re.fullmatch(r"cluster ready bootstrap=\S+\n", ready), said
    assert process.returncode == 0


def test_a_child_finds_the_package_that_its_parent_runs_from_its_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in `cd broker && python -m odradek cluster`, with nothing installed."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert interpreter.environment()["PYTHONPATH"] == SOURCE
    monkeypatch.setenv("PYTHONPATH", "/mine")
    assert interpreter.environment()["PYTHONPATH"] == f"{SOURCE}{os.pathsep}/mine"


def test_an_installed_package_leaves_the_childs_module_path_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its folder is site-packages, which must not precede the standard library."""
    monkeypatch.setenv("PYTHONPATH", "/mine")
    monkeypatch.setattr(interpreter, "__file__", str(tmp_path / "odradek" / "foundation" / "interpreter.py"))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    assert interpreter.environment()["PYTHONPATH"] == "/mine"


def test_processes_start_without_the_current_directory_on_their_path() -> None:
    starts = re.compile(r'sys\.executable,\s*"-m"')
    folders = [CHECKOUT / name for name in ("broker", "operator", "pipeline", "demo")]
    found = [path for folder in folders for path in folder.rglob("*.py") if starts.search(path.read_text())]
    assert found == []
