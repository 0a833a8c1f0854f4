"""What a bundle has of this machine: versions, the connection's settings, the ends of logs, and names of files.

Files of a log directory are listed by name and size, and never opened.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import ssl
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from odradek.cli.cluster.bundle.masking import MASK, is_secret
from odradek.cli.shared.connection_settings import ClientSettings
from odradek.client.properties import hide_secret
from odradek.foundation.support_limits import (
    SUPPORT_FILES_LISTED_MAX,
    SUPPORT_FOLDERS_DEPTH_MAX,
    SUPPORT_PACKAGES_MAX,
)
from odradek.foundation.version import __version__

Document = dict[str, object]
_OWN_VARIABLES: Final = "ODRADEK_"


def describe_versions() -> Document:
    """Versions of this program, of Python and the machine's system, and of all packages installed."""
    found = {
        str(one.metadata["Name"]): one.version
        for one in importlib.metadata.distributions()
        if one.metadata["Name"]
    }
    return {
        "odradek": __version__,
        "python": sys.version,
        "implementation": platform.python_implementation(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()),
        "openssl": ssl.OPENSSL_VERSION,
        "processors": os.cpu_count(),
        # Values may be secrets or addresses.
        "environment": sorted(name for name in os.environ if name.startswith(_OWN_VARIABLES)),
        "packages": [f"{name} {version}" for name, version in sorted(found.items())[:SUPPORT_PACKAGES_MAX]],
    }


def describe_connection(settings: ClientSettings) -> Document:
    """The client's properties with their sources, without secrets."""
    return {
        "profile": settings.profile,
        "properties": {
            name: {
                "value": MASK if is_secret(name) else hide_secret(name, value),
                "source": source,
            }
            for name, (value, source) in settings.values.items()
        },
        "warnings": list(settings.warnings),
    }


def read_end(path: Path, bytes_max: int) -> tuple[str, int]:
    """The last whole lines of a file within a bound, and how many bytes before them are left out. Raises OSError."""
    with path.open("rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is no file")
        size = file.seek(0, os.SEEK_END)
        start = max(size - bytes_max, 0)
        file.seek(start)
        data = file.read(bytes_max)
    if start:
        _, _, rest = data.partition(b"\n")
        start, data = start + len(data) - len(rest), rest
    return data.decode(errors="replace"), start


def list_files(folder: Path) -> tuple[list[Document], bool]:
    """Names, bytes and times of the files below a folder, and whether there are more. Raises OSError.

    Links are named and not followed.
    """
    found: list[Document] = []
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is no folder")
    for entry, depth in _walk(folder, 1):
        if len(found) >= SUPPORT_FILES_LISTED_MAX:
            return found, True
        try:
            about = entry.stat(follow_symlinks=False)
        except OSError as failure:  # a segment that was just deleted
            found.append({"path": os.path.relpath(entry.path, folder), "error": failure.strerror})
            continue
        found.append(
            {
                "path": os.path.relpath(entry.path, folder),
                "kind": "folder" if stat.S_ISDIR(about.st_mode) else "link" if entry.is_symlink() else "file",
                "bytes": about.st_size,
                "changed": int(about.st_mtime),
                **({"depth": "its files are not listed"} if _is_deepest(entry, depth) else {}),
            }
        )
    return found, False


def _is_deepest(entry: os.DirEntry[str], depth: int) -> bool:
    return depth >= SUPPORT_FOLDERS_DEPTH_MAX and entry.is_dir(follow_symlinks=False)


def _walk(folder: Path, depth: int) -> Iterator[tuple[os.DirEntry[str], int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry, depth
            if entry.is_dir(follow_symlinks=False) and depth < SUPPORT_FOLDERS_DEPTH_MAX:
                yield from _walk(Path(entry.path), depth + 1)
