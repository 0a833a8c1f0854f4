"""Archives of the classes that a Java program loads: with one, its next start takes about half the CPU time.

A program writes its archive when it ends. Each is made once in a checkout, whichever process of tests comes first. A
Java that makes none, or cannot use it, continues without.
"""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# A Java that cannot use an archive says so; its warnings would stand in a tool's output.
_SILENT = ("-Xlog:disable", "-Xlog:all=off:stdout")


def writing_options(file: Path) -> tuple[str, ...]:
    """Options of a Java that writes its classes to `file` when it ends by itself, or by SIGTERM."""
    return (f"-XX:ArchiveClassesAtExit={file}", *_SILENT)


def reading_options(file: Path) -> tuple[str, ...]:
    """Options of a Java that starts from the classes in `file`."""
    return (f"-XX:SharedArchiveFile={file}", *_SILENT)


def keep_class_archive(archive: Path, write: Callable[[Path], None]) -> None:
    """Have an archive. `write` runs a Java to its end that writes the file it is given.

    `write` raises TimeoutExpired for a Java that did not end: what that one may have begun to write is not kept.
    """
    with one_at_a_time(archive):
        if archive.exists():
            return
        written = archive.with_suffix(".new")
        written.unlink(missing_ok=True)
        with suppress(subprocess.TimeoutExpired):
            write(written)
            if written.exists():
                written.replace(archive)


@contextmanager
def one_at_a_time(file: Path) -> Iterator[None]:
    """Keep other processes of tests out of the block for the same file, or folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{file}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
