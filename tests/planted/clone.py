"""A clone of the checkout to plant bugs in: its files as they are now, with the environment linked.

Programs of the environment, and processes that tests start, have to import the clone's packages. So the clone has an
environment of its own, of links to all that is installed but the paths of the checkout.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from tests.planted.bugs import CHECKOUT, Bug


class Clone:
    """The clone at `folder`, which is removed at the end."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="odradek-planted-")).resolve()
        self._saved: dict[str, tuple[str, float]] = {}
        self._changes = 0
        subprocess.run(
            ["git", "clone", "--quiet", "--shared", str(CHECKOUT), "."], cwd=self.folder, check=True
        )
        self._copy_uncommitted()
        (self.folder / ".cache").symlink_to(CHECKOUT / ".cache")
        self._link_environment()

    def __enter__(self) -> Clone:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def hold(self, bugs: Iterable[Bug]) -> None:
        """Have these bugs in the clone, and no others. Raises ValueError where one cannot be planted."""
        for file in list(self._saved):
            self._write(file, self._saved[file][0])
        for bug in bugs:
            path = self.folder / bug.file
            source = path.read_text(encoding="utf-8")
            self._saved.setdefault(bug.file, (source, path.stat().st_mtime))
            self._write(bug.file, bug.planted(source))

    def replace(self, file: str, source: str) -> None:
        """Have this text in a file, until `hold` is called."""
        path = self.folder / file
        self._saved.setdefault(file, (path.read_text(encoding="utf-8"), path.stat().st_mtime))
        self._write(file, source)

    def _write(self, file: str, source: str) -> None:
        # Python compares whole seconds and sizes when it looks whether a module was compiled from this text.
        self._changes += 1
        path = self.folder / file
        path.write_text(source, encoding="utf-8")
        modified = self._saved[file][1] + 10 * self._changes
        os.utime(path, (modified, modified))

    def _copy_uncommitted(self) -> None:
        for name in (
            *_listed("diff", "--name-only", "HEAD"),
            *_listed("ls-files", "--others", "--exclude-standard"),
        ):
            copied = self.folder / name
            if (CHECKOUT / name).exists():
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(CHECKOUT / name, copied)
            else:
                copied.unlink(missing_ok=True)

    def _link_environment(self) -> None:
        environment, linked = CHECKOUT / ".venv", self.folder / ".venv"
        (linked / "bin").mkdir(parents=True)
        shutil.copy2(environment / "pyvenv.cfg", linked)
        own, other = os.fsencode(linked), os.fsencode(environment)
        for program in (environment / "bin").iterdir():
            copied = linked / "bin" / program.name
            if program.is_symlink():
                copied.symlink_to(program.readlink())
            elif program.read_bytes().startswith(b"#!" + other):
                copied.write_bytes(program.read_bytes().replace(other, own, 1))
                copied.chmod(0o755)
            else:
                copied.symlink_to(program)
        (packages,) = (environment / "lib").glob("python3*/site-packages")
        links = linked / packages.relative_to(environment)
        links.mkdir(parents=True)
        for package in packages.iterdir():
            if package.suffix == ".pth":
                text = package.read_text().replace(str(CHECKOUT), str(self.folder))
                (links / package.name).write_text(text)
            else:
                (links / package.name).symlink_to(package)


def _listed(*command: str) -> list[str]:
    """The names that a command of git prints."""
    listed = subprocess.run(["git", *command, "-z"], cwd=CHECKOUT, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.split("\0") if name]
