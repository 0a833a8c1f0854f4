"""The README's first minutes: its keys spread, what it makes is ignored by git, and a setup that takes long says so."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from odradek.cli.cluster.start_run import DATA_DEFAULT
from odradek.cli.cluster.verbs import cluster
from odradek.client.producer.partitioners import partition_for_key
from tests.support.page_folder import REPOSITORY

README = (REPOSITORY / "README.md").read_text()


def test_the_tours_keys_have_a_partition_each_and_the_shown_one_has_some() -> None:
    made = re.search(r"odradek topics create orders --partitions (\d+)", README)
    written = re.search(r"printf '(.*)' \| odradek produce orders --key-separator :", README)
    looked_into = re.search(r"odradek dump-log data/orders-(\d+)", README)
    assert made and written and looked_into
    keys = {line.partition(":")[0] for line in written[1].split(r"\n") if line}
    partitions = {key: partition_for_key(key.encode(), int(made[1])) for key in keys}
    assert sorted(partitions.values()) == list(range(int(made[1]))), partitions
    assert int(looked_into[1]) in partitions.values()
    said = re.search(r"Keys decide the partition: (\w+), (\w+) and (\w+) have one each", README)
    assert said and set(said.groups()) == keys


def _ignored(path: str) -> bool:
    asked = subprocess.run(["git", "check-ignore", "--quiet", path], cwd=REPOSITORY, check=False)
    return asked.returncode == 0


@pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="not a clone")
def test_what_the_readmes_commands_make_is_ignored_by_git() -> None:
    kept = {DATA_DEFAULT, *(str(option.default) for option in cluster.params if option.name == "data")}
    kept |= {path for path in re.findall(r"--data (\S+)", README) if not path.startswith(("/", '"$'))}
    kept |= set(re.findall(r"--data (\./\S+)", (REPOSITORY / "Makefile").read_text()))
    assert kept >= {"./data", "./cluster"}
    for path in kept:
        # As a directory: git goes by what is there, and by the slash where nothing is.
        assert _ignored(f"{path.removeprefix('./')}/x"), path


FAKE_PYTHON = """#!/bin/sh
# Stands for Python and its venv: notes what it is asked for, and installs nothing.
echo "$@" >> calls
case "$*" in
  *"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copy(REPOSITORY / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    python = tmp_path / "python"
    python.write_text(FAKE_PYTHON)
    python.chmod(0o755)
    return tmp_path


def make(checkout: Path, target: str) -> list[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    command = ["make", "--no-print-directory", target, f"PYTHON={checkout / 'python'}"]
    ended = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()


def test_the_first_setup_says_what_takes_so_long_and_the_second_nothing(checkout: Path) -> None:
    first = make(checkout, "setup")
    assert first == [
        "Making .venv, a Python environment of its own for this checkout.",
        "Installing Odradek and its dependencies into .venv with pip: half a minute or some more, this once.",
    ]
    assert (checkout / "calls").read_text().count("pip install") == 1
    second = make(checkout, "setup")
    assert second == ["make: Nothing to be done for 'setup'."]


def test_a_changed_project_file_is_installed_and_says_so(checkout: Path) -> None:
    make(checkout, "setup")
    stamp = (checkout / ".venv" / ".product").stat().st_mtime
    os.utime(checkout / "pyproject.toml", (stamp + 10, stamp + 10))
    (line,) = make(checkout, "setup")
    assert line.startswith("Installing Odradek and its dependencies")


def test_the_line_comes_before_the_wait(checkout: Path) -> None:
    """make prints what it runs as it goes; with a pip that fails the line is there all the same."""
    (checkout / "python").write_text(FAKE_PYTHON + 'case "$*" in *"pip install"*) exit 1 ;; esac\n')
    ended = subprocess.run(
        ["make", "setup", f"PYTHON={checkout / 'python'}"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode != 0
    assert "Installing Odradek and its dependencies" in ended.stdout
