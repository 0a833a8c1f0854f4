"""Digests of all files of a release in one file, and a signature of that by OpenSSH.

A key of OpenSSH is what makers of releases have already, and `ssh-keygen` is what readers have. The key may be in a
file or in an agent; then its public half is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from release.build import digest
from release.commands import run

SUMS: Final = "SHA256SUMS"
NAMESPACE: Final = "odradek-release"
"""The purpose of a signature: one that was made for another is not valid."""


def write_sums(files: Sequence[Path], folder: Path) -> Path:
    """The file that `sha256sum --check` reads, in the folder of the files."""
    sums = folder / SUMS
    sums.write_text("".join(f"{digest(path)}  {path.name}\n" for path in sorted(files)))
    return sums


def sign(sums: Path, key: Path) -> Path:
    """The signature beside the file. Raises ReleaseError."""
    signature = sums.with_name(f"{sums.name}.sig")
    signature.unlink(missing_ok=True)
    run(["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(sums)], folder=sums.parent)
    return signature
