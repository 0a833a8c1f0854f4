"""The release before this checkout: its charts, and its images by a tag of their own.

No release had an operator yet. Until one has, a commit of this repository stands for it: selectors and names are final
there. Another one is named by ODRADEK_E2E_LAST_RELEASE, a commit or a tag whose images are of the series 0.1 or newer.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from e2e import boot

COMMIT = os.environ.get("ODRADEK_E2E_LAST_RELEASE", "adb0479")
IMAGES = ("broker", "operator")


def tag() -> str:
    """The tag of its images: its version, and which commit it is."""
    (declared,) = _git("grep", "-h", '^__version__ = "', COMMIT, "--", "broker/odradek").decode().splitlines()
    version = declared.split('"')[1]
    return f"{version}-{_git('rev-parse', '--short=7', COMMIT).decode().strip()}"


def unpack(folder: Path) -> Path:
    """Its tree, below the folder."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", COMMIT))) as archive:
        archive.extractall(folder, filter="data")
    return folder


def load_images(tree: Path) -> None:
    """Build its images from its own tree, and put them into the one-node cluster; elsewhere they must be there."""
    if not boot.is_one_node():
        return
    environment = {**os.environ, **boot.TO_BUILD, "TAG": tag()}
    subprocess.run([str(tree / "scripts" / "images"), *IMAGES], check=True, env=environment, timeout=1800)
    names = [f"localhost/odradek/{name}:{tag()}" for name in IMAGES]
    subprocess.run([str(boot.ONE_NODE / "load"), *names], check=True, timeout=600)


def _git(*arguments: str) -> bytes:
    done = subprocess.run(
        ["git", "-C", str(boot.CHECKOUT), *arguments], capture_output=True, check=False, timeout=60
    )
    if done.returncode != 0:
        pytest.skip(
            f"git has no {COMMIT} here, which stands for the last release: {done.stderr.decode().strip()}"
        )
    return done.stdout
