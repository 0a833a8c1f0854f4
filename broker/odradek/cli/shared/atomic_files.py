"""Small files that are replaced as a whole: written beside their name, synced, then renamed.

After `replace_file` returns, a crash of the machine leaves the new file; before, it leaves the old one.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from odradek.foundation.syncing import sync


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` as the file `path`, readable by its owner only (mode 0600).

    Raises OSError; the old file is then unchanged.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            sync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(folder)
    finally:
        os.close(folder)
