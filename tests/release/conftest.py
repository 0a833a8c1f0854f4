"""The checkout as it is now, in a repository of its own: what a test writes or commits there, this one never has."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from release import build, changelog, version
from tests.support.broker_process import CHECKOUT


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=Test", "-c", "user.email=test@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def copied(folder: Path) -> Path:
    """A repository in `folder` whose branch main has the tracked files of this checkout."""
    for name in git(CHECKOUT, "ls-files").splitlines():
        if (CHECKOUT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, folder / name)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "config", "user.name", "Test")
    git(folder, "config", "user.email", "test@example.org")
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message", "All")
    return folder


def build_tool() -> Any:
    """What builds wheels; a test without it is skipped."""
    return pytest.importorskip("hatchling.build", reason="`make test-all` installs it")


@pytest.fixture(scope="package")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared: only to be read and built from."""
    return copied(tmp_path_factory.mktemp("clone") / "odradek")


NEW = "98.7.6"


@pytest.fixture(scope="package")
def built(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The files of the version that is declared."""
    build_tool()
    return build.packages(copy, tmp_path_factory.mktemp("dist"), isolated=False)


@pytest.fixture(scope="package")
def built_new(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The files of version NEW."""
    build_tool()
    checkout = copied(tmp_path_factory.mktemp("new"))
    version.write(checkout, version=NEW)
    with_changes(checkout)
    return build.packages(checkout, tmp_path_factory.mktemp("dist-of-new"), isolated=False)


def with_changes(checkout: Path) -> None:
    """Commit what is there, with something to release in the CHANGELOG."""
    path = checkout / "CHANGELOG.md"
    text = path.read_text()
    if changelog.UNRELEASED not in text:
        path.write_text(text.replace("\n## ", f"\n{changelog.UNRELEASED}\n- A change.\n\n## ", 1))
    if git(checkout, "status", "--porcelain"):
        git(checkout, "commit", "--quiet", "--all", "--message", "A change")


@pytest.fixture
def own_copy(tmp_path: Path) -> Path:
    """This test's: may be changed."""
    return copied(tmp_path / "checkout")
